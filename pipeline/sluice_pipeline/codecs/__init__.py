"""Bytes to columns and back: keys, JSON values, and the state of stores. Pure, and whole batches at a time."""
