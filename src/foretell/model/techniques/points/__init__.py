"""What techniques of automatic mode share: runs merged into points, their coordinates, and grids of rows."""
