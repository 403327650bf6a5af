"""Drift: it is noticed where runs have changed, and not claimed where they have not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.dataset import Dataset
from foretell.errors import DatasetError, UsageError
from foretell.model.drift import check_drift, is_since
from foretell.predictor import Forecast


def forecast(n, expected, value=100.0):
    return Forecast(
        value=np.full(n, value),
        lower=np.full(n, np.nan),
        upper=np.full(n, np.nan),
        outside=[""] * n,
        expected_error=np.broadcast_to(expected, n).astype(float),
        trust=np.full(n, "inside", dtype=object),
        along={},
    )


def drift(truth, *, expected=0.09, configuration=None, value=100.0):
    truth = np.array(truth, dtype=float)
    n = len(truth)
    groups = np.arange(n) if configuration is None else np.array(configuration)
    return check_drift(forecast(n, expected, value), truth, groups, n)


def rehearsed(n, seed, expected=0.09):
    """Draw runs that are off as rehearsed: log residuals of Laplace, of the size expected."""
    random = np.random.default_rng(seed)
    return 100 * np.exp(random.laplace(0, np.log1p(expected), n))


# The rule


def test_runs_as_far_off_as_rehearsed_are_no_drift():
    for n in (1, 2, 5, 20, 100):
        n_alarms = sum(bool(drift(rehearsed(n, seed)).has_drifted) for seed in range(300))
        assert n_alarms <= 3  # 1 %


@pytest.mark.parametrize(("factor", "n"), [(1.31, 20), (1 / 1.31, 20), (1.6, 5), (2.0, 2)])
def test_runs_that_have_become_slower_or_faster_are_drift(factor, n):
    noticed = [drift(factor * rehearsed(n, seed, 0.03)).has_drifted for seed in range(100)]
    assert all(noticed)


def test_smaller_drift_is_noticed_with_more_runs():
    def share(n):
        return np.mean([drift(1.2 * rehearsed(n, seed)).has_drifted for seed in range(100)])

    assert share(3) < 0.3
    assert share(100) > 0.9


def test_repeats_of_one_configuration_count_once():
    slow = [130.0] * 40
    assert not drift(slow, configuration=[0] * 40).has_drifted
    assert drift(slow).has_drifted
    assert drift(slow, configuration=[0] * 40).n_configurations == 1
    # One configuration is enough where it is off far more than any rehearsal.
    assert drift([200.0] * 3, configuration=[0] * 3).has_drifted


def test_one_odd_run_among_several_is_no_drift():
    truth = rehearsed(10, seed=1)
    truth[3] *= 1000
    assert not drift(truth).has_drifted
    repeats = [100.0, 101, 5000]
    assert not drift(repeats, configuration=[0] * 3).has_drifted


def test_tiny_errors_are_no_drift_however_small_the_rehearsed_ones():
    assert not drift([100.5] * 50, expected=1e-6).has_drifted


def test_runs_where_nothing_was_rehearsed_do_not_count():
    expected = np.array([0.05, np.nan, np.nan, 0.05])
    found = drift([100.0, 900, 900, 100], expected=expected)
    assert (found.n_runs, found.has_drifted) == (2, False)
    unknown = drift([900.0], expected=np.nan)
    assert (unknown.n_runs, unknown.has_drifted, unknown.ratio) == (0, None, None)
    assert "not known" in str(unknown)


@pytest.mark.parametrize("value", [-50.0, 0.0])
def test_predictions_that_are_not_positive_are_drift(value):
    found = drift([100.0] * 5, value=value, expected=3.0)
    assert found.has_drifted
    assert np.isfinite([found.error, found.ratio]).all()


def test_runs_without_a_finite_prediction_give_no_verdict():
    found = drift([100.0] * 5, value=np.nan)
    assert (found.has_drifted, found.ratio, found.error) == (None, None, None)


def test_errors_and_verdict_are_told():
    found = drift([131.0] * 40)
    assert found.error == pytest.approx(1 - 100 / 131)
    assert found.rehearsed_error == pytest.approx(0.09)
    assert str(found).startswith("Drifted: 24 % off against 9 % rehearsed, on 40 runs")
    assert str(drift([105.0] * 40)).startswith("No drift: 4.8 % off against 9 % rehearsed")


# A real model


def time_of(frame):
    return 5 + 3 * frame["size"] / frame["nodes"] ** 0.9 + 0.4 * frame["nodes"]


def test_real_model_drifts_when_the_machine_does(tmp_path):
    random = np.random.default_rng(0)

    def runs(n, factor=1.0):
        frame = pd.DataFrame(
            {"nodes": random.choice([1, 2, 4, 8], n), "size": random.choice([10, 20, 40, 80], n)}
        )
        return frame.assign(time_s=factor * time_of(frame) * random.lognormal(0, 0.05, n))

    foretell.fit_model(runs(60), target="time_s", output=tmp_path)
    model = foretell.load_model(tmp_path)

    def has_drifted(frame):
        groups = frame.groupby(["nodes", "size"]).ngroup().to_numpy()
        truth = frame["time_s"].to_numpy()
        return check_drift(model.forecast(frame), truth, groups, len(frame)).has_drifted

    assert not any(has_drifted(runs(n)) for n in (1, 4, 20, 60) for _ in range(10))
    assert all(has_drifted(runs(n, 1.5)) for n in (10, 40) for _ in range(10))


# Which rows


def dataset(**columns):
    return Dataset(pd.DataFrame(columns), "runs.csv")


@pytest.mark.parametrize(
    ("column", "since", "expected"),
    [
        ([3, 1, 2], 2, [True, False, True]),
        ([3, 1, 2], "2.5", [True, False, False]),
        (["3", "1", "10"], "3", [True, False, True]),
        (["2026-05-31", "2026-06-01", "2026-06-01T10:00:00"], "2026-06-01", [False, True, True]),
        (["2026-05-31", "2026-06-01T01:00+02:00"], "2026-06-01", [False, False]),
    ],
)
def test_rows_since_a_value_are_found_among_numbers_and_dates(column, since, expected):
    table = dataset(when=column)
    if any(expected):
        assert is_since(table, {"when": since}).tolist() == expected
    else:
        with pytest.raises(DatasetError, match="no row since when=2026-06-01"):
            is_since(table, {"when": since})


def test_last_rows_are_taken():
    table = dataset(when=[1, 2, 3])
    assert is_since(table, 2).tolist() == [False, True, True]
    for n in (0, 4, -1):
        with pytest.raises(UsageError, match="from 1 to 3"):
            is_since(table, n)


@pytest.mark.parametrize(
    ("column", "since", "words"),
    [
        (["a", "b"], "a", "neither numbers nor dates"),
        (["2026-06-01", "01/07/2026"], "2026-06-01", "01/07/2026"),
        (["2026-06-01", "2026-07-01"], "June", "write one as 2026-06-01"),
        ([1, 2], "2026-06-01", "holds numbers"),
        ([1, None], "1", "row 2"),
    ],
)
def test_columns_that_cannot_be_compared_are_refused(column, since, words):
    with pytest.raises((UsageError, DatasetError), match=words):
        is_since(dataset(when=column), {"when": since})


def test_column_that_does_not_exist_is_refused():
    with pytest.raises(DatasetError, match="Did you mean 'when'"):
        is_since(dataset(when=[1], other=[2]), {"wen": 1})
    with pytest.raises(UsageError, match="one column"):
        is_since(dataset(when=[1]), {"when": 1, "other": 2})
