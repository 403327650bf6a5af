"""The contract of techniques."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.campaigns.search.priors import parse_prior
from foretell.model.techniques import (
    Hyperparameter,
    Regressor,
    State,
    Technique,
    TrainingRows,
    complete,
)

Array = NDArray[np.float64]

_SEED = 7
_PLAIN_KINDS = "biuf"  # truth values, whole numbers, real numbers
_PATH_VALUES = (3, 8)


def check_technique(technique: Technique | type[Technique]) -> None:
    """Raise AssertionError, saying what was expected, unless a technique keeps its contract.

    >>> from foretell.model.techniques.linear.dummy import DummyTechnique
    >>> check_technique(DummyTechnique)
    """
    instance = technique() if isinstance(technique, type) else technique
    _check_declaration(instance)
    for hyperparameter in instance.hyperparameters:
        _check_hyperparameter(hyperparameter)
    _check_fit(instance)
    _check_saved_form(instance)
    if instance.path is not None:
        _check_path(instance, instance.path)
    _check_merging(instance)
    _check_settings(instance)


def example_rows() -> TrainingRows:
    """Return repeated runs of positive features and target, the same on each call."""
    random = np.random.default_rng(20)
    configurations = random.uniform(1, 20, size=(25, 4)).round(2)
    x = np.repeat(configurations, random.integers(1, 5, size=25), axis=0)
    x = x[random.permutation(len(x))]
    y = 40 + 90 * x[:, 0] / x[:, 1] + 3 * x[:, 2] + random.normal(scale=2, size=len(x))
    return TrainingRows(x, y, np.ones(len(y)))


def merged(rows: TrainingRows) -> TrainingRows:
    """Merge the repeats of each configuration into one row of their mean and number."""
    x, group, count = np.unique(rows.x, axis=0, return_inverse=True, return_counts=True)
    y = np.bincount(group.ravel(), weights=rows.y) / count
    return TrainingRows(x, y, count.astype(np.float64))


def _fit(technique: Technique, rows: TrainingRows, **params: Any) -> Regressor:
    return technique.fit(technique.prepare(rows), complete(technique, params), _SEED)


def _check_declaration(technique: Technique) -> None:
    name = getattr(technique, "name", "")
    assert isinstance(name, str) and name, "the class must have a name, such as name = 'LRRidge'"
    base = getattr(technique, "regressor", None)
    assert isinstance(base, type) and issubclass(base, Regressor), (
        f"{name}: 'regressor' must be the subclass of Regressor that rebuilds saved models"
    )
    names = [h.name for h in technique.hyperparameters]
    assert len(set(names)) == len(names), f"{name}: a hyperparameter is declared twice in {names}"
    assert technique.path is None or technique.path in names, (
        f"{name}: 'path' must name a hyperparameter, not {technique.path!r}"
    )
    assert technique.limit is None or technique.limit in names, (
        f"{name}: 'limit' must name a hyperparameter, not {technique.limit!r}"
    )


def _check_hyperparameter(hyperparameter: Hyperparameter) -> None:
    written = [hyperparameter.default, *hyperparameter.grid]
    for value in [*written, *_ends(hyperparameter.prior)]:
        label = f"hyperparameter {hyperparameter.name}, value {value!r}"
        try:
            once = hyperparameter.read(value)
            twice = hyperparameter.read(once)
        except (ValueError, TypeError) as error:
            raise AssertionError(
                f"{label}: it is offered by default, but refused: {error}"
            ) from None
        assert twice == once, f"{label}: what was read must read as itself, not as {twice!r}"
        assert json.loads(json.dumps(once)) == once, f"{label}: {once!r} must be a JSON value"


def _ends(prior: str | None) -> Iterable[Any]:
    """Give the extreme values of a prior, or its options."""
    if prior is None:
        return []
    parsed = parse_prior(prior)
    assert parsed is not None, f"{prior!r} must be a prior, such as 'loguniform(0.01,1)'"
    if parsed.options is not None:
        return parsed.options
    return [parsed.shape(end) for end in parsed.bounds or parsed.whole_bounds or ()]


def _check_fit(technique: Technique) -> None:
    name, rows = technique.name, example_rows()
    kept = [array.copy() for array in (rows.x, rows.y, rows.weight)]
    prepared = technique.prepare(rows)
    params = complete(technique, {})
    first = technique.fit(prepared, params, _SEED)
    asked = rows.x.copy()
    predicted = first.predict(asked)
    assert predicted.shape == rows.y.shape, (
        f"{name}: predict must return shape {rows.y.shape}, not {predicted.shape}"
    )
    assert predicted.dtype == np.float64, f"{name}: predict must return float64"
    assert np.isfinite(predicted).all(), f"{name}: predictions must be finite on ordinary data"
    assert np.array_equal(asked, rows.x), f"{name}: predict must not change its argument"
    for before, after in zip(kept, (rows.x, rows.y, rows.weight), strict=True):
        assert np.array_equal(before, after), f"{name}: a fit must not change the training rows"
    again = technique.fit(prepared, params, _SEED).predict(rows.x)
    assert np.array_equal(predicted, again), f"{name}: the same seed must give the same model"
    afresh = technique.fit(technique.prepare(example_rows()), params, _SEED).predict(rows.x)
    assert np.array_equal(predicted, afresh), f"{name}: earlier fits must leave no trace"


def _check_saved_form(technique: Technique) -> None:
    name, rows = technique.name, example_rows()
    fitted = _fit(technique, rows)
    state = fitted.to_state()
    for key, array in state.arrays.items():
        assert array.dtype.kind in _PLAIN_KINDS, (
            f"{name}: the array '{key}' of the state must be plain numbers, not {array.dtype}"
        )
    saved = State(json.loads(json.dumps(state.values, allow_nan=False)), dict(state.arrays))
    rebuilt = technique.regressor.from_state(saved, rows.x.shape[1])
    for n_rows in (0, 1, len(rows.x)):
        expected, found = fitted.predict(rows.x[:n_rows]), rebuilt.predict(rows.x[:n_rows])
        assert found.shape == (n_rows,), f"{name}: {n_rows} rows must give {n_rows} predictions"
        _same(found, expected, 1e-5, f"{name}: a saved and rebuilt model must predict the same")
    assert rebuilt.notes() == fitted.notes(), f"{name}: a saved model must keep its notes"
    for part in ("importances", "coefficients"):
        before, after = getattr(fitted, part)(), getattr(rebuilt, part)()
        assert (before is None) == (after is None), f"{name}: a saved model must keep its {part}"
    shares = fitted.importances()
    assert shares is None or (shares.shape == rows.x.shape[1:] and np.isclose(shares.sum(), 1)), (
        f"{name}: importances must be one share per feature, summing to one"
    )
    _check_refusals(technique, saved, rows.x.shape[1])


def _check_refusals(technique: Technique, state: State, n_features: int) -> None:
    def refused(damaged: State, n_features: int, damage: str) -> None:
        try:
            technique.regressor.from_state(damaged, n_features)
        except ValueError:
            return
        except Exception as error:
            kind = type(error).__name__
            raise AssertionError(
                f"{technique.name}: from_state must raise ValueError, not {kind}, for {damage}"
            ) from error
        raise AssertionError(f"{technique.name}: from_state must refuse {damage}")

    for wrong in (n_features - 1, n_features + 1):
        refused(state, wrong, f"a state of {n_features} features where {wrong} are asked for")
    for key in state.values:
        others = {k: v for k, v in state.values.items() if k != key}
        refused(State(others, state.arrays), n_features, f"a state without the value '{key}'")
    for key, array in state.arrays.items():
        others = {k: v for k, v in state.arrays.items() if k != key}
        refused(State(state.values, others), n_features, f"a state without the array '{key}'")
        for damage, change in _DAMAGES.items():
            if array.size and (changed := change(array)) is not None:
                damaged = State(state.values, {**others, key: changed})
                refused(damaged, n_features, f"the array '{key}' {damage}")


_DAMAGES: dict[str, Callable[[NDArray[Any]], NDArray[Any] | None]] = {
    "cut short": lambda array: array[:-1],
    "with an axis too many": lambda array: array[None],
    "of texts": lambda array: array.astype(str),
    "of objects": lambda array: array.astype(object),
    "of NaN": lambda array: np.full_like(array, np.nan) if array.dtype.kind == "f" else None,
}


def _check_path(technique: Technique, path: str) -> None:
    rows = example_rows()
    small, large = _PATH_VALUES
    params = {path: large}
    short = _fit(technique, rows, **{path: small}).predict(rows.x)
    cut = _fit(technique, rows, **params).at(small).predict(rows.x)
    _same(cut, short, 1e-12, f"{technique.name}: at({small}) must equal a fit with {path} {small}")


def _check_merging(technique: Technique) -> None:
    if not technique.merges_repeats(complete(technique, {})):
        return
    rows = example_rows()
    apart, together = _fit(technique, rows), _fit(technique, merged(rows))
    message = f"{technique.name}: merges_repeats holds, so merged repeats must give the same model"
    _same(together.predict(rows.x), apart.predict(rows.x), 1e-5, message)


def _check_settings(technique: Technique) -> None:
    """Fit each default value beside defaults: where settings say so, models must be the same."""
    rows = example_rows()
    points = [
        complete(technique, {h.name: value})
        for h in technique.hyperparameters
        for value in (h.default, *h.grid)
        if h.name != technique.path
    ]
    made: dict[str, tuple[Any, Array]] = {}
    for params in points:
        settings = dict(technique.settings(params, *rows.x.shape))
        missing = {technique.path, technique.limit} - {None, *settings}
        assert not missing, f"{technique.name}: settings must include {missing}"
        key = json.dumps([settings, technique.merges_repeats(params)], sort_keys=True)
        if key in made and made[key][0] == params:
            continue
        predicted = _fit(technique, rows, **params).predict(rows.x)
        before, expected = made.setdefault(key, (params, predicted))
        message = f"{technique.name}: {before} and {params} have the same settings, {settings}"
        _same(predicted, expected, 0.0, f"{message}, so they must give the same model")


def _same(found: Array, expected: Array, tolerance: float, message: str) -> None:
    scale = np.abs(expected).max(initial=0.0)
    off = np.abs(found - expected).max(initial=0.0)
    assert off <= tolerance * scale, f"{message}; they differ by {off:g} at a size of {scale:g}"
