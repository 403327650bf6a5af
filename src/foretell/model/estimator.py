"""A scikit-learn estimator, for pipelines, grids and cross-validation of that library."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from foretell.dataset import Dataset
from foretell.errors import ForetellError
from foretell.model.campaigns import read_campaign
from foretell.model.campaigns.fit import run_campaign
from foretell.model.run_options import RunOptions

_TARGET = "target"
_MOST_SEED = 2**31 - 1


class ForetellRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose among techniques by cross-validated search, then predict with the best.

    Parameters
    ----------
    techniques
        Names, or a dict of names to hyperparameter spaces, as in a campaign.
    features
        Options of a campaign's ``features`` section, such as ``{"inverse": ["*"]}``.
    search
        Options of a campaign's ``search`` section.
    scoring
        ``mape``, ``rmse``, or ``auto``: relative errors when all targets are positive.
    random_state
        Seed. None draws one from NumPy's global generator, and a RandomState from itself.
    n_jobs
        Worker processes.

    Examples
    --------
    >>> import numpy as np
    >>> nodes = np.array([[1.0], [2.0], [4.0], [8.0]] * 3)
    >>> model = ForetellRegressor({"LRRidge": {"alpha": 1e-6}}, features={"inverse": ["*"]})
    >>> model.fit(nodes, 10 + 80 / nodes[:, 0]).predict([[16.0]]).round(0)
    array([15.])
    """

    def __init__(
        self,
        techniques: Any = ("LRRidge", "RandomForest", "XGBoost"),
        *,
        features: dict[str, Any] | None = None,
        search: dict[str, Any] | None = None,
        scoring: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int = 1,
    ) -> None:
        self.techniques = techniques
        self.features = features
        self.search = search
        self.scoring = scoring
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:
        """Search, and fit the best model on all rows."""
        X, y = validate_data(
            self, X, y, dtype=float, y_numeric=True, ensure_min_samples=2, multi_output=False
        )
        frame = self._frame(X)
        target = _free_name(frame.columns)
        frame[target] = np.asarray(y, dtype=float)
        try:
            campaign = read_campaign(self._campaign(y, target), place="ForetellRegressor")
            options = RunOptions(n_jobs=self.n_jobs)
            self.fit_ = run_campaign(campaign, Dataset(frame, "X"), options)
        except ForetellError as error:
            raise ValueError(str(error)) from error
        self.model_ = self.fit_.best
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the target of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        return self.model_.predict(self._frame(X))

    def _frame(self, X: NDArray[np.float64]) -> pd.DataFrame:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
        return pd.DataFrame(X, columns=[str(n) for n in names])

    def _campaign(self, y: NDArray[np.float64], target: str) -> dict[str, Any]:
        techniques = self.techniques
        if isinstance(techniques, str):
            techniques = [techniques]
        if not isinstance(techniques, dict):
            techniques = {name: {} for name in techniques}
        folds = max(2, min(5, len(y)))
        score = self.scoring
        if score == "auto":
            score = "mape" if (y > 0).all() else "rmse"
        return {
            "data": {"target": target},
            "features": self.features or {},
            "search": {"splits": {"method": "KFold", "folds": folds}, **(self.search or {})},
            # scikit-learn's users validate with scikit-learn; no row is kept from the fit.
            "validation": {"method": "All"},
            "techniques": techniques,
            "score": score,
            "seed": self._seed(),
        }

    def _seed(self) -> Any:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(_MOST_SEED))


def _free_name(taken: Iterable[str]) -> str:
    """Name the target unlike every feature."""
    taken, name = set(taken), _TARGET
    while name in taken:
        name += "_"
    return name
