"""Keyed state on the worker's disk: one RocksDB per store and task, in a directory that says what it belongs to."""
