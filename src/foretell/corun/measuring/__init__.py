"""Measuring co-runs: a set of programs in, a journal, a table of runs and traces out."""
