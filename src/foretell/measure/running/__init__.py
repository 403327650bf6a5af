"""Making runs: one job in a process of its own, measured from outside, here or on a cluster."""
