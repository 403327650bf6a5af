"""The automatic residual: foretell's own automatic mode on what the fluid model leaves over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from foretell.corun.models.features import FEATURES, features
from foretell.corun.models.residual import fluid_times

if TYPE_CHECKING:
    from foretell.corun.models.cases import Case

_MOST = math.exp(0.5)  # of the factor: a residual must not take over


class AutomaticResidual:
    """The fluid model times a factor, by automatic mode: measured over fluid time."""

    name: ClassVar[str] = "fluid and automatic"

    def __init__(self) -> None:
        self._model: Any = None

    def fit(self, cases: Sequence[Case]) -> None:
        """Fit the factor from summaries of jobs and neighbors."""
        from foretell.model.estimator import ForetellRegressor

        table = pd.concat([_rows(case) for case in cases], ignore_index=True)
        factors = [
            wall_s / fluid_s
            for case in cases
            for wall_s, fluid_s in zip(case.walls_s, fluid_times(case), strict=True)
        ]
        self._model = ForetellRegressor().fit(table, np.array(factors))

    def predict(self, case: Case) -> list[float]:
        """Return the times of the fluid model times the factor."""
        factors = np.clip(self._model.predict(_rows(case)), 1 / _MOST, _MOST)
        return [float(f * t) for f, t in zip(factors, fluid_times(case), strict=True)]


def _rows(case: Case) -> pd.DataFrame:
    rows = [features(case.jobs, case.fluid, k) for k in range(len(case.jobs))]
    return pd.DataFrame(rows, columns=list(FEATURES))
