"""Kubernetes: the node for each pod of a live cluster, by the same choosers as the simulator."""
