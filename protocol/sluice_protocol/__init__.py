"""What the parts of Sluice say to each other: ids and names, the topology, the heartbeat, the worker's launch contract.

Nothing here imports anything of ours, so that every part may import this.
"""
