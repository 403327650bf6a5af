"""Hyperparameter search: a grid, or Bayesian optimization with TPE."""
