"""Trees: single, averaged, boosted and randomized; saved as flat arrays."""
