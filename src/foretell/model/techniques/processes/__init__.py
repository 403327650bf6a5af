"""Gaussian processes of log times."""
