"""Serving a network: batch size, longest wait, threads and replicas, from measured batch times."""
