"""Moves of running pods: to better nodes, within limits, and never at the price of the pod."""
