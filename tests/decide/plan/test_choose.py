"""Choosing: Pareto fronts, and the best of many rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.plan.assess import Assessor, match_models
from foretell.decide.plan.choose import PlanChooser, Shortlist, pareto
from foretell.decide.question.objective import Question
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed

from ..conftest import Law, z

points = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), min_size=1, max_size=40)


@given(points)
def test_a_front_keeps_one_of_each_that_nothing_beats_and_drops_the_rest(points):

    points = np.array(points)
    kept = pareto(points)
    front = points[kept]
    assert len(np.unique(front, axis=0)) == len(front)
    for point in points:
        assert (front <= point).all(axis=1).any()
    for a, b in itertools.permutations(front, 2):
        assert not (a <= b).all()


def test_a_front_of_many_thousands_is_found_in_one_sweep():

    time_s = np.arange(1.0, 100_001.0)
    points = np.column_stack([time_s, 1e6 / time_s, np.full(len(time_s), 3.0)])
    assert len(pareto(np.vstack([points, points + 1]))) == len(points)


rows = st.lists(
    st.tuples(st.integers(1, 200), st.integers(1, 50)), min_size=1, max_size=30, unique=True
)


class Supported(Law):
    """A law whose intervals are supported up to 160 workers; it was measured up to 64."""

    def outlook(self, frame, probabilities):
        found = super().outlook(frame, probabilities)
        return replace(found, supported=frame["workers"].to_numpy() <= 160)


def figures_of(rows, probabilities):
    """Assess rows of workers and seconds: each takes its own time, and costs time × workers."""
    frame = pd.DataFrame(rows, columns=["workers", "seconds"])
    law = Supported(
        law=lambda f: f["seconds"], ranges={"workers": (1.0, 64.0), "seconds": (1.0, 99.0)}
    )
    tariff = Tariff.of(Prices(price_per_hour=3600), Listed(frame))
    return Assessor(match_models([law]), tariff).assess(frame, probabilities)


@given(rows, st.floats(1, 60), st.sampled_from([0.5, 0.9]), st.booleans())
def test_the_chosen_row_is_the_cheapest_that_is_allowed_and_keeps_the_limit(
    rows, most_s, confidence, allow_far
):
    question = Question({"deadline": most_s}, confidence, (confidence,), allow_far)
    chooser = PlanChooser(question, "cost", ["time", "cost"])
    found = chooser.chosen(figures_of(rows, question.probabilities), confidence)
    factor = np.exp(0.1 * z(confidence))
    caution = 1 if allow_far else np.exp(0.1 * z(0.95))  # beyond 128 workers

    def order(row):
        workers, seconds = row
        cost = workers * seconds
        return cost * (caution if workers > 128 else 1), cost, seconds, workers

    allowed = [
        (workers, seconds)
        for workers, seconds in rows
        if (allow_far or workers <= 160) and seconds * factor <= most_s
    ]
    assert [order(rows[i]) for i in found] == ([min(map(order, allowed))] if allowed else [])


@given(rows, st.floats(1, 60), st.integers(1, 30))
def test_a_shortlist_of_parts_answers_like_all_rows_at_once(rows, most_s, size):
    question = Question({"deadline": most_s}, 0.9, (0.5, 0.9), False)
    chooser = PlanChooser(question, "cost", ["time", "cost"])
    whole, parts = figures_of(rows, question.probabilities), Shortlist(chooser)
    for start in range(0, len(rows), size):
        parts.add(figures_of(rows[start : start + size], question.probabilities))
    assert parts.n_seen == len(rows)

    def answers(figures):
        found = [chooser.chosen(figures, p) for p in (0.5, 0.9)]
        found += [chooser.closest(figures), chooser.best_unsupported(figures)]
        found.append(chooser.without(figures, "deadline"))
        return [figures.frame.iloc[r].to_numpy().tolist() for r in found]

    assert answers(parts.figures) == answers(whole)


def test_the_closest_row_exceeds_its_worst_limit_least():
    question = Question({"deadline": 10.0, "budget": 40.0}, 0.5, (0.5,), False)
    chooser = PlanChooser(question, "cost", ["time", "cost"])
    rows = [(2, 30), (8, 12), (1, 50)]  # 3 ×, 2.4 × (the cost) and 5 × too much
    assert chooser.closest(figures_of(rows, [0.5])).tolist() == [1]


@pytest.mark.parametrize("n", [1, 3, 12])
def test_the_best_rows_come_in_order_also_of_very_many(n):
    rows = [(1 + i % 50, 1 + (i * 7919) % 997) for i in range(3000)]
    figures = figures_of(rows, [0.5])
    chooser = PlanChooser(Question({}, 0.5, (0.5,), True), "time", ["time", "cost"])
    found = chooser.best(figures, np.ones(len(rows), dtype=bool), n)
    assert sorted((s, w) for w, s in rows)[:n] == [(rows[i][1], rows[i][0]) for i in found]
