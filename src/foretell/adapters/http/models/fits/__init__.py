"""Fits that clients ask for: a queue, a process for each, and a safe place for the result."""
