"""Placement: the node for each task, by the time and energy predicted on each type of node."""
