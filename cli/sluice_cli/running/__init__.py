"""What runs on this machine, as every command sees it: run directories, the supervisor's API, and its client.

Light: the standard library alone, so that `sluice status` and `sluice scale` are quick and need no extra.
"""
