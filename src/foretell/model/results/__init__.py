"""What a fit leaves behind: one schema for campaigns and automatic mode, its text, its files."""

from __future__ import annotations

from foretell.model.results.schema import Results, read_results

__all__ = ["Results", "read_results"]
