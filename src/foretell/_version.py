"""The version of foretell, which results and models tell."""

__version__ = "0.1.0"
