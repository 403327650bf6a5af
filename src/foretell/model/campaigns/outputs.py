"""What a fit returns and leaves behind: results, leaderboard, campaign, models."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.files.directory import write_whole
from foretell.model import directory as layout
from foretell.model.campaigns import Campaign
from foretell.model.campaigns.summary import leaderboard_table, summary_text
from foretell.model.campaigns.toml import write_toml
from foretell.model.evidence import evidence_files, of_validation
from foretell.model.results import Record
from foretell.model.saved.model import SavedModel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


class Fit:
    """A finished campaign: its models, the best one in front, and everything measured on the way.

    Attributes
    ----------
    results
        What ``results.json`` holds.
    """

    def __init__(self, record: Record, directory: Path, *, elapsed_s: float) -> None:
        self.directory = directory
        self.campaign = record.campaign
        self.models: dict[str, SavedModel] = {
            e.technique: e.model for e in record.ranked() if e.model is not None
        }
        self.results: dict[str, Any] = record.to_json(elapsed_s)

    @property
    def best(self) -> SavedModel:
        """The model of the technique with the least selection error."""
        return self.models[self.results["best"]]

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Predict with the best model."""
        return self.best.predict(frame)

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """One row per technique, best first."""
        return leaderboard_table(self.results)

    def __repr__(self) -> str:
        return summary_text(self.results)


def write_outputs(fit: Fit, record: Record) -> None:
    """Write what a fit leaves behind, each file whole."""
    output, results = fit.directory, fit.results
    texts = {
        layout.CAMPAIGN: write_toml(_runnable(fit.campaign, Path(results["data"]["name"]))),
        layout.LEADERBOARD: fit.leaderboard.to_csv(index=False),
        layout.SUMMARY: summary_text(results, details=True),
        **_evidence(record),
        layout.RESULTS: json.dumps(results, indent=1, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_whole(output / name, text.encode())
    if results["best"] is not None:
        best = output / f"{results['best']}.foretell"
        write_whole(output / layout.BEST, best.read_bytes())
    else:
        (output / layout.BEST).unlink(missing_ok=True)  # left by an earlier run on less


def _evidence(record: Record) -> dict[str, str]:
    held_out = of_validation(record.table, record.plan, record.ranked()[0])
    return evidence_files(record.table, record.campaign.data.target, list(held_out))


def _runnable(campaign: Campaign, table: Path) -> Campaign:
    """Name the table so that it is found from anywhere, if it came from a file."""
    return campaign.with_path(table) if table.is_file() else campaign
