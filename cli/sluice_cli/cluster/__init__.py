"""Applications on Kubernetes, as a person's commands see them: the StreamsApp, and the group at its coordinator."""
