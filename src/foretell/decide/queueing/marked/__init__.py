"""Exact formulas for jobs that arrive by a Markov process with states, in bursts (MMAP)."""
