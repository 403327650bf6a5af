"""Passports: how far outside the data a prediction is, and how wide its interval must be."""
