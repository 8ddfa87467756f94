"""Sluice on Kubernetes: StreamsApps, their pods and volumes, the coordinator of every application, one leader."""
