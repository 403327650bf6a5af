"""The names of the files in an output directory of a fit."""

from __future__ import annotations

RESULTS, SUMMARY, LEADERBOARD = "results.json", "results.txt", "leaderboard.csv"
CAMPAIGN, BEST = "campaign.toml", "best.foretell"
#: Samples of the runs behind the models, and of what was predicted of runs held out; for reports.
RUNS, REHEARSALS = "runs.csv", "rehearsals.csv"


def model_file(name: str) -> str:
    """Return the file of a model."""
    return f"{name}.foretell"
