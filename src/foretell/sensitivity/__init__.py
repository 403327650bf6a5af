"""Sensitivity: shares of variance, exact on a grid of runs, and by sampling a function."""
