"""The version of foretell, and of the numbers it computes."""

__version__ = "0.1.0"

#: Raise it in the same commit as any change after which an equal fit (same table, campaign, seed
#: and libraries) may give other numbers: trials, predictions, intervals, or what is journaled.
#: A journal of another number is refused, so that one result never mixes two. Changes of words,
#: comments, types and speed keep it.
RESULTS_VERSION = 3
