"""Hyperparameter searches: schedulers, spaces, epoch times; only by contract."""
