"""Validation: splits into training and test rows, and error scores."""
