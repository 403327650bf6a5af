"""The chosen plan: the same as trying everything by exact formulas, and what limits do to it."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foretell.decide.queueing.assess import (
    ERROR,
    LOAD,
    P95,
    SPRINTS,
    Assessor,
    ByQuantiles,
    Limit,
    UnluckyRun,
)
from foretell.decide.queueing.choose import Assessors, best_of, choose_plan
from foretell.decide.queueing.evaluate import ByEither, ByFormula, ByMoments
from foretell.decide.queueing.front import front_of
from foretell.decide.queueing.many import responses_of_many
from foretell.decide.queueing.options import Option, Spread, options_of, steps_of, time_outs
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.job import job_time
from foretell.decide.queueing.service.sample import constant, sample_of
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.streams import Stream
from foretell.errors import UsageError

ERRORS = {0.2: 0.05, 0.4: 0.12, 0.6: 0.3}


def of_tasks(name, rate, **more):
    found = {"name": name, "rate_per_s": rate, "tasks": 5, "map_s": 10.0, "map_scv": 0.2, **more}
    return {key: value for key, value in found.items() if value is not None}


def make_queue(low=None, high=None, **more):
    low = of_tasks("low", **{"rate": 0.02, "max_error": 0.15, "error": ERRORS, **(low or {})})
    return read_queue({"slots": 2, "class": [low, of_tasks("high", 0.01, **(high or {}))], **more})


SPRINT = {"speedup": 2.0, "base_w": 100, "sprint_w": 160, "idle_w": 50}


def service_of(job, drop):
    return job_time(job, 2, drop) if job.has_tasks else fitted_time(job.service.mean_s, 0.5)


def assessor_of(queue, n_jobs=1_000, evaluator=None):
    evaluator, runs = evaluator or ByMoments(), UnluckyRun(n_jobs)
    return Assessor(queue, evaluator, ByQuantiles(queue, evaluator, runs), runs)


def choose(queue, run_length=1_000, **more):
    many = assessor_of(queue, run_length)
    exact = assessor_of(queue, run_length, ByFormula(ByMoments()))
    return choose_plan(queue, service_of, Assessors(many, exact, many), **more)


def settings_of(plan):
    return [(option.drop, option.sprint_after_s) for option in plan.options]


def by_hand(queue, plan):
    """Return mean and p95 of each class from the formulas, without anything of a choice."""
    streams = []
    for c, (drop, after_s) in zip(queue.classes, plan, strict=True):
        service = service_of(c, drop)
        if math.isfinite(after_s):
            service = Sprinted(service, after_s, queue.sprint.speedup)
        streams.append(Stream(c.name, c.rate_per_s, service))
    return queue_figures("non-preemptive", streams, queue.sprint)


# Against trying everything


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"sprint": {**SPRINT, "budget_j": 1e6, "refill_w": 3.0}},
        {"high": {"weight": 5.0}, "sprint": {**SPRINT, "budget_j": 1e6, "refill_w": 1.5}},
    ],
)
def test_the_plan_is_that_of_trying_all_with_exact_formulas(limits, monkeypatch):
    monkeypatch.setattr("foretell.decide.queueing.options._N_TIME_OUTS", 3)  # of ten: it is slow
    queue = make_queue(**limits)
    found = choose(queue, run_length=10**9)  # so long that luck does not matter
    grid = []
    for c in queue.classes:
        drops = [0.0, 0.2, 0.4, 0.6, 0.8] if c.error else [0.0]
        grid.append(
            [
                (drop, after_s)
                for drop in drops
                for after_s in (
                    time_outs(Spread.of(service_of(c, drop)))
                    if queue.sprint.speedup > 1
                    else [math.inf]
                )
            ]
        )
    feasible = []
    for plan in product(*grid):
        errors = [ERRORS.get(drop, 0.0 if not drop else math.inf) for drop, _ in plan]
        if errors[0] > 0.15 or errors[1] > 0:
            continue
        figures = by_hand(queue, plan)
        refill = queue.sprint.refill_w
        if figures.load >= 0.97 or (refill is not None and figures.energy.sprint_w > refill):
            continue
        latency = sum(
            w.weight * c.p95_s for w, c in zip(queue.classes, figures.classes, strict=True)
        )
        watts = 0.0 if figures.energy is None else figures.energy.total_w
        feasible.append((latency, errors[0], watts, plan))
    least = min(feasible)[0]
    near = [x for x in feasible if x[0] <= 1.005 * least]
    expected = min(near, key=lambda x: (x[1], round(x[2], 6)))
    assert found.chosen is not None
    assert settings_of(found.chosen) == list(expected[3])
    assert found.chosen.latency_s == pytest.approx(expected[0], rel=1e-6)


def test_figures_of_many_plans_are_those_of_the_formulas():
    queue = make_queue(sprint=SPRINT)
    options = [
        list(options_of(steps_of(c, lambda drop, c=c: service_of(c, drop)).allowed, 2.0))
        for c in queue.classes
    ]
    plans = list(product(*options))[::37]
    rates = [c.rate_per_s for c in queue.classes]
    for plan, responses in zip(plans, ByMoments().responses(rates, plans), strict=True):
        exact = by_hand(queue, [(o.drop, o.sprint_after_s) for o in plan])
        for ours, theirs in zip(responses, exact.classes, strict=True):
            assert ours.mean_s == pytest.approx(theirs.mean_s, rel=1e-4)
            assert ours.p95_s == pytest.approx(theirs.p95_s, rel=5e-3)


def test_no_ratio_between_the_candidates_is_better():
    queue = make_queue(low={"p95_s": 1e6})
    found = choose(queue)
    rates = [c.rate_per_s for c in queue.classes]
    for drop in np.arange(0, 0.4001, 0.01):
        plan = [
            next(options_of([step], 1.0))
            for step in (
                steps_of(queue.classes[0], lambda _, drop=drop: service_of(queue.classes[0], drop))
                .allowed[0],
                steps_of(queue.classes[1], lambda d: service_of(queue.classes[1], d)).allowed[0],
            )
        ]  # fmt: skip
        latency = sum(r.p95_s for r in ByMoments().responses(rates, [tuple(plan)])[0])
        assert latency >= found.chosen.latency_s * (1 - 0.006)


# Where figures of many plans and exact ones differ


class Cheating:
    """Says of all plans that their p95 is larger or smaller than it is."""

    def __init__(self, factor):
        self.factor = factor

    def responses(self, rates_per_s, plans):
        return [
            [replace(r, p95_s=self.factor * r.p95_s) for r in of_plan]
            for of_plan in ByMoments().responses(rates_per_s, plans)
        ]


def choose_cheated(queue, factor, exact=None):
    many = assessor_of(queue, evaluator=Cheating(factor))
    exact = exact or assessor_of(queue)
    return choose_plan(queue, service_of, Assessors(many, exact, many))


def test_a_plan_that_keeps_its_limits_is_found_though_all_seemed_to_break_them():
    queue = make_queue(high={"p95_s": 75.0})
    found = choose_cheated(queue, 2.0)
    assert found.chosen is not None
    assert found.chosen.is_kept
    assert settings_of(found.chosen) == settings_of(choose(queue).chosen)


class Choosy:
    """An assessor that refuses the first plans it is asked about."""

    def __init__(self, assessor, n_refused):
        self.assessor, self.n_refused, self.asked = assessor, n_refused, []

    def assess(self, plan, **more):
        self.asked.append(plan)
        found = self.assessor.assess(plan, **more)
        if len(self.asked) > self.n_refused:
            return found
        return replace(
            found, limits=(*found.limits, Limit(P95, "high", 200.0 - len(self.asked), 9.0))
        )


def test_plans_are_checked_until_one_keeps_its_limits():
    queue = make_queue(sprint=SPRINT)
    exact = Choosy(assessor_of(queue), n_refused=20)
    found = choose_cheated(queue, 1.0, exact)
    assert found.chosen.options == exact.asked[20]
    assert found.n_checked == 21


def test_after_many_checks_it_is_said_how_many_and_the_closest_is_one_of_them():
    queue = make_queue(sprint=SPRINT)
    exact = Choosy(assessor_of(queue), n_refused=10**6)
    found = choose_cheated(queue, 1.0, exact)
    assert found.chosen is None
    assert (found.n_checked, found.is_all_checked) == (40, False)
    assert found.closest.options == exact.asked[-1]
    assert found.closest.violations
    assert any(plan.is_kept for plan in found.tried)


def test_quantiles_of_many_are_found_where_they_are_far_below_the_mean():
    streams = [
        Stream("low", 3e-5, fitted_time(1000.0, 50.0)), Stream("high", 0.02, fitted_time(1.0, 0.1))
    ]  # fmt: skip
    moments = np.array([[s.service.moments for s in streams]])
    _, p95s = responses_of_many(np.array([s.rate_per_s for s in streams]), moments)
    exact = queue_figures("non-preemptive", streams).classes[1].p95_s
    assert p95s[0, 1] == pytest.approx(exact, rel=1e-3)


def test_few_plans_are_computed_by_formulas_and_many_by_moments():
    two_kinds = sample_of(np.array([10.0] * 9 + [910.0]))
    rates = [0.005, 0.01]
    plan = tuple(Option(0.0, 0.0, math.inf, 1.0, Spread.of(s)) for s in (two_kinds, constant(10.0)))
    streams = [Stream(str(k), rates[k], o.service) for k, o in enumerate(plan)]
    exact = [c.p95_s for c in queue_figures("non-preemptive", streams).classes]
    either = ByEither(ByFormula(ByMoments()))
    assert [r.p95_s for r in either.responses(rates, [plan])[0]] == pytest.approx(exact)
    of_many, alone = either.responses(rates, [plan] * 20)[7], ByMoments().responses(rates, [plan])
    assert [r.p95_s for r in of_many] == pytest.approx([r.p95_s for r in alone[0]])


def test_a_run_with_few_jobs_of_a_class_is_as_unlucky_as_nine_of_ten_are_at_most():
    service, n = fitted_time(1000.0, 50.0), 2
    option = Option(0.0, 0.0, math.inf, 1.0, Spread.of(service))
    rates, (slower, _) = UnluckyRun(1_000).of([n, 1_000 - n], (option, option))
    drawn = service.draw(np.random.default_rng(0), 40_000).reshape(-1, n).mean(axis=1)
    assert slower.mean_s < 3 * max(1000.0, np.quantile(drawn, 0.9))
    assert rates[0] == pytest.approx(stats.poisson(n).ppf(0.9), rel=0.1)


# Limits


def test_without_a_table_of_errors_nothing_is_dropped_and_it_is_said():
    found = choose(make_queue(low={"error": {}}))
    assert settings_of(found.chosen)[0][0] == 0
    assert "error" in found.steps["low"].reason


def test_without_a_limit_of_the_error_nothing_is_dropped():
    found = choose(make_queue(low={"max_error": None}))
    assert settings_of(found.chosen)[0][0] == 0
    assert "max_error" in found.steps["low"].reason


def test_a_class_that_has_no_tasks_is_not_dropped_from():
    service = {"name": "low", "rate_per_s": 0.01, "service": {"mean_s": 20, "scv": 0.5}}
    queue = read_queue({"slots": 2, "class": [service, of_tasks("high", 0.01)]})
    assert "service" in choose(queue).steps["low"].reason


def test_the_error_limit_binds_where_more_dropping_would_help():
    found = choose(make_queue())
    assert settings_of(found.chosen)[0][0] == 0.4
    assert found.binding == ("error of 'low'",)
    assert found.steps["low"].refused[0].drop == 0.6


def test_a_budget_binds_where_earlier_sprints_would_help_and_is_kept():
    found = choose(make_queue(sprint={**SPRINT, "budget_j": 1e6, "refill_w": 1.0}))
    assert "the sprint budget" in found.binding
    sprints = next(limit for limit in found.chosen.limits if limit.what == SPRINTS)
    assert sprints.value <= 1.0
    assert any([x.what for x in plan.violations] == [SPRINTS] for plan in found.tried)


def test_unlimited_sprints_begin_at_once():
    found = choose(make_queue(sprint=SPRINT))
    assert [after_s for _, after_s in settings_of(found.chosen)] == [0.0, 0.0]


def test_no_plan_is_chosen_when_a_limit_cannot_be_kept_and_the_closest_is_named():
    found = choose(make_queue(high={"p95_s": 5.0}))
    assert found.chosen is None
    assert [limit.what for limit in found.closest.violations] == [P95]
    assert found.closest.violations[0].name == "high"


def test_an_overloaded_engine_has_no_plan_and_says_so():
    found = choose(make_queue(low={"rate": 1.0}))
    assert found.chosen is None
    assert LOAD in {limit.what for limit in found.closest.violations}


def test_limits_are_checked_in_an_unlucky_run_and_shorter_runs_need_more_room():
    queue = make_queue(low={"p95_s": 1e6})
    plan = choose(queue).chosen.options
    value = {
        n: next(x for x in assessor_of(queue, n).assess(plan).limits if x.what == P95)
        for n in (100, 1_000, 10**12)
    }
    nominal = assessor_of(queue).assess(plan).responses[0].p95_s
    assert value[10**12].value == pytest.approx(nominal, rel=1e-4)
    assert value[100].value > value[1_000].value > nominal


def test_more_load_breaks_the_limit_it_names_and_less_does_not():
    queue = make_queue(high={"p95_s": 75.0})
    found = choose(queue)
    assessor = assessor_of(queue)
    assert 1 < found.headroom.factor < 10
    assert found.headroom.breaks.name == "high"
    plan = found.chosen.options
    assert assessor.assess(plan, load_factor=0.99 * found.headroom.factor).is_kept
    broken = assessor.assess(plan, load_factor=1.02 * found.headroom.factor).violations
    assert (P95, "high") in {(limit.what, limit.name) for limit in broken}


def test_equal_latencies_are_decided_by_the_error():
    found = choose(make_queue())
    kept = [plan for plan in found.tried if plan.is_kept]
    best = best_of(kept)
    for plan in kept:
        if plan.latency_s <= best.latency_s and plan.error < best.error:
            pytest.fail("a plan with less error is as fast")


# More plans than can be tried


def three_classes(**sprint):
    classes = [
        of_tasks("low", 0.011, max_error=0.15, error=ERRORS),
        of_tasks("mid", 0.009, max_error=0.05, error=ERRORS, map_s=8.0),
        of_tasks("high", 0.005, map_s=14.0),
    ]
    return read_queue({"slots": 2, "class": classes, "sprint": {**SPRINT, **sprint}})


def test_too_many_plans_are_tried_up_to_a_limit_and_it_is_known_that_some_are_left_out():
    found = choose(make_queue(sprint=SPRINT), most_plans=20)
    assert len(found.tried) <= 20 < found.n_plans
    assert not found.is_all_tried
    drops = {settings_of(plan)[0][0] for plan in found.tried}
    assert len(drops) > 1


def test_unlimited_sprints_of_three_classes_begin_at_once_and_as_much_is_dropped_as_can_be():
    found = choose(three_classes())
    assert found.n_plans > len(found.tried)
    assert settings_of(found.chosen) == [(0.4, 0.0), (0.2, 0.0), (0.0, 0.0)]
    assert found.is_settled


@pytest.mark.parametrize("refill_w", [2.0, 4.0, 9.0])
@pytest.mark.parametrize("p95_s", [None, 80.0])
def test_a_selection_of_plans_leads_to_the_best_of_all(refill_w, p95_s, monkeypatch):
    monkeypatch.setattr("foretell.decide.queueing.options._N_TIME_OUTS", 5)
    queue = three_classes(budget_j=1e6, refill_w=refill_w)
    low, mid, high = queue.classes
    queue = queue.model_copy(
        update={"classes": [low, mid, high.model_copy(update={"p95_s": p95_s})]}
    )
    whole, some = choose(queue, most_plans=10**5), choose(queue, most_plans=240)
    assert len(whole.tried) == whole.n_plans > 3 * len(some.tried)
    assert some.chosen.latency_s <= whole.chosen.latency_s * 1.005  # as near as equals are
    assert some.chosen.error <= whole.chosen.error + 1e-9


def test_a_search_that_is_cut_off_is_not_settled():
    found = choose(three_classes(budget_j=1e6, refill_w=4.0), most_plans=16)
    assert len(found.tried) == 16
    assert not found.is_settled


def test_too_many_classes_are_refused():
    classes = [of_tasks(f"c{k}", 0.001, max_error=0.5, error=ERRORS) for k in range(14)]
    queue = read_queue({"slots": 2, "class": classes, "sprint": SPRINT})
    with pytest.raises(UsageError, match="max_error"):
        choose(queue)


# Options and fronts


def test_constant_tasks_are_dropped_only_where_a_wave_is_saved():
    job = read_queue(
        {
            "slots": 20,
            "class": [
                {"name": "a", "rate_per_s": 1, "tasks": 50, "map_s": 10, "map_scv": 0,
                 "max_error": 1, "error": {0.9: 0.5}},
            ],
        }
    ).classes[0]  # fmt: skip
    steps = steps_of(job, lambda drop: job_time(job, 20, drop))
    assert [step.drop for step in steps.allowed] == pytest.approx([0.0, 0.2, 0.6])


@pytest.mark.parametrize("service", [constant(100.0), fitted_time(100.0, 1.0)])
def test_time_outs_leave_equal_shares_of_the_work(service):
    found = time_outs(Spread.of(service))
    assert (found[0], found[-1]) == (0.0, math.inf)
    left = [service.after(t).moments[0] / service.mean for t in found[1:-1]]
    assert left == pytest.approx(np.linspace(0.9, 0.1, 9), abs=0.006)


def test_moments_of_options_are_those_of_the_sprinted_time():
    spread = Spread.of(fitted_time(50.0, 0.3))
    for option in options_of([*steps_of_one(spread.service)], 3.0):
        assert option.moments == pytest.approx(option.service.moments, rel=2e-4)
        expected = option.service.sprint_s if option.sprints else 0.0
        assert option.sprint_s == pytest.approx(expected, rel=1e-3, abs=1e-9)


def steps_of_one(service):
    from foretell.decide.queueing.options import DropStep

    return [DropStep(0.0, 0.0, service)]


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_the_front_beats_all_others_and_none_of_its_own(points):
    places = front_of([tuple(map(float, p)) for p in points])
    front = [points[i] for i in places]

    def beats(a, b):
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    assert len(set(front)) == len(front)
    assert not any(beats(a, b) for a in front for b in front)
    assert all(p in front or any(beats(a, p) for a in front) for p in points)


def test_the_front_of_a_choice_has_the_chosen_plan_up_to_half_a_percent():
    found = choose(make_queue(sprint={**SPRINT, "budget_j": 1e6, "refill_w": 2.0}))
    assert min(plan.latency_s for plan in found.front) >= found.chosen.latency_s / 1.006
    assert all(plan.is_kept for plan in found.front)
    assert ERROR in {limit.what for limit in found.chosen.limits}
