"""What fitting returns, and the files it leaves: the same for campaigns and automatic mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from foretell.files.directory import write_whole
from foretell.model import directory as layout
from foretell.model.campaigns.schema import Campaign
from foretell.model.campaigns.toml import write_toml
from foretell.model.evidence import evidence_files
from foretell.model.results.schema import Results
from foretell.model.results.text import leaderboard_frame, results_text
from foretell.model.saved.model import SavedModel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from foretell.model.automatic.record import AutomaticRecord
    from foretell.model.campaigns.record import Record
    from foretell.predictor import Forecast, Outlook


@dataclass(eq=False)
class Fit:
    """A finished fit: its models, the best one in front, and what is known about them.

    It is a predictor itself, by its best model, and can be planned with.

    Attributes
    ----------
    models
        The models by name, the best first.
    results
        What ``results.json`` holds.
    campaign
        The campaign that was run; in automatic mode, the one it stands for.
    directory
        Where the files are, if an output directory was given.
    """

    models: dict[str, SavedModel]
    results: Results
    campaign: Campaign
    directory: Path

    @property
    def kind(self) -> Literal["automatic", "campaign"]:
        """Whether automatic mode or a campaign made it."""
        return self.results.kind

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.results.data.target

    @property
    def columns(self) -> list[str]:
        """The columns that the best model needs."""
        return self.best.columns

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The smallest and largest value of each numeric column in training."""
        return self.best.ranges

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The levels of each category in training."""
        return self.best.categories

    @property
    def n_rows(self) -> int:
        """How many rows the best model was trained on."""
        return self.best.n_rows

    @property
    def has_intervals(self) -> bool:
        """Whether predictions of the best model have intervals."""
        return self.best.has_intervals

    @property
    def best(self) -> SavedModel:
        """The best model: the ensemble, or the technique with the least selection error."""
        assert self.results.best is not None
        return self.models[self.results.best]

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Predict with the best model."""
        return self.best.predict(frame)

    def forecast(self, frame: pd.DataFrame, interval: float = 0.9) -> Forecast:
        """Predict with the best model, with intervals and passports."""
        return self.best.forecast(frame, interval)

    def outlook(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Outlook:
        """Predict many rows with the best model, with the quantiles that are asked for."""
        return self.best.outlook(frame, probabilities)

    def outside(self, frame: pd.DataFrame) -> list[str]:
        """Say for each row which columns leave the training data of the best model."""
        return self.best.outside(frame)

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """One row per technique, best first."""
        return leaderboard_frame(self.results)

    def __repr__(self) -> str:
        return results_text(self.results)


#: The name in 0.1.0 of what automatic mode returns.
AutomaticFit = Fit


def write_fit(record: AutomaticRecord | Record, directory: Path, elapsed_s: float) -> Fit:
    """Write what a fit leaves behind besides its models, each file whole, and return it."""
    results = record.results(elapsed_s)
    fit = Fit(record.models, results, record.campaign, directory)
    if results.best is not None:
        best = directory / layout.model_file(results.best)
        write_whole(directory / layout.BEST, best.read_bytes())
    else:
        (directory / layout.BEST).unlink(missing_ok=True)  # an earlier, shorter run left it
    texts = {
        layout.LEADERBOARD: fit.leaderboard.to_csv(index=False),
        layout.SUMMARY: results_text(results, details=True),
        **evidence_files(record.table, results.data.target, record.held_out()),
    }
    if not results.is_automatic:
        table = Path(results.data.name)  # so named that it is found from anywhere, if it is a file
        campaign = fit.campaign.with_path(table) if table.is_file() else fit.campaign
        texts[layout.CAMPAIGN] = write_toml(campaign)
    texts[layout.RESULTS] = results.to_text()  # the last: it says that the fit is finished
    for name, text in texts.items():
        write_whole(directory / name, text.encode())
    return fit
