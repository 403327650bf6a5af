"""Adapters: foretell for other systems; each sits behind an extra, and is imported late."""
