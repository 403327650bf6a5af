"""The HTTP adapter: a small server in front, and processes of their own that hold the models."""
