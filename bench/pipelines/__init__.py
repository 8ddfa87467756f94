"""Pipelines that the benches run."""
