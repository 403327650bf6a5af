"""The files in an output directory of `foretell fit`."""

from __future__ import annotations

RESULTS, SUMMARY, LEADERBOARD = "results.json", "results.txt", "leaderboard.csv"
CAMPAIGN, BEST = "campaign.toml", "best.foretell"
#: The runs behind the models, and what was predicted of those held out; samples, for reports.
RUNS, REHEARSALS = "runs.csv", "rehearsals.csv"
