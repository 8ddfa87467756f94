"""Everything that talks to the Kubernetes API: client, elector, watches, the loop of each application."""
