"""Spark: jobs that read a part of their partitions, a driver that stays, and its event logs."""
