"""Risk: when a plan leaves the data, and what it says about what it passed over."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.advise.next_run import advise
from foretell.decide.plan.plan import make_plan
from foretell.errors import UsageError
from foretell.predictor import Quantiles

from ..conftest import PRICES, Law, chosen, z


@dataclass(frozen=True)
class Widening(Law):
    """A law that is less sure outside its data: the deviation of log errors there is larger."""

    outside_spread: float = 0.3
    supported_to: float | None = None

    def outlook(self, frame, probabilities):
        found = super().outlook(frame, probabilities)
        spread = np.where(found.trust == "inside", self.spread, self.outside_spread)
        factors = np.exp(np.outer(spread, [z(p) for p in probabilities]))
        quantiles = Quantiles(tuple(probabilities), found.value[:, None] * factors)
        is_supported = self.supported_to and frame["workers"].to_numpy() <= self.supported_to
        return type(found)(found.value, quantiles, found.trust, is_supported)


ASKED = {"vary": {"workers": [32, 64, 100]}}  # 41.25 s and 25.625 s inside, 20 s outside


@pytest.mark.parametrize(
    ("spread", "expected"),
    [(0.1, 100), (0.3, 64)],  # 95 % of runs stay below 23.6 s or 32.8 s
)
def test_a_plan_leaves_the_data_only_for_what_is_better_at_its_pessimistic_end(spread, expected):
    assert chosen(make_plan(Widening(outside_spread=spread), ASKED)) == {"workers": expected}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"risk": "cautious"}, 64),
        ({"risk": "even"}, 100),
        ({"risk": "bold"}, 100),
        ({"risk": 0.15}, 64),  # 85 % stay below 27.3 s
        ({"risk": 0.25}, 100),  # 75 % stay below 24.5 s
        ({"confidence": 0.5}, 64),  # a cautious risk is 5 % at most
        ({"allow_far": True}, 100),
        ({"allow_far": True, "risk": "cautious"}, 64),
    ],
)
def test_the_risk_says_which_end_of_the_interval_counts_outside(more, expected):
    assert chosen(make_plan(Widening(), {**ASKED, **more})) == {"workers": expected}


FAR = {"vary": {"workers": [32, 64, 200, 300]}}  # 25.625 s inside, 15 and 13.3 s far outside


@pytest.mark.parametrize(
    ("spread", "supported_to", "more", "expected"),
    [
        (0.2, 256, {}, 200),  # 95 % of runs stay below 20.8 s
        (0.2, 128, {}, 64),  # no error was rehearsed there
        (0.2, 128, {"risk": "even"}, 64),
        (0.4, 256, {}, 64),  # 95 % stay below 29.0 s
        (0.4, 256, {"risk": "even"}, 64),
        (0.4, 256, {"risk": "bold"}, 64),
        (0.4, 256, {"allow_far": True}, 300),
        (0.4, 256, {"allow_far": True, "risk": "cautious"}, 64),
        (0.2, 128, {"allow_far": True, "risk": "cautious"}, 300),
    ],
)
def test_far_outside_only_a_supported_pessimistic_end_convinces(
    spread, supported_to, more, expected
):
    law = Widening(outside_spread=spread, supported_to=supported_to)
    assert chosen(make_plan(law, {**FAR, **more})) == {"workers": expected}


def test_a_plan_that_is_far_outside_starts_with_a_warning():
    plan = make_plan(Widening(outside_spread=0.2, supported_to=256), FAR)
    assert repr(plan).startswith("Far outside the data")
    assert plan.n_far == 1  # 300 workers
    assert plan.far.configuration == {"workers": 300}


def test_what_is_passed_over_far_outside_is_told_with_the_option_that_allows_it():
    text = repr(make_plan(Widening(outside_spread=0.4, supported_to=256), FAR))
    passed = next(line for line in text.splitlines() if "Passed over" in line)
    assert "workers=200" in passed
    assert passed.endswith("allow_far with risk='even' compares predictions.")


def test_an_option_that_is_given_is_not_proposed():
    more = {"allow_far": True, "risk": "cautious"}
    text = repr(make_plan(Widening(outside_spread=0.4, supported_to=256), {**FAR, **more}))
    passed = next(line for line in text.splitlines() if "Passed over" in line)
    assert passed.endswith("settle that. risk='even' compares predictions.")


def test_the_front_holds_the_plan_and_no_far_prediction_that_may_not_decide():
    law = Widening(outside_spread=0.4, supported_to=256)
    assert make_plan(law, FAR).front["workers"].tolist() == [64]
    assert make_plan(law, {**FAR, "allow_far": True}).front["workers"].tolist() == [300]


@pytest.mark.parametrize("risk", ["cautious", "even", "bold"])
def test_advice_compares_what_is_far_as_plans_do(risk):
    law = Widening(outside_spread=0.4, supported_to=256)
    asked = {"vary": {"workers": [32, 64, 200]}, "risk": risk}
    past = pd.DataFrame({"workers": [1, 32, 64], "time_s": [1010.0, 41.25, 25.625]})
    advice = advise(law, asked, data=past)
    assert chosen(advice.plan) == {"workers": 64}
    assert advice.proposals[0].configuration == {"workers": 200}
    assert advice.proposals[0].instead == {"workers": 200}


def test_a_bold_plan_gambles_on_the_optimistic_end():
    law = Widening(law=lambda f: f["workers"] * 1.0)  # more workers only take longer
    asked = {"vary": {"workers": [64, 80]}}  # 80 s outside: 5 % stay below 48.8 s
    assert chosen(make_plan(law, asked)) == {"workers": 64}
    assert chosen(make_plan(law, {**asked, "risk": "even"})) == {"workers": 64}
    assert chosen(make_plan(law, {**asked, "risk": "bold"})) == {"workers": 80}


def test_a_plan_tells_what_it_passed_over_and_what_a_run_there_would_settle():
    plan = make_plan(Widening(), ASKED)
    other = plan.passed_over.candidate
    assert other.configuration == {"workers": 100}
    assert other.estimates["time"].value == pytest.approx(20)
    assert other.estimates["time"].upper == pytest.approx(20 * math.exp(0.3 * z(0.95)))
    # It stays below 25.625 s with the probability of ln(25.625 / 20) / 0.3 deviations: 79.6 %.
    assert plan.passed_over.chance == 0.79
    text = repr(plan)
    for told in ("workers=100: 20 s (12.2 s – 32.8 s)", "25.6 s with 79 %", "one run", "risk"):
        assert told in text
    content = plan.to_json()["passed_over"]
    assert content["candidate"]["configuration"] == {"workers": 100}
    assert content["chance"] == 0.79


@pytest.mark.parametrize("more", [{"risk": "even"}, {"vary": {"workers": [32, 64]}}])
def test_nothing_is_passed_over_when_the_best_prediction_is_chosen(more):
    plan = make_plan(Widening(), {**ASKED, **more})
    assert plan.passed_over is None
    assert "Passed over" not in repr(plan)


def test_a_runner_up_that_looks_better_is_told_with_its_pessimistic_end():
    asked = {"vary": {"workers": [60, 64, 100]}}  # 26.7 s, 25.6 s, and 20 s to 32.8 s
    plan = make_plan(Widening(), asked)
    assert [c.configuration["workers"] for c in plan.runners_up] == [60, 100]
    line = next(line for line in repr(plan).splitlines() if "instead: workers=100" in line)
    assert " s less, but up to 32.8 s: outside the data" in line


@pytest.mark.parametrize(
    ("more", "share"), [({"risk": 0.15}, 0.85), ({"confidence": 0.98}, 0.99), ({}, 0.95)]
)
def test_the_end_that_decided_is_shown(more, share):
    plan = make_plan(Widening(), {"vary": {"workers": [64, 100]}, **more})
    assert chosen(plan) == {"workers": 64}
    end_s = 20 * math.exp(0.3 * z(share))
    line = next(line for line in repr(plan).splitlines() if "instead: workers=100" in line)
    assert f"up to {end_s:.1f} s" in line
    assert plan.runners_up[0].score == pytest.approx(end_s)


def test_a_bold_plan_says_how_little_it_may_take():
    law = Widening(law=lambda f: f["workers"] * 1.0)
    plan = make_plan(law, {"vary": {"workers": [64, 80]}, "risk": "bold"})
    line = next(line for line in repr(plan).splitlines() if "instead: workers=64" in line)
    assert (
        f"16 s less, but workers=80 may be as low as {80 * math.exp(0.3 * z(0.05)):.1f} s" in line
    )


def test_without_any_interval_predictions_are_compared():
    law = Law(spread=math.nan, ranges={"workers": (1.0, 16.0)}, reach=4)
    asked = {"vary": {"workers": [20, 40, 60]}, "minimize": "cost", "prices": PRICES}
    for more in ({}, {"allow_far": True, "risk": "cautious"}):
        plan = make_plan(law, {**asked, **more})
        assert chosen(plan) == {"workers": 20}  # each worker more costs 10 s of it more
        assert "nan" not in repr(plan)


def test_what_has_no_interval_does_not_replace_what_is_inside_and_its_end_is_not_written():
    plan = make_plan(Law(spread=math.nan), ASKED)
    assert chosen(plan) == {"workers": 64}
    line = next(line for line in repr(plan).splitlines() if "instead: workers=100" in line)
    assert "5.62 s less" in line
    assert "nan" not in repr(plan)
    assert "inf" not in repr(plan)


def test_without_a_configuration_inside_the_best_pessimistic_end_is_chosen():
    plan = make_plan(Widening(), {"vary": {"workers": [80, 100, 120]}})
    assert chosen(plan) == {"workers": 120}


def test_what_keeps_the_limits_only_outside_the_data_is_chosen_there():
    plan = make_plan(Widening(), {**ASKED, "deadline": 25, "confidence": 0.6})
    assert chosen(plan) == {"workers": 100}  # 60 % stay below 21.6 s; inside, no one keeps 25 s


@given(
    share=st.floats(0.01, 3),
    spread=st.floats(0.01, 1),
    largest=st.integers(10, 128),
    minimize=st.sampled_from(["time", "cost"]),
    deadline=st.floats(20, 100),
)
def test_no_plan_breaks_the_rule(share, spread, largest, minimize, deadline):
    law = Widening(law=lambda f: 5 + 500 / f["workers"] + share * f["workers"],
                   ranges={"workers": (1.0, 16.0)}, reach=8.0, outside_spread=spread)  # fmt: skip
    asked = {"vary": {"workers": {"from": 1, "to": largest}}, "prices": PRICES,
             "minimize": minimize, "deadline": deadline}  # fmt: skip
    plan = make_plan(law, asked)
    if plan.chosen is None or plan.chosen.configuration["workers"] <= 16:
        return
    inside = []
    for workers in range(1, 17):
        time_s = 5 + 500 / workers + share * workers
        if time_s * math.exp(0.1 * z(0.9)) <= deadline:
            inside.append(time_s if minimize == "time" else time_s * workers / 1000)
    assert plan.chosen.estimates[minimize].upper <= min(inside, default=math.inf)


def test_a_search_of_a_large_space_is_cautious_too():
    law = Widening(law=lambda f: 100 - f["a"] / 1e6, ranges={"a": (1.0, 1e7)})
    asked = {"vary": {"a": {"from": 1, "to": 2e7}}}
    plan = make_plan(law, asked)
    assert plan.is_searched
    assert chosen(plan)["a"] == 10_000_000
    assert plan.passed_over.candidate.configuration["a"] > 1.9e7
    assert chosen(make_plan(law, {**asked, "risk": "even"}))["a"] == 20_000_000


def test_advice_proposes_the_run_that_settles_what_a_plan_passed_over():
    law = Widening()
    runs = pd.DataFrame({"workers": [32, 64] * 3})
    runs["time_s"] = law.predict(runs) * [1.01, 0.99, 1.0, 1.01, 0.99, 1.0]
    advice = advise(law, ASKED, data=runs)
    assert advice.plan.chosen.configuration == {"workers": 64}
    assert advice.proposals[0].configuration == {"workers": 100}
    assert advice.proposals[0].instead == {"workers": 100}
    assert 0.5 < advice.proposals[0].chance < 0.95  # 80 % of its runs stay below those of 64


@pytest.mark.parametrize("risk", ["reckless", 0, 1, -0.5, True, math.nan, [0.5]])
def test_a_risk_is_a_word_or_a_probability(risk):
    with pytest.raises(UsageError, match="cautious, even, bold, or a probability"):
        make_plan(Law(), {**ASKED, "risk": risk})
