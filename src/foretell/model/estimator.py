"""A scikit-learn estimator, for that library's pipelines, searches and cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from foretell.dataset import Dataset
from foretell.errors import ForetellError
from foretell.model.fit import FitRequest
from foretell.model.run_options import RunOptions

if TYPE_CHECKING:
    from foretell.predictor import Forecast

_TARGET = "target"
_MOST_SEED = 2**31 - 1
_MOST_FOLDS = 5


class ForetellRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit in automatic mode, or by a campaign, and predict with the best model.

    Parameters
    ----------
    campaign
        None is automatic mode, which needs positive targets. Otherwise the sections of a campaign
        as a dict, without ``data``: ``techniques``, and ``features``, ``search`` and others where
        wanted. By default it searches on five folds, validates nothing (scikit-learn's users
        validate with scikit-learn) and scores by relative errors when all targets are positive.
    random_state
        Seed. None draws one from NumPy's global generator, and a RandomState from itself.
    n_jobs
        Worker processes.

    Attributes
    ----------
    model_
        The model that predicts, a SavedModel.
    fit_
        Everything about the fit, as ``fit_model`` returns it.

    Notes
    -----
    X may be a DataFrame with columns of text, which are categories. Intervals and expected errors
    of ``forecast`` come from rows held out while fitting, never from training errors.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"nodes": [1.0, 2, 4, 8] * 4, "zone": ["east"] * 8 + ["west"] * 8})
    >>> y = (10 + 80 / X["nodes"]) * X["zone"].map({"east": 1, "west": 2})
    >>> model = ForetellRegressor().fit(X, y)
    >>> bool(95 < model.predict(pd.DataFrame({"nodes": [2.0], "zone": ["west"]}))[0] < 105)
    True
    """

    def __init__(
        self,
        campaign: dict[str, Any] | None = None,
        *,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int = 1,
    ) -> None:
        self.campaign = campaign
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on all rows."""
        frame, y = self._training_rows(X, y)
        target = _free_name(frame.columns)
        dataset = Dataset(frame.assign(**{target: y}), "X")
        if self.campaign is None:
            request = FitRequest(dataset, target=target, seed=self._seed())
        else:
            request = FitRequest(self._completed(y, target), dataset, seed=self._seed())
        with _as_value_errors():
            fitted = request.run(RunOptions(n_jobs=self.n_jobs))
        assert not isinstance(fitted, dict)  # there is one target
        self.fit_, self.model_ = fitted, fitted.best
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the target of each row."""
        check_is_fitted(self)
        with _as_value_errors():
            return self.model_.predict(self._frame(X))

    def forecast(self, X: Any, interval: float = 0.9) -> Forecast:
        """Predict with intervals, and say how far outside the training rows each row is."""
        check_is_fitted(self)
        with _as_value_errors():
            return self.model_.forecast(self._frame(X), interval)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.campaign is None
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _training_rows(self, X: Any, y: Any) -> tuple[pd.DataFrame, NDArray[np.float64]]:
        if _has_text(X):
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None")
            y = column_or_1d(y, dtype=float, warn=True)
            assert_all_finite(y, input_name="y")
            check_consistent_length(X, y)
            return self._frame(X, reset=True), y
        X, y = validate_data(
            self, X, y, dtype=float, y_numeric=True, ensure_min_samples=2, multi_output=False
        )
        return self._named(X), np.asarray(y, dtype=float)

    def _frame(self, X: Any, *, reset: bool = False) -> pd.DataFrame:
        if _has_text(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return pd.DataFrame(X).rename(columns=str).reset_index(drop=True)
        return self._named(validate_data(self, X, dtype=float, reset=reset))

    def _named(self, X: NDArray[np.float64]) -> pd.DataFrame:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
        return pd.DataFrame(X, columns=[str(n) for n in names])

    def _completed(self, y: NDArray[np.float64], target: str) -> dict[str, Any]:
        """Return the whole campaign."""
        if not isinstance(self.campaign, Mapping):
            raise ValueError(
                "campaign must be None, for automatic mode, or a dict such as "
                f"{{'techniques': {{'LRRidge': {{}}}}}}, not {self.campaign!r}"
            )
        given = dict(self.campaign)
        folds = max(2, min(_MOST_FOLDS, len(y)))
        search = {"splits": {"method": "KFold", "folds": folds}, **given.pop("search", {})}
        return {
            "validation": {"method": "All"},
            "score": "mape" if (y > 0).all() else "rmse",
            **given,
            "data": {"target": target},
            "search": search,
        }

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(_MOST_SEED))


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Raise ValueErrors, which scikit-learn and its users expect of bad rows and options."""
    try:
        yield
    except ForetellError as error:
        raise ValueError(error.text) from error


def _has_text(X: Any) -> bool:
    """Whether this is a DataFrame with columns that are not numbers."""
    if not isinstance(X, pd.DataFrame):
        return False
    return not all(pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes)


def _free_name(taken: Iterable[str]) -> str:
    """Return a name for the target that no feature has."""
    taken, name = set(taken), _TARGET
    while name in taken:
        name += "_"
    return name
