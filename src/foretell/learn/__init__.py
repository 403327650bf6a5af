"""Loops that use several stages: measure, fit and advise in turns."""
