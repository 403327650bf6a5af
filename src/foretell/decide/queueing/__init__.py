"""Queues: response times by class of jobs, what to drop, and when to sprint; only by contract."""
