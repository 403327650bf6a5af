"""Runs merged into points, their coordinates, and grids of rows: shared by several techniques."""
