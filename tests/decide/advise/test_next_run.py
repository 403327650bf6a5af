"""Advice: the run that decides, what it costs, when to stop, and what is known of earlier runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.advise.next_run import advise
from foretell.decide.advise.options import AdviceOptions
from foretell.errors import DatasetError, NothingUsableError, UsageError

from ..conftest import Law

MACHINES = {"a": 10.0, "b": 10.3, "c": 10.6, "slow": 400.0}


def machines(times=MACHINES, spread=0.1, ranges=None):
    return Law(
        law=lambda f: f["machine"].map(times).astype(float),
        spread=spread,
        ranges=ranges or {},
        categories={"machine": list(times)},
    )


def asked(*names, **rest):
    return {"vary": {"machine": list(names)}, **rest}


def past(**counts):
    """Runs of some machines, each a little off what was predicted."""
    rows = [
        {"machine": name, "time_s": MACHINES[name] * (1 + 0.001 * (i % 3))}
        for name, n in counts.items()
        for i in range(n)
    ]
    return pd.DataFrame(rows)


def proposed(advice):
    return [p.configuration for p in advice.proposals]


def test_of_two_candidates_the_one_never_measured_decides():
    for known, open_ in (("a", "b"), ("b", "a")):
        advice = advise(machines(), asked("a", "b"), data=past(**{known: 9}))
        assert proposed(advice) == [{"machine": open_}]
        assert 0.05 < advice.proposals[0].chance < 0.95


def test_a_run_that_cannot_change_the_plan_is_not_proposed_over_one_that_can():
    times = {"a": 10.0, "b": 10.3, "elsewhere": 10.0}
    model = machines(times)
    runs = pd.DataFrame({"machine": ["elsewhere", "b"]})
    data = pd.DataFrame({"machine": ["a"] * 5, "time_s": [10.0, 10.01] * 2 + [10.0]})
    advice = advise(model, asked("a", "b"), data=data, options={"measure": runs})
    assert proposed(advice) == [{"machine": "b"}]


def test_a_candidate_that_is_out_of_the_question_is_never_measured():
    advice = advise(machines(), asked("a", "b", "slow"), options={"n_runs": 5})
    assert {"machine": "slow"} not in proposed(advice)


def test_of_runs_that_tell_as_much_the_cheaper_comes_first():
    for cheap, dear in (("a", "b"), ("b", "a")):
        prices = {
            "by": "machine", "nodes": 1,
            "machines": {cheap: {"price_per_hour": 1}, dear: {"price_per_hour": 2}},
        }  # fmt: skip
        request = asked("a", "b", minimize="time", prices=prices)
        model = machines({"a": 10.0, "b": 10.0})
        advice = advise(model, request, options={"budget": 1})
        assert proposed(advice) == [{"machine": cheap}]


def test_runs_of_a_batch_differ_and_keep_within_the_budget():
    advice = advise(machines(), asked("a", "b", "c"), options={"n_runs": 3, "budget": "1m"})
    found = [tuple(c.values()) for c in proposed(advice)]
    assert len(set(found)) == len(found) >= 2
    assert advice.cost <= 60


@settings(max_examples=20, deadline=None)
@given(st.floats(10.0, 100.0), st.integers(1, 5))
def test_no_advice_exceeds_its_budget(budget_s, n_runs):
    options = {"n_runs": n_runs, "budget": f"{budget_s}s"}
    advice = advise(machines(), asked("a", "b", "c", "slow"), options=options)
    assert advice.cost <= budget_s * (1 + 1e-9)
    assert all(p.cost <= budget_s for p in advice.proposals)


def test_a_budget_below_the_cheapest_run_is_an_error_that_says_so():
    with pytest.raises(UsageError, match="below the cheapest run, which takes about 10 s"):
        advise(machines(), asked("a", "b"), options={"budget": "5s"})


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("20", "budget=20: .* money, which needs prices"),
        ("1x", "budget='1x': must be a time, an energy or money"),
        ("5kJ", "no model predicts the energy"),
        ("-3m", "must be a time, an energy or money"),
    ],
)
def test_budgets_that_cannot_be_read_are_refused(budget, words):
    with pytest.raises(UsageError, match=words):
        advise(machines(), asked("a", "b"), options={"budget": budget})


def test_when_no_run_can_change_the_plan_there_is_no_advice():
    advice = advise(machines(spread=0.001), asked("a", "b"))
    assert advice.proposals == []
    assert "no affordable run has a chance above 5 % of changing the plan" in repr(advice)


def test_for_a_limit_that_nothing_can_keep_no_run_is_worth_its_cost():
    rows = past(a=1, b=1)
    for deadline, is_hopeless in (("9s", False), ("2s", True)):
        advice = advise(machines(), asked("a", "b", "c", deadline=deadline), data=rows)
        assert (advice.proposals == []) == is_hopeless
    assert "no affordable run has a chance above 5 % of leading to a plan" in repr(advice)
    # Where there is nothing to choose, a run still narrows the interval.
    alone = advise(machines(), asked("a", deadline="2s"), data=past(b=1))
    assert proposed(alone) == [{"machine": "a"}]


def test_a_plan_that_was_never_run_is_checked_before_it_is_the_end():
    model = machines(spread=0.001)
    advice = advise(model, asked("a", "b"), data=past(b=3))
    assert proposed(advice) == [{"machine": "a"}]
    assert advice.proposals[0].checks == "plan"
    assert "the plan itself, never run so far" in repr(advice)
    assert advise(model, asked("a", "b"), data=past(a=1, b=3)).proposals == []
    # A run beyond the budget is no check.
    runs = pd.DataFrame({"machine": ["b"]})
    assert advise(model, asked("a", "b"), data=past(b=3), options={"measure": runs}).proposals == []


def test_a_column_never_changed_next_to_the_plan_is_before_it_is_the_end():
    model = Law(
        law=lambda f: f["size"] / f["threads"] ** 0.01 * f["level"] ** 0.5,
        spread=0.001,
        ranges={"size": (1.0, 32.0), "threads": (1.0, 2.0), "level": (1.0, 4.0)},
    )
    request = {"vary": {"threads": [1, 2], "level": [1, 4]}, "fix": {"size": 32}}
    tried = [(1, 1, 1), (1, 2, 1), (32, 2, 1), (32, 2, 4)]  # one thread on small sizes alone
    data = pd.DataFrame(tried, columns=["size", "threads", "level"])
    data = data.assign(time_s=model.predict(data))
    advice = advise(model, request, data=data)
    assert proposed(advice) == [{"size": 32, "threads": 1, "level": 1}]
    assert advice.proposals[0].checks == "change"
    assert "one change of the plan, never run so far" in repr(advice)
    known = pd.concat([data, pd.DataFrame([(32, 1, 1, 32.0)], columns=data.columns)])
    assert advise(model, request, data=known).proposals == []
    # A run that was killed was tried, too.
    killed = known.assign(status=["ok"] * 4 + ["timed out"], wall_time_s=9.0)
    assert advise(model, request, data=killed).proposals == []
    # Columns that follow from others change with them.
    derived = {**request, "derive": {"cpus": "2 * threads"}}
    wide = replace(model, ranges={**model.ranges, "cpus": (2.0, 4.0)})
    advice = advise(wide, derived, data=data.assign(cpus=2 * data["threads"]))
    assert proposed(advice) == [{"size": 32, "threads": 1, "level": 1, "cpus": 2}]
    # Where no plan meets the limits, it is not called one.
    late = advise(model, {**request, "deadline": "1s"}, data=data)
    assert "one change of the closest configuration" in repr(late)


def test_what_is_much_worse_than_the_plan_is_not_tried_before_the_end():
    assert advise(machines(spread=0.001), asked("a", "slow"), data=past(a=3)).proposals == []


def test_prices_may_depend_on_what_no_model_knows():
    model = Law(law=lambda f: 10.0 / f["workers"], spread=0.1, ranges={"workers": (1.0, 8.0)})
    table = pd.DataFrame({"workers": [1, 2, 4], "price_per_hour": [1.0, 2.5, 6.0]})
    data = pd.DataFrame({"workers": [1, 8], "time_s": [10.0, 1.25]})
    advice = advise(model, {}, candidates=table, data=data)
    assert advice.plan.chosen.configuration["workers"] == 1
    kinds = {
        "by": "machine",
        "machines": {"m4": {"price_per_hour": 1}, "c4": {"price_per_hour": 2}},
    }
    asked_for = {"vary": {"workers": [1, 4], "machine": ["m4", "c4"]}, "prices": kinds}
    assert advise(model, asked_for, data=data).plan.chosen.configuration["machine"] == "m4"


def test_the_stop_rule_is_the_probability_asked_for():
    chance = advise(machines(), asked("a", "b")).best_chance
    for least, n in ((chance * 0.9, 1), (min(chance * 1.1, 0.99), 0)):
        advice = advise(machines(), asked("a", "b"), options={"least_chance": least})
        assert len(advice.proposals) == n


def test_a_plan_that_gets_hardly_better_is_no_change():
    # Whatever comes of it, the two differ by far less than one percent.
    advice = advise(machines({"a": 10.0, "b": 10.0}, spread=0.002), asked("a", "b"))
    assert advice.proposals == []


def test_the_same_seed_gives_the_same_advice():
    request = {**asked("a", "b", "c"), "seed": 3}
    one, other = (advise(machines(), request, options={"n_runs": 2}) for _ in range(2))
    assert one.to_json() == other.to_json()


def test_a_smaller_job_is_measured_where_it_tells_enough():
    model = Law(
        law=lambda f: f["size"] * f["machine"].map({"a": 1.0, "b": 1.02}),
        spread=0.15,
        ranges={"size": (1.0, 100.0)},
        categories={"machine": ["a", "b"]},
    )
    request = {**asked("a", "b"), "fix": {"size": 100}}
    advice = advise(model, request, options={"budget": "50s"})
    assert all(c["size"] < 100 for c in proposed(advice))
    advice = advise(model, request, options={"measure": {"size": [100]}})
    assert proposed(advice)[0]["size"] == 100


def test_with_nothing_to_choose_the_nearest_runs_narrow_the_prediction_most():
    model = Law(spread=0.2)
    runs = pd.DataFrame({"workers": [1, 8, 14, 16]})
    request = {"fix": {"workers": 16}}
    prices = {"price_per_hour": "1 / (10 + 1000 / workers)", "nodes": 1}  # each costs the same
    options = {"measure": runs, "n_runs": 1, "budget": 1}
    advice = advise(model, {**request, "prices": prices}, options=options)
    assert advice.is_target
    assert proposed(advice) == [{"workers": 16}]
    assert "narrows the interval of the prediction" in repr(advice)


@pytest.mark.parametrize("request_", [{"fix": {"workers": 16}}, {"vary": {"workers": [4, 16]}}])
def test_nothing_is_proposed_once_the_interval_is_as_narrow_as_asked_for(request_):
    model = Law(spread=0.2)
    free = advise(model, request_, options={"n_runs": 1})
    found = free.plan.chosen.estimates["time"]
    width = max(found.upper / found.value, found.value / found.lower) - 1
    enough = advise(model, request_, options={"precision": width * 1.01})
    assert enough.proposals == []
    assert enough.precise_to == enough.to_json()["precise_to"] == width * 1.01
    assert "both ends of the interval" in repr(enough)
    more = advise(model, request_, options={"precision": width * 0.99})
    assert (proposed(more), more.precise_to) == (proposed(free), None)


def test_a_limit_that_may_be_missed_is_worth_a_run():
    # b keeps the deadline surely, a is cheaper and may miss it.
    times = {"a": 9.5, "b": 6.0}
    prices = {"by": "machine", "nodes": 1,
              "machines": {"a": {"price_per_hour": 1}, "b": {"price_per_hour": 4}}}  # fmt: skip
    request = asked("a", "b", prices=prices, deadline="10s", minimize="cost")
    advice = advise(machines(times), request)
    assert advice.plan.chosen.configuration == {"machine": "b"}
    assert proposed(advice) == [{"machine": "a"}]


def test_a_run_that_timed_out_is_not_proposed_again_and_counts_as_at_least_so_long():
    late = pd.DataFrame({
        "machine": ["a", "b"], "time_s": [60.0, 10.3], "wall_time_s": [60.0, 10.3],
        "status": ["timed out", "ok"],
    })  # fmt: skip
    model = machines({"a": 10.0, "b": 10.3, "c": 10.6}, spread=0.5)
    advice = advise(model, asked("a", "b", "c"), data=late, options={"n_runs": 3})
    assert {"machine": "a"} not in proposed(advice)
    assert advice.n_too_long == 1
    assert "1 run is not proposed: stopped at the time limit" in repr(advice)
    # What a says of itself is no longer believed: b, which was measured, is not in doubt for it.
    assert all(p.instead != {"machine": "a"} for p in advice.proposals)


def test_with_a_higher_time_limit_a_run_that_timed_out_may_be_proposed():
    late = pd.DataFrame({
        "machine": ["a", "b"], "time_s": [11.0, 10.3], "wall_time_s": [11.0, 10.3],
        "status": ["timed out", "ok"],
    })  # fmt: skip
    for limit_s, n_too_long in ((11.0, 1), (100.0, 0)):
        sweep = {"time_limit_s": limit_s}
        advice = advise(machines(), asked("a", "b"), data=late, options={"sweep": sweep})
        assert advice.n_too_long == n_too_long


def test_a_time_limit_below_every_run_is_said():
    with pytest.raises(NothingUsableError, match="longer than the time limit of 5 s"):
        advise(machines(), asked("a", "b"), options={"sweep": {"time_limit_s": 5}})


def failing(names):
    """Runs of three columns, called as given; the plan of the model failed."""
    law = Law(law=lambda f: sum(f[n] for n in names) + 1.0, spread=0.05,
              ranges=dict.fromkeys(names, (1.0, 4.0)))  # fmt: skip
    rows = [dict(zip(names, values, strict=True)) for values in ((1, 1, 1), (4, 1, 2), (1, 4, 4))]
    data = pd.DataFrame(rows).assign(time_s=[np.nan, 8.0, 10.0], status=["failed", "ok", "ok"])
    return law, data, rows[0]


@pytest.mark.parametrize(
    "names",
    [
        ("workers", "lambda", "class"),
        ("n", "index", "level_0"),
        ("batch size", "größe", "1st"),
        ("a'b", 'c"d', "e\\f"),
        tuple(f"{'very_' * 150}{end}" for end in ("a", "b", "c")),
    ],
)
def test_what_failed_is_ruled_out_whatever_its_columns_are_called(names):
    law, data, failed = failing(names)
    advice = advise(law, {"vary": {name: [1, 2, 4] for name in names}}, data=data,
                    options={"n_runs": 20, "least_chance": 1e-6})  # fmt: skip
    chosen = advice.plan.chosen.configuration
    assert chosen != failed
    assert sorted(chosen.values()) == [1, 1, 2]  # the next best
    assert proposed(advice)
    assert failed not in proposed(advice)


def test_what_failed_is_ruled_out_though_the_model_knows_a_column_of_how_runs_ended():
    law = machines()
    law.categories["status"] = ["ok"]
    data = past(b=2, c=2).assign(status="ok")
    data = pd.concat([data, pd.DataFrame({"machine": ["a"], "status": ["failed"]})])
    advice = advise(law, asked("a", "b", "c"), data=data)
    assert advice.plan.chosen.configuration["machine"] == "b"


def test_of_thousands_of_failed_runs_none_is_planned():
    workers = list(range(1, 3001))
    data = pd.DataFrame({"workers": workers, "time_s": 1.0, "status": "failed"})
    data.loc[data["workers"] == 7, "status"] = "ok"
    law = Law(ranges={"workers": (1.0, 3000.0)})
    advice = advise(law, {"vary": {"workers": workers}}, data=data)
    assert advice.plan.chosen.configuration == {"workers": 7}


def test_what_a_sweep_excludes_is_not_proposed():
    for sweep in ({"exclude": "machine == 'b'"}, {"only": ["machine != 'b'"]}):
        advice = advise(machines(), asked("a", "b"), options={"sweep": sweep, "n_runs": 3})
        assert {"machine": "b"} not in proposed(advice)


def test_bad_input_is_refused_in_words():
    with pytest.raises(UsageError, match="n_runs: must be at least 1, not 0"):
        AdviceOptions(n_runs=0)
    with pytest.raises(UsageError, match="between 0 and 1"):
        AdviceOptions(least_chance=5)
    with pytest.raises(UsageError, match=r"unknown option 'bugdet'\. Did you mean 'budget'"):
        advise(machines(), asked("a", "b"), options={"bugdet": 3})
    with pytest.raises(DatasetError, match="no column 'machine'"):
        advise(machines(), asked("a", "b"), data=pd.DataFrame({"time_s": [1.0], "n": [1]}))
    with pytest.raises(UsageError, match="no model has a column 'sizes'"):
        advise(machines(), asked("a", "b"), options={"measure": {"sizes": [1, 2]}})
    broken = pd.DataFrame({"machine": ["a"], "time_s": [1.0], "status": ["failed"]})
    with pytest.raises(DatasetError, match="no run that went well"):
        advise(machines(), asked("a", "b"), data=broken)


def test_a_model_without_intervals_cannot_tell_what_a_run_is_worth():
    with pytest.raises(UsageError, match="has no intervals"):
        advise(machines(spread=math.nan), asked("a", "b"))


def test_a_run_that_was_made_is_not_proposed_again_unless_asked_for():
    # Both machines were run once: only another run of them could tell more.
    data = pd.DataFrame({"machine": ["a", "b"], "time_s": [10.0, 10.1]})
    model = machines({"a": 10.0, "b": 10.1}, spread=0.3)
    advice = advise(model, asked("a", "b"), data=data, options={"n_runs": 5})
    assert advice.proposals == []
    assert advice.n_repeats == 2
    assert "2 runs are not proposed: made before" in repr(advice)
    again = advise(model, asked("a", "b"), data=data, options={"repeats": True})
    assert [p.n_before for p in again.proposals] == [1]
    assert "measured once before" in repr(again)


def test_a_run_is_repeated_where_repeats_show_much_noise_and_it_is_said():
    times = [8.0, 12.0, 9.0, 11.5, 10.2]
    data = pd.DataFrame({"machine": ["a"] * 5 + ["b"] * 5, "time_s": times + times[::-1]})
    model = machines({"a": 10.0, "b": 10.05}, spread=0.2)
    noisy = advise(model, asked("a", "b"), data=data)
    assert [p.n_before for p in noisy.proposals] == [5]
    assert "measured 5 times before, repeats differ by about" in repr(noisy)
    quiet = data.assign(time_s=[10.0, 10.001] * 5)
    assert advise(model, asked("a", "b"), data=quiet).proposals == []


def test_a_single_configuration_far_outside_is_predicted_with_its_passport():
    law = Law()
    advice = advise(law, {"fix": {"workers": 1000}})
    assert advice.is_target
    assert advice.plan.chosen.configuration == {"workers": 1000}
    assert advice.plan.chosen.trust == "far"
    assert "Predicted now: workers=1000: 11 s" in repr(advice)
    assert "Far: workers" in repr(advice)


def test_advice_looks_only_at_what_the_rules_allow_of_a_vast_space():
    seen = []

    def law(frame):
        seen.append(len(frame))
        return frame["a"] + 20 / frame["b"] + frame["c"] + frame["d"]

    names = list("abcd")
    model = Law(law=law, ranges=dict.fromkeys(names, (1.0, 40.0)))
    request = {
        "vary": {name: {"from": 1, "to": 40} for name in names},
        "only": ["a == b", "b == c", "c == d"],
    }
    advice = advise(model, request)
    assert advice.plan.n_seen == 40
    assert max(seen) < 1000


NODES = [1, 2, 4, 8, 16, 32]


def cliff(spread):
    """A smooth model, which knows nothing of a cliff."""
    return Law(law=lambda f: 100 + 10 * f["nodes"], spread=spread, ranges={"nodes": (1.0, 32.0)})


def measured(**time_s):
    """Runs in the order in which they were made: n4=250 is four nodes."""
    rows = [{"nodes": int(name[1:]), "time_s": float(value)} for name, value in time_s.items()]
    return pd.DataFrame(rows)


def test_the_plan_does_not_contradict_the_runs_that_were_made():
    # The model says 110 s on one node, two runs said 900 s.
    data = pd.concat([measured(n1=900, n8=180, n32=420), measured(n1=905)])
    advice = advise(cliff(0.5), {"vary": {"nodes": [1, 8, 32]}}, data=data)
    assert advice.plan.chosen.configuration == {"nodes": 8}
    assert advice.plan.chosen.estimates["time"].value == pytest.approx(180, rel=0.02)
    assert advice.plan.chosen.estimates["time"].upper < 200  # as sure as its runs are alike


def test_what_was_measured_is_planned_before_what_may_be_much_worse():
    # Two nodes are predicted at 120 s, a little less than what was measured on four.
    request = {"vary": {"nodes": [2, 4]}}
    for spread, planned in ((0.5, 4), (0.02, 2)):
        advice = advise(cliff(spread), request, data=measured(n4=140, n32=420))
        assert advice.plan.chosen.configuration == {"nodes": planned}
        # If the model is unsure, a run of it comes next.
        assert proposed(advice) == [{"nodes": 2}]


def test_dear_runs_are_made_if_they_may_bring_much_more():
    # Both may bring the optimum. The dear run takes three times as long, but brings more.
    times = {"plan": 100.0, "cheap": 101.0, "dear": 103.0}
    sizes = {"plan": 0.01, "cheap": 0.05, "dear": 0.4}

    class Unsure(Law):
        def outlook(self, frame, probabilities):
            found = super().outlook(frame, probabilities)
            ratios = np.log(found.quantiles.values / found.value[:, None])
            spread = frame["machine"].map(sizes).to_numpy(dtype=float)[:, None]
            values = found.value[:, None] * np.exp(ratios * spread)
            return replace(found, quantiles=replace(found.quantiles, values=values))

    model = Unsure(law=lambda f: f["machine"].map(times).astype(float), spread=1.0, ranges={},
                   categories={"machine": list(times)})  # fmt: skip
    prices = {"by": "machine", "nodes": 1, "machines": {
        "plan": {"price_per_hour": 1}, "cheap": {"price_per_hour": 1},
        "dear": {"price_per_hour": 30}}}  # fmt: skip
    data = pd.DataFrame({"machine": ["plan"], "time_s": [100.0]})
    request = {"vary": {"machine": list(times)}, "minimize": "time", "prices": prices}
    advice = advise(model, request, data=data, options={"budget": 100})
    assert proposed(advice) == [{"machine": "dear"}]


def test_after_runs_without_improvement_the_least_certain_is_next():
    # Twelve nodes are likely to be a little better. Little is known of 64, and a run is expensive.
    model = Law(law=lambda f: np.where(f["nodes"] <= 20, 180 + 400 / f["nodes"], 300.0),
                spread=0.3, ranges={"nodes": (1.0, 64.0)})  # fmt: skip
    prices = {"price_per_hour": 1, "nodes": "nodes"}
    request = {"vary": {"nodes": [*range(1, 9), 12, 64]}, "minimize": "time", "prices": prices}
    stuck = measured(n8=230, n5=265, n6=250, n3=310, n1=580, n2=380, n4=280)
    improving = stuck.iloc[::-1]
    advice = advise(model, request, data=improving, options={"budget": 100})
    assert proposed(advice) == [{"nodes": 12}]
    advice = advise(model, request, data=stuck, options={"budget": 100})
    assert proposed(advice) == [{"nodes": 64}]
    assert advice.proposals[0].checks == "open"
    assert f"that much better is {100 * advice.far_chance:.0f} %" in repr(advice)
    # It is a measure now and then, not the rule: the next run may be any.
    more = pd.concat([stuck, measured(n7=240)])
    advice = advise(model, request, data=more, options={"budget": 100})
    assert proposed(advice) == [{"nodes": 12}]


def test_advice_does_not_stop_before_a_region_without_runs_is_known():
    # The model is sure that more memory does not help; no run was made with as much.
    model = Law(law=lambda f: 100 * f["memory_gb"] ** 0, spread=0.02,
                ranges={"memory_gb": (1.0, 64.0), "nodes": (1.0, 64.0)})  # fmt: skip
    rows = [(1, 1), (1, 2), (2, 1), (2, 2), (64, 1), (1, 64)]
    data = pd.DataFrame(rows, columns=["memory_gb", "nodes"])
    request = {"vary": {"memory_gb": [1, 2, 64], "nodes": [1, 2, 64]}}
    for times, stops in (
        ([100, 101, 99, 100, 101, 100], True),
        ([100, 130, 70, 100, 50, 100], False),
    ):
        advice = advise(model, request, data=data.assign(time_s=times))
        assert (advice.proposals == []) == stops


def test_many_small_chances_together_keep_advice_going():
    # Each of 60 machines has a chance below 5 % of being better. Together, one of them may well be.
    def advice(n, **options):
        names = [f"m{i}" for i in range(n)]
        times = dict.fromkeys(names, 126.0) | {"m0": 100.0}
        model = machines(times, spread=0.1)
        data = pd.DataFrame({"machine": ["m0"], "time_s": [100.0]})
        return advise(model, asked(*names), data=data, options=options)

    assert [p.checks for p in advice(60).proposals] == ["open"]
    assert all(p.checks != "open" for p in advice(3).proposals)
    assert all(p.checks != "open" for p in advice(60, least_chance=0.9).proposals)
