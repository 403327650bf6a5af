"""A process through the runs that were made."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.advise.belief import explanations
from foretell.decide.advise.belief.coordinates import Coordinates
from foretell.decide.advise.belief.drawn_laws import DrawnLaws
from foretell.decide.advise.belief.explanations import Process
from foretell.decide.advise.past_runs import PastRuns

from ...conftest import Law

CLUSTER = Law(
    ranges={"nodes": (1.0, 32.0), "memory_gb": (1.0, 32.0)}, categories={"kind": ["a", "b"]}
)


def process_of(frame, time_s=None, law=CLUSTER):
    data = None if time_s is None else frame.assign(time_s=np.asarray(time_s, dtype=float))
    past = PastRuns.of(data, [law])
    return Process.of(Coordinates.of([law]), past, "time_s", 0)


def clusters(*rows):
    return pd.DataFrame(rows, columns=["nodes", "memory_gb", "kind"])


def grid(*nodes):
    return clusters(*((n, m, "a") for n in nodes for m in nodes))


def test_before_any_run_what_is_near_is_alike():
    process = process_of(clusters())
    assert process.n_runs == 0
    alike = process.alike(clusters((1, 1, "a"), (2, 1, "a"), (32, 1, "a"), (1, 1, "b")), 10, 0)[0][
        0
    ]
    assert alike[0] == pytest.approx(1)
    assert 1 > alike[1] > alike[2] > 0
    assert alike[3] == pytest.approx(0.5, abs=0.02)  # two levels share half of an error


def test_where_runs_were_made_their_results_are_expected():
    frame = grid(1, 4, 32)
    time_s = np.array([50, 40, 9, 700, 30, 8, 20, 6, 5.0])
    mean, deviation = process_of(frame, time_s).at(frame)
    np.testing.assert_allclose(mean, np.log(time_s), atol=0.05)
    assert (deviation < 0.06).all()  # the noise of a run, which is not known better
    _, elsewhere = process_of(frame, time_s).at(clusters((12, 12, "b")))
    assert elsewhere[0] > 2 * deviation.max()


def test_repeats_count_as_their_mean_as_precise_as_they_are_many():
    frame = pd.concat([grid(1, 4, 32)] * 2, ignore_index=True)
    once = np.array([50, 40, 9, 70, 30, 8, 20, 6, 5.0])
    time_s = np.concatenate([once * 0.8, once * 1.25])
    process = process_of(frame, time_s)
    assert process.noise == pytest.approx(np.log(1.25) * np.sqrt(2), rel=0.01)
    mean, _ = process.at(grid(1, 4, 32))
    np.testing.assert_allclose(mean, np.log(once), atol=process.noise)


def test_a_cliff_at_a_total_is_seen_where_no_column_tells_it():
    # 64 GB in total are enough. Each number of nodes and each size of memory is on both sides.
    frame = grid(1, 2, 4, 8, 16, 32)
    total = frame["nodes"] * frame["memory_gb"]
    time_s = np.where(total < 64, 1000.0, 100.0)
    is_held_out = ((total == 512) | (total == 8)).to_numpy()
    process = process_of(frame[~is_held_out], time_s[~is_held_out])
    mean, _ = process.at(frame[is_held_out])
    np.testing.assert_allclose(mean, np.log(time_s[is_held_out]), atol=0.3)
    assert Coordinates.of([CLUSTER]).at(frame).shape[1] == 2 + 1 + 2  # numbers, total, levels


def test_many_runs_and_columns_are_handled():
    names = [f"option{i}" for i in range(30)]
    law = Law(ranges=dict.fromkeys(names, (0.0, 1.0)))
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.integers(0, 2, (500, 30)), columns=names)
    time_s = 100 * np.exp(frame["option0"] + 0.01 * random.normal(size=500))
    process = process_of(frame, time_s, law)
    mean, _ = process.at(frame[:50])
    assert np.corrcoef(mean, frame["option0"][:50])[0, 1] > 0.9


class Flagged(Law):
    """A law of a column that is true or false, which has neither a range nor levels."""

    @property
    def columns(self):
        return [*super().columns, "fast"]


def test_true_and_false_are_told_apart():
    frame = pd.DataFrame([(w, f) for w in (1, 4, 16, 64) for f in (True, False)],
                         columns=["workers", "fast"])  # fmt: skip
    time_s = np.where(frame["fast"], 100.0, 1000.0)
    mean, _ = process_of(frame, time_s, Flagged()).at(frame)
    np.testing.assert_allclose(mean, np.log(time_s), atol=0.05)


@pytest.mark.parametrize("kinds", [[3, 5], [3.0, 5.0], ["3", "5"]])
def test_levels_that_are_numbers_are_known_whatever_their_type(kinds):
    law = Law(categories={"kind": ["3", "5"]})
    at = Coordinates.of([law]).at(pd.DataFrame({"workers": [1, 1], "kind": kinds}))
    assert (at[:, 1:] > 0).tolist() == [[True, False], [False, True]]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 32), st.integers(1, 32), st.sampled_from("ab"), st.floats(1, 9e3)),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_correlations_are_those_of_a_gaussian_whatever_the_runs(rows):
    frame = clusters(*(row[:3] for row in rows))
    process = process_of(frame, [row[3] for row in rows])
    asked = pd.concat([frame, clusters((3, 5, "a"), (30, 2, "b"))], ignore_index=True)
    alike, deviates = process.alike(asked, 500, 0)
    assert np.isfinite(deviates).all()
    np.testing.assert_allclose(np.diag(alike), 1)
    assert np.linalg.eigvalsh(alike).min() > -1e-6
    assert all(np.isfinite(found).all() for found in process.at(asked))


def test_laws_tell_what_lies_between_and_beyond_a_few_runs():
    """Work is divided by the nodes; a smooth process knows only that near is alike."""
    frame = clusters((1, 8, "a"), (4, 8, "a"), (16, 8, "a"))
    process = process_of(frame, 1600 / frame["nodes"] + 10)
    mean, deviation = process.at(clusters((2, 8, "a"), (32, 8, "a")))
    expected = np.log([810.0, 60.0])
    assert (np.abs(mean - expected) < 2 * deviation).all()
    assert abs(mean[0] - expected[0]) < 0.25
    assert mean[1] < np.log(110)  # less than with 16 nodes
    assert deviation[1] > deviation[0]  # overheads may show


def test_draws_have_the_correlations_that_are_told():
    frame = grid(1, 4, 32)
    process = process_of(frame[::2], [50, 9, 30, 20, 5.0])
    alike, deviates = process.alike(frame, 4000, 0)
    np.testing.assert_allclose(deviates.T @ deviates / len(deviates), alike, atol=0.12)
    np.testing.assert_allclose(deviates.mean(axis=0), 0, atol=0.1)


def test_a_level_that_was_never_run_is_expected_like_others_and_less_certain():
    frame = clusters(*((n, 8, "a") for n in (1, 2, 4, 8)))
    law = Law(ranges=CLUSTER.ranges, categories={"kind": ["a"]})
    process = process_of(frame, 100 / frame["nodes"], law)
    (known, unknown), (sure, unsure) = process.at(clusters((4, 8, "a"), (4, 8, "new")))
    assert abs(known - unknown) < 2 * unsure
    assert unsure > 2 * sure


def test_of_many_columns_no_single_law_is_believed():
    """Results of a law that was never drawn: predictions are as far off as they say."""
    names = [f"n{i}" for i in range(8)]
    law = Law(ranges=dict.fromkeys(names, (1.0, 64.0)))
    random = np.random.default_rng(1)
    off = []
    for seed in range(6):
        frame = pd.DataFrame(np.exp(random.uniform(0, np.log(64), (70, 8))), columns=names)
        drawn = DrawnLaws.draw(1, np.full(8, np.log(8)), 0, [], 100 + seed)
        logs = drawn.at(Coordinates.of([law]).places(frame))[0]
        process = process_of(frame[:10], 100 * np.exp(logs[:10]), law)
        mean, deviation = process.at(frame[10:])
        off.append((mean - np.log(100) - logs[10:]) / deviation)
    assert np.sqrt(np.mean(np.square(off))) < 1.6


def test_runs_that_are_very_near_each_other_are_told_apart_or_not_but_never_an_error():
    law = Law(ranges={"size": (0.0, 1e6)})
    for step in (200, 1e-2, 1e-5, 1e-9):
        frame = pd.DataFrame({"size": [0, 1e6, 5e5, 5e5 + step, 5e5 + 2 * step]})
        mean, deviation = process_of(frame, [1, 10, 5, 5.01, 5.02], law).at(frame)
        np.testing.assert_allclose(mean, np.log([1, 10, 5, 5.01, 5.02]), atol=0.1)
        assert np.isfinite(deviation).all()


def test_a_category_of_thousands_of_levels_takes_fewer_laws_not_more_memory(monkeypatch):
    drawn = []

    def draw(n_laws, *rest):
        drawn.append(n_laws)
        return DrawnLaws.draw(n_laws, *rest)

    monkeypatch.setattr(explanations, "DrawnLaws", type("Drawn", (), {"draw": staticmethod(draw)}))
    for n_levels in (2, 5_000):
        levels = [f"m{i}" for i in range(n_levels)]
        law = Law(ranges=CLUSTER.ranges, categories={"kind": levels})
        process_of(clusters((1, 1, "m0"), (4, 1, "m1")), [50, 40], law)
    assert drawn[0] > 10 * drawn[1] > 1000


def test_many_rows_are_predicted_like_few():
    runs = grid(1, 4, 32)
    process = process_of(runs, np.arange(1.0, 10.0))
    frame = clusters(*((1 + k % 32, 1 + k % 7, "ab"[k % 2]) for k in range(9_000)))
    mean, deviation = process.at(frame)
    some = frame.iloc[[0, 5_000, 8_999]]
    np.testing.assert_allclose(process.at(some), (mean[some.index], deviation[some.index]))
