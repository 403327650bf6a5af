"""Clusters, for users: place a task, simulate policies; here cluster files meet fitted models."""
