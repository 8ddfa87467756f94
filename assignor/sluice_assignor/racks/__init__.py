"""Traffic between racks, and how placement saves it (KIP-925)."""
