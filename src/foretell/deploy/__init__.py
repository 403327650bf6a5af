"""Serving a network, for users: measure few batch times, and choose how to serve it."""
