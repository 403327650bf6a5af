"""Queues, for users: response times by class; class files meet models, tables and event logs."""
