"""Forecasts: graphs built without running bodies, times of tasks, and the graph played."""
