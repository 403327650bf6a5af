"""Maintenance of models: completed tasks are stored, and models that got worse are refitted."""
