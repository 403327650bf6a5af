"""Saved models: the file, its header, the model to predict with, and its export."""
