"""What an automatic model says in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.automatic import explanation
from foretell.model.automatic.explanation import _flat_from, explained_share


def fit(frame, time_s, seed=0):
    noise = np.random.default_rng(seed).lognormal(0, 0.005, len(frame))
    return foretell.fit_model(frame.assign(time_s=time_s * noise), target="time_s")


def grid(**columns):
    names = list(columns)
    values = np.array(np.meshgrid(*columns.values()), dtype=float).reshape(len(names), -1).T
    return pd.DataFrame(values, columns=names)


@pytest.fixture(scope="module")
def plateau():
    """More nodes help up to eight of them."""
    frame = grid(nodes=[1, 2, 4, 8, 16, 32], size=[10, 20, 40])
    return fit(frame, 10 * frame["size"] * np.maximum(1 / frame["nodes"], 1 / 8))


@pytest.fixture(scope="module")
def law():
    frame = grid(nodes=[1, 2, 4, 8], size=[10, 20, 40, 80], threads=[1, 2])
    frame = frame.sample(frac=1, random_state=0)
    return fit(frame, 0.01 * frame["size"] ** 2 / frame["nodes"])


def test_where_a_column_stops_to_matter_is_found_and_said(plateau):
    found = plateau.results.explanation.plateaus
    assert [(p.column, p.value) for p in found] == [("nodes", 8.0)]
    assert "nodes stops mattering beyond about 8." in str(plateau)


def test_a_law_without_a_plateau_has_none(law):
    assert law.results["explanation"]["plateaus"] == []
    assert "stops mattering" not in str(law)


def test_shares_sum_to_one_and_name_what_matters_first(law):
    shares = law.results["explanation"]["shares"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.05)
    assert list(shares)[:2] == ["size", "nodes"]
    assert shares["size"] > 0.4
    assert shares.get("threads", 0) < 0.05
    assert f"What matters: size {100 * shares['size']:.1f} %" in str(law)


def test_no_column_matters_where_the_target_is_noise():
    frame = grid(nodes=[1, 2, 4, 8], size=[10, 20, 40, 80])
    noise = np.random.default_rng(3).lognormal(0, 0.1, len(frame))
    fitted = foretell.fit_model(frame.assign(time_s=10 * noise), target="time_s")
    assert fitted.results.explanation.explains < 0.05
    line = next(line for line in str(fitted).splitlines() if line.startswith("What matters"))
    assert "no column" in line and "%" not in line


def test_what_the_model_explains_is_told_on_held_out_runs(law):
    assert law.results.explanation.explains > 0.99


def test_shares_do_not_depend_on_the_order_of_the_rows():
    frame = grid(nodes=[1, 2, 4, 8], size=[10, 20, 40, 80])
    frame["time_s"] = 0.01 * frame["size"] ** 2 / frame["nodes"]
    shares = [
        foretell.fit_model(frame.sort_values(order), target="time_s").results["explanation"][
            "shares"
        ]
        for order in (["size", "nodes"], ["nodes", "size"])
    ]
    # In logarithms, the size moves the time twice as much as the nodes do: four times the variance.
    assert shares[0]["size"] == pytest.approx(shares[1]["size"], abs=1e-9)
    assert shares[0]["size"] == pytest.approx(0.8, abs=0.03)


def test_shares_of_levels_are_gathered_in_their_column():
    machine = np.tile(["a", "b", "c"], 8)
    frame = pd.DataFrame(
        {"machine": machine, "size": np.repeat([10.0, 11, 12, 13, 14, 15, 16, 17], 3)}
    )
    fitted = fit(frame, frame["machine"].map({"a": 1.0, "b": 5.0, "c": 20.0}))
    shares = fitted.results["explanation"]["shares"]
    assert next(iter(shares)) == "machine"
    assert shares["machine"] > 0.8
    assert set(shares) <= {"machine", "size"}


def test_the_law_is_written_as_a_formula_with_what_it_explains(law):
    explanation = law.results["explanation"]
    assert explanation["law"] in {"PowerLaw", "ScalingLaw"}
    assert explanation["law_explains"] > 0.99
    assert explanation["formula"].startswith("time_s ≈ ")
    assert "size" in explanation["formula"]
    assert "nodes" in explanation["formula"]
    assert explanation["formula"] in str(law)


def test_explained_share_is_that_of_the_variance_of_logarithms():
    log_y = np.array([0.0, 1.0, 2.0, 3.0])
    assert explained_share(log_y, log_y) == 1
    assert explained_share(log_y, np.full(4, 1.5)) == pytest.approx(0)
    assert explained_share(log_y, log_y[::-1]) == 0
    assert explained_share(np.ones(4), np.ones(4)) == 0  # there is nothing to explain
    half = 1.5 + (log_y - 1.5) * (1 - np.sqrt(0.5))
    assert explained_share(log_y, half) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("curve", "start"),
    [
        ([3, 2, 1, 0, 0, 0], 3),
        ([0, 1, 2, 2.01, 2.0], 2),
        ([3, 2, 1, 0], None),  # it still falls at the end
        ([3, 2, 1, 0, 0], None),  # one step may be chance
        ([3, 2, 1, 0, 0.5], None),
        ([0, 0, 0, 0], None),  # it never mattered
        ([0, 0, 0, 1], None),
    ],
    ids=str,
)
def test_a_plateau_is_flat_to_the_end_after_a_slope(curve, start):
    assert _flat_from(np.array(curve, dtype=float)) == start


def test_plateaus_are_searched_in_the_columns_that_matter_most_alone(plateau, monkeypatch):
    random = np.random.default_rng(0)
    frame = grid(nodes=[1, 2, 4, 8, 16, 32], size=[10, 20, 40])
    useless = random.uniform(1, 2, (len(frame), 60)).round(1)
    frame = frame.join(pd.DataFrame(useless).add_prefix("useless_"))
    asked = []
    curve = explanation._mean_curve
    monkeypatch.setattr(
        explanation, "_mean_curve", lambda x, j, *more: asked.append(j) or curve(x, j, *more)
    )
    fitted = foretell.fit_model(
        frame.assign(time_s=10 * frame["size"] * np.maximum(1 / frame["nodes"], 1 / 8)),
        target="time_s",
        time_limit_s=3,
    )
    names = fitted.best.feature_map.names
    assert len(asked) <= 12
    assert "nodes" in {names[j] for j in asked}
