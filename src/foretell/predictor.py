"""Contract 2: what the decide stage and users need of any model, wherever it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


@runtime_checkable
class Predictor(Protocol):
    """Predicts a target from configurations, and knows the range it was trained on."""

    @property
    def target(self) -> str:
        """The name of what is predicted, with its unit."""

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs."""

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The smallest and largest value of each numeric column in training."""

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return one positive prediction per configuration, in the order of the rows."""

    def outside(self, frame: pd.DataFrame) -> list[str]:
        """Say for each configuration in which columns it leaves the training data, and how far."""
