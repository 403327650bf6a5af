"""Predictions that know the runs nearby, and plans that rest on them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from foretell.decide.advise.belief.informed import inform, informed_planner
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.question.objective import read_request

from ...conftest import Law, chosen, z

TIMES = {1: 900.0, 2: 850.0, 4: 800.0, 8: 180.0, 16: 170.0, 32: 175.0}


def smooth(spread=0.4):
    """A model that follows no cliff."""
    return Law(
        law=lambda f: 900 * f["workers"] ** -0.5, spread=spread, ranges={"workers": (1.0, 32.0)}
    )


def past(**times):
    rows = [(int(name[1:]), float(time_s)) for name, time_s in times.items()]
    return pd.DataFrame(rows, columns=["workers", "time_s"])


RUNS = past(**{f"w{n}": t for n, t in TIMES.items()})


def informed(model, data):
    return inform([model], PastRuns.of(data, [model]), 0)[0]


def test_at_measured_configurations_the_runs_are_predicted():
    frame = RUNS[["workers"]]
    found = informed(smooth(), RUNS).outlook(frame, (0.05, 0.5, 0.95))
    np.testing.assert_allclose(found.value, RUNS["time_s"], rtol=0.06)
    width = np.log(found.quantiles.at(0.95) / found.quantiles.at(0.05))
    assert (width < 0.4).all()  # the model alone: 1.3
    np.testing.assert_allclose(informed(smooth(), RUNS).predict(frame), found.value)


def test_what_both_say_is_mixed_by_their_variances_and_wide_where_they_disagree():
    model = smooth()
    mixed, frame = informed(model, RUNS), pd.DataFrame({"workers": [5]})
    mean, deviation = (found[0] for found in mixed.process.at(frame))
    other = np.log(model.predict(frame)[0])
    weight = 0.4**2 / (0.4**2 + deviation**2)
    center = weight * mean + (1 - weight) * other
    square = weight * (deviation**2 + mean**2) + (1 - weight) * (0.4**2 + other**2)  # E(x²)
    found = mixed.outlook(frame, (0.9,))
    assert found.value[0] == pytest.approx(np.exp(center))
    assert np.log(found.quantiles.at(0.9)[0]) == pytest.approx(
        center + z(0.9) * np.sqrt(square - center**2)
    )
    forecast = mixed.forecast(frame, 0.8)
    assert (forecast.value[0], forecast.upper[0]) == (found.value[0], found.quantiles.at(0.9)[0])


class Trained(Law):
    """A law that says how many rows it was trained on."""

    n_rows = 6


def test_a_model_of_few_runs_counts_less_than_its_intervals_claim():
    frame = pd.DataFrame({"workers": [5]})
    usual, few = (
        kind(law=smooth().law, spread=0.4, ranges=smooth().ranges) for kind in (Law, Trained)
    )
    runs, model = informed(usual, RUNS).process.at(frame)[0][0], np.log(usual.predict(frame)[0])
    off = [abs(np.log(informed(law, RUNS).predict(frame)[0]) - runs) for law in (usual, few)]
    assert 0 < 3 * off[1] < off[0] < abs(model - runs)


def test_with_many_runs_the_model_counts_alone_outside_the_data_and_without_runs_everywhere():
    model, frame = smooth(), pd.DataFrame({"workers": [40]})
    many = pd.DataFrame({"workers": np.geomspace(1, 32, 31), "time_s": np.full(31, 50.0)})
    for mixed, asked in (
        (informed(model, many), frame),
        (informed(model, None), pd.DataFrame({"workers": [5]})),
    ):
        for p in (0.05, 0.9):
            expected = model.outlook(asked, (p,)).quantiles.at(p)
            np.testing.assert_allclose(mixed.outlook(asked, (p,)).quantiles.at(p), expected)


def test_with_few_runs_they_count_outside_the_data_too():
    runs = past(w1=1000, w2=500, w4=250, w8=125)
    found = informed(smooth(spread=1.0), runs).outlook(
        pd.DataFrame({"workers": [64]}), (0.05, 0.95)
    )
    assert 10 < found.value[0] < 60  # the model says 112; the runs, that twice as many halve it
    assert found.quantiles.at(0.05)[0] < 1000 / 64 < found.quantiles.at(0.95)[0]


def test_a_plan_takes_what_was_never_run_only_for_what_is_better_at_its_pessimistic_end():
    def planned(spread, **asked):
        model = Law(law=lambda f: np.where(f["workers"] == 3, 90.0, 100.0), spread=spread,
                    ranges={"workers": (1.0, 32.0)})  # fmt: skip
        runs = PastRuns.of(past(w1=101, w32=100), [model])
        request = read_request({"vary": {"workers": [1, 3, 32]}, **asked})
        return chosen(informed_planner(inform([model], runs, 0), runs, request).plan())["workers"]

    assert planned(0.01) == 3
    assert planned(0.15) == 32
    assert planned(0.15, allow_far=True) == 32
    assert planned(0.15, risk="even") == 3
    assert planned(0.15, vary={"workers": [3, 4]}) == 3  # none of these was run


def planner_of(spread, vary, runs, **asked):
    model = Law(law=lambda f: np.where(f["workers"] == 3, 90.0, 100.0), spread=spread,
                ranges={"workers": (1.0, 32.0)})  # fmt: skip
    known = PastRuns.of(runs, [model])
    request = read_request({"vary": {"workers": vary}, **asked})
    return informed_planner(inform([model], known, 0), known, request)


def test_a_plan_says_that_what_it_passed_over_was_never_run():
    plan = planner_of(0.15, [3, 32], past(w1=101, w32=100)).plan()
    assert plan.passed_over.candidate.configuration == {"workers": 3}
    text = repr(plan)
    assert text.count("never run") == 2  # as a runner-up, and as passed over
    assert "outside the data" not in text


@pytest.mark.parametrize("vary", [[1, 3, 32], {"from": 1, "to": 32}, {"from": 1, "to": 3e6}])
def test_what_was_never_run_is_doubtful_in_every_part_of_a_space(vary):
    planner = planner_of(0.15, vary, past(w1=101, w32=100))
    figures = planner.assessor.assess(pd.DataFrame({"workers": [3, 4]}), (0.5, 0.95))
    assert planner.chooser.is_doubtful(figures).all()


@pytest.mark.parametrize("more", [{}, {"only": ["workers >= 2"]}])
def test_only_what_is_outside_is_doubtful_if_no_run_can_be_planned(more):
    runs = past(w1=101) if more else past(w5=100)
    planner = planner_of(0.15, [1, 3, 4, 40], runs, **more)
    figures = planner.assessor.assess(pd.DataFrame({"workers": [3, 40]}), (0.5, 0.95))
    assert planner.chooser.is_doubtful(figures).tolist() == [False, True]


def test_a_search_of_a_large_space_looks_at_what_was_run():
    run = past(w1=101, w32=100).assign(workers=[1.234567, 17.654321])
    plan = planner_of(0.15, {"from": 1.5, "to": 32.5}, run).plan()
    assert plan.is_searched
    assert chosen(plan)["workers"] == 17.654321
