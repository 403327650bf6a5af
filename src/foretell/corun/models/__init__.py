"""Models of co-runs: baselines, the fluid model, what is learned on top, and how good each is."""
