"""Everything that talks to the Kubernetes API: client, elector, certificates, tokens, memory."""
