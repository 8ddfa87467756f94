"""What the strategy Optimal is made of: what a placement costs, the flow that finds the cheapest, and its step."""
