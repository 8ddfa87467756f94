"""What the strategy Optimal is made of: what a placement costs, and the flow that finds the cheapest."""
