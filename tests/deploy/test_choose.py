"""Deployments: the chosen setting is the best of all, and limits that cannot be kept are told."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from foretell.decide.deployment.batch_times import PESSIMISTIC, Point, times_by_threads
from foretell.decide.deployment.points import Points
from foretell.decide.deployment.question import Question
from foretell.decide.deployment.scenario import read_scenario
from foretell.decide.deployment.settings import Choices, Setting
from foretell.decide.deployment.wording import time_text
from foretell.deploy.choose import choose, choose_deployment, wanted_points
from foretell.deploy.deployable import Deployable
from foretell.deploy.measuring import measure_points
from foretell.deploy.network import Effort
from foretell.deploy.play import Player
from foretell.errors import NothingUsableError, UsageError
from foretell.simulate.batching import play_runs

FILE = Path(__file__).parent / "networks.py"
SHORT = Effort(n_warm_ups=1, warm_up_s=0.0, n_calls=8, calls_s=0.0, n_pauses=3)
#: One thread: 2 ms and 1 ms per sample; two: slower for one sample, faster for many.
LINES = {1: (0.002, 0.001), 2: (0.004, 0.0006)}
SIZES = (1, 2, 4, 8, 16, 32)


def times(lines=None, levels=(1.0,)):
    return times_by_threads(
        Point(threads, b, fixed + each * b, levels, 0.0, float(threads), 20)
        for threads, (fixed, each) in (lines or LINES).items()
        for b in SIZES
    )


def answer(arrivals, limit_s=None, worse=None, **options):
    known = times(options.pop("lines", None), options.pop("levels", (1.0,)))
    choices = Choices(options.pop("batches", SIZES), tuple(known), options.pop("waits_s", None))
    question = Question(read_scenario(arrivals), choices, limit_s, **options)
    play = Player(known, question.overhead_s, n_arrivals=20_000)
    return choose(question, known, play if worse is None else off(play, worse)), known


def off(play, worse):
    """Return a player whose thorough plays have a longer p99 than rough ones, by this factor."""

    def played(setting, scenario, *, sureness, is_rough):
        figures = play(setting, scenario, sureness=sureness, is_rough=True)
        return figures if is_rough else replace(figures, p99_s=worse * figures.p99_s)

    return played


def test_the_best_p99_of_all_settings_on_the_fewest_cores_is_chosen():
    found, known = answer("poisson:300/s", 0.05)
    assert found.chosen.threads == 1
    assert found.chosen.replicas == 1
    all_p99 = {}
    for batch in SIZES:
        if batch / (0.002 + 0.001 * batch) > 310:
            table = known[1].table(batch)
            all_p99[batch] = play_runs(table, rate_per_s=300, n_runs=2, n_arrivals=100_000).p99_s
    assert found.figures.p99_s <= 1.03 * min(all_p99.values())
    assert found.p99_s[0] <= found.figures.p99_s <= found.p99_s[1] <= 0.05


def test_a_limit_is_kept_with_pessimistic_times_too():
    found, known = answer("poisson:500/s", 0.02, levels=(0.8, 0.9, 1.0, 1.1, 1.6))
    table = known[found.chosen.threads].table(found.chosen.batch, sureness=PESSIMISTIC)
    rate = 500 / found.chosen.replicas
    run = play_runs(table, rate_per_s=rate, wait_s=found.chosen.wait_s, seed=11)
    assert run.p99_s <= 0.02 * 1.02


def test_replicas_are_as_few_as_will_do():
    found, known = answer("poisson:3000/s", 0.05)
    chosen = found.chosen
    assert chosen.replicas > 1
    fewer = Setting(32, 0.0, chosen.threads, chosen.replicas - 1)
    capacity = fewer.replicas * 32 / float(known[chosen.threads].mean_s(32).item())
    if capacity > 3000:
        player = Player(known)
        worst = player(fewer, read_scenario("poisson:3000/s"), sureness=PESSIMISTIC, is_rough=True)
        assert worst.p99_s > 0.05 or capacity < 1.05 * 3000


def test_a_rate_above_capacity_tells_how_many_replicas_would_do():
    with pytest.raises(NothingUsableError, match="above capacity") as caught:
        answer("poisson:5000/s", 0.05, most_replicas=2)
    enough = int(caught.value.remedy[1].value)
    found, _ = answer("poisson:5000/s", 0.05, most_replicas=enough)
    assert found.chosen.replicas <= enough


def best_p99_s(rate_per_s):
    """Return the lowest p99 of one replica with one thread, by rough plays."""
    play, scenario = Player(times({1: LINES[1]})), read_scenario(f"poisson:{rate_per_s}/s")
    settings = (Setting(batch, 0.0, 1) for batch in SIZES)
    return min(play(s, scenario, sureness=PESSIMISTIC, is_rough=True).p99_s for s in settings)


def test_a_replica_more_is_taken_where_only_rough_plays_keep_the_limit():
    limit_s = 1.05 * best_p99_s(600)
    options = {"lines": {1: LINES[1]}, "waits_s": (0.0,)}
    found, _ = answer("poisson:600/s", limit_s, worse=1.0, **options)
    assert found.chosen.replicas == 1
    found, _ = answer("poisson:600/s", limit_s, worse=1.2, **options)
    assert found.chosen.replicas == 2
    with pytest.raises(NothingUsableError, match="with 1 replica keeps") as caught:
        answer("poisson:600/s", limit_s, worse=1.2, most_replicas=1, **options)
    assert caught.value.remedy[1].value == "2"
    assert f"the closest comes to {time_text(1.2 * best_p99_s(600))}." in str(caught.value)


def test_settings_far_below_the_limit_are_tried_where_those_near_it_break_it():
    waits = (0.0, *(0.001 * ms for ms in range(26, 38, 2)))
    options = {"goal": "energy", "lines": {1: LINES[1]}, "waits_s": waits}
    found, _ = answer("poisson:200/s", 0.05, **options)
    assert found.chosen.wait_s > 0
    found, _ = answer("poisson:200/s", 0.05, worse=1.8, **options)
    assert (found.chosen.wait_s, found.chosen.replicas) == (0.0, 1)


def test_a_wait_that_breaks_the_limit_is_named_and_no_replicas_are_offered():
    with pytest.raises(NothingUsableError, match="a wait of 60 ms breaks the limit") as caught:
        answer("poisson:20/s", 0.05, batches=(4, 8), waits_s=(0.06,), most_replicas=1)
    assert str(caught.value.remedy[1]) == "vary={'wait': 0}"


def test_a_limit_below_one_sample_tells_what_is_attainable():
    with pytest.raises(NothingUsableError, match="best attainable") as caught:
        answer("poisson:10/s", 0.002)
    assert "3 ms" in str(caught.value)
    for arrivals in ("single-stream", "burst:8/50ms"):
        with pytest.raises(NothingUsableError, match="best attainable"):
            answer(arrivals, 0.002)


def test_energy_prefers_larger_batches_and_waits_within_the_limit():
    quick, _ = answer("poisson:200/s", 0.05)
    frugal, _ = answer("poisson:200/s", 0.05, goal="energy")
    assert frugal.figures.core_s < quick.figures.core_s
    assert frugal.chosen.wait_s > 0
    assert frugal.p99_s[1] <= 0.05


def test_single_stream_takes_the_threads_that_are_best_for_one_sample():
    found, _ = answer("single-stream")
    assert (found.chosen.batch, found.chosen.threads) == (1, 1)
    assert found.figures.mean_s == pytest.approx(0.003)
    assert found.figures.per_s == pytest.approx(1 / 0.003)


@pytest.mark.parametrize("rate", [900, 1800, 3600])
def test_no_more_replicas_are_chosen_than_thorough_plays_need(rate):
    limit_s, options = 0.02, {"lines": {1: LINES[1]}, "batches": (1, 2, 4), "waits_s": (0.0,)}
    found, known = answer(f"poisson:{rate}/s", limit_s, worse=1.6, **options)

    def keeps(replicas):
        play = off(Player(known, n_arrivals=20_000), 1.6)
        scenario = read_scenario(f"poisson:{rate}/s")
        return any(
            play(Setting(b, 0.0, 1, replicas), scenario, sureness=PESSIMISTIC, is_rough=False).p99_s
            <= limit_s
            for b in options["batches"]
        )

    assert keeps(found.chosen.replicas)
    assert not keeps(found.chosen.replicas - 1)


@pytest.mark.parametrize("rate", [2000, 3100, 4700])
def test_no_other_number_of_threads_would_do_on_fewer_cores(rate):
    """Replicas are added in steps: a number between may do on fewer cores than other threads."""
    limit_s, batches = 0.03, (1, 2, 4)
    lines = {1: (0.002, 0.001), 2: (0.001, 0.0005)}
    found, known = answer(
        f"poisson:{rate}/s", limit_s, worse=1.6, lines=lines, batches=batches, waits_s=(0.0,)
    )
    play = off(Player(known, n_arrivals=20_000), 1.6)
    for threads, replicas in ((t, r) for t in (1, 2) for r in range(1, found.chosen.cores)):
        if threads * replicas >= found.chosen.cores:
            continue
        if rate >= 0.97 * replicas * known[threads].per_s(4):
            continue  # the queue has no end
        p99s = [
            play(
                Setting(b, 0.0, threads, replicas), read_scenario(f"poisson:{rate}/s"),
                sureness=PESSIMISTIC, is_rough=False,
            ).p99_s
            for b in batches
        ]  # fmt: skip
        assert min(p99s) > limit_s, (threads, replicas)


def test_single_stream_takes_more_threads_where_they_are_faster():
    found, _ = answer("single-stream", lines={1: (0.002, 0.001), 2: (0.001, 0.001)})
    assert found.chosen.threads == 2


def test_offline_takes_the_most_samples_per_second():
    found, _ = answer("offline")
    assert (found.chosen.batch, found.chosen.threads) == (32, 2)
    assert found.figures.per_s == pytest.approx(32 / (0.004 + 0.0006 * 32))


def test_offline_takes_the_least_energy_where_that_is_asked_for():
    found, _ = answer("offline", goal="energy")
    assert (found.chosen.batch, found.chosen.threads) == (32, 1)


def test_larger_batches_are_not_taken_for_better():
    lines = {1: (0.001, 0.001)}
    known = times_by_threads(
        Point(1, b, t, (1.0,), 0.0, 1.0, 20)
        for b, t in ((1, 0.002), (2, 0.0022), (4, 0.003), (8, 0.02), (16, 0.05))
    )
    choices = Choices((1, 2, 4, 8, 16), (1,))
    question = Question(read_scenario("offline"), choices)
    assert lines
    assert choose(question, known, Player(known)).chosen.batch == 4


class Rising:
    """Times batches by a law that bends upwards beyond 24 samples, as where a cache is full."""

    def __init__(self, known=()):
        points = dict(known)
        self.cache = SimpleNamespace(
            get=lambda threads, batch: points.get((threads, batch)), add=lambda point: None
        )

    def point(self, threads, batch):
        seconds = (2.2 + 0.7 * batch) * (1 + 0.03 * max(0, batch - 24)) / threads
        return Point(threads, batch, seconds, (1.0,), 0.01, threads, 20)

    timed = point


def test_batch_times_that_are_known_are_used_even_if_they_would_not_be_measured():
    sizes = tuple(range(1, 33))
    question = Question(read_scenario("offline"), Choices(sizes, (1,)))
    fast = Point(1, 7, 0.001, (1.0,), 0.01, 1, 20)
    law, plan = Rising({(1, 7): fast}), Points(sizes, (1,))
    found = measure_points(law, plan, lambda known: wanted_points(question, known, 0))
    assert found.n_cached == 1
    assert choose(question, found.times, Player(found.times)).chosen.batch == 7


def test_offline_few_points_find_the_best_batch_below_the_largest():
    sizes, threads = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32), (1, 2)
    question = Question(read_scenario("offline"), Choices(sizes, threads))
    law, plan = Rising(), Points(sizes, threads)
    few = measure_points(law, plan, lambda known: wanted_points(question, known, 0))
    chosen = choose(question, few.times, Player(few.times)).chosen
    each = {b: law.point(2, b).median_s / b for b in sizes}
    assert len(few.points) <= len(sizes) * len(threads) / 4
    assert chosen.threads == 2
    assert each[chosen.batch] <= 1.1 * min(each.values())


def test_multi_stream_enumerates_batches():
    found, _ = answer("burst:8/50ms", 0.04, batches=tuple(range(1, 33)))
    each = {}
    for threads, (fixed, per) in LINES.items():
        for b in range(1, 9):
            parts = [min(b, 8 - k) for k in range(0, 8, b)]
            each[threads, b] = sum(fixed + per * n for n in parts)
    best = min(v for (threads, _), v in each.items() if threads == 1)
    assert found.chosen.threads == 1  # on one core
    assert found.figures.p99_s == pytest.approx(best, rel=0.01)
    assert found.figures.busy == pytest.approx(best / 0.05, rel=0.01)


@pytest.mark.parametrize(
    ("arrivals", "limit_s", "told"),
    [("burst:64/20ms", None, "above capacity"), ("burst:64/500ms", 0.03, "best attainable")],
)
def test_bursts_that_are_too_much_tell_how_many_replicas_would_do(arrivals, limit_s, told):
    with pytest.raises(NothingUsableError, match=told) as caught:
        answer(arrivals, limit_s, most_replicas=1)
    enough = int(caught.value.remedy[1].value)
    found, _ = answer(arrivals, limit_s)
    assert found.chosen.replicas == enough > 1


def test_bursts_that_no_number_of_replicas_can_bear_are_told():
    with pytest.raises(NothingUsableError, match="above capacity") as caught:
        answer("burst:64/1ms", most_replicas=1)
    assert caught.value.remedy == ()
    with pytest.raises(NothingUsableError, match="no number of replicas would do"):
        answer("burst:64/1ms")
    with pytest.raises(NothingUsableError, match="more than 1,000 replicas would be needed"):
        answer("burst:20000/20ms", batches=(4,))


def test_bursts_may_take_as_many_replicas_as_requests():
    # 12 samples in batches of 4 take 18.6 ms with pessimistic times, and 13 more than 20 ms.
    found, _ = answer("burst:2000/20ms", batches=(1, 2, 4))
    assert found.chosen.replicas == 167


def test_waits_that_are_given_are_the_only_ones():
    found, _ = answer("poisson:100/s", 0.1, waits_s=(0.004,))
    assert found.chosen.wait_s == 0.004 or found.chosen.batch == 1


def test_overhead_counts():
    plain, _ = answer("poisson:100/s", 0.1)
    slow, _ = answer("poisson:100/s", 0.1, overhead_s=0.005)
    assert slow.figures.mean_s > plain.figures.mean_s + 0.005


def test_pauses_count_where_the_server_is_idle():
    known = times_by_threads(
        replace(p, pause_s=0.004) for own in times().values() for p in own.points
    )
    busy, rare = read_scenario("poisson:600/s"), read_scenario("poisson:5/s")

    def mean_s(scenario, **given):
        play = Player(known, n_arrivals=20_000, **given)
        return play(Setting(32, 0.0, 1), scenario, sureness=0.0, is_rough=True).mean_s

    # At 5 requests per second nearly each finds a server that had nothing to do for long.
    assert mean_s(rare) - mean_s(rare, pause_s=0.0) == pytest.approx(0.004, rel=0.1)
    assert mean_s(rare, pause_s=0.01) - mean_s(rare, pause_s=0.0) == pytest.approx(0.01, rel=0.1)
    assert mean_s(busy) - mean_s(busy, pause_s=0.0) < 0.002
    with pytest.raises(NothingUsableError, match="which is the best attainable"):
        choose(Question(rare, Choices(SIZES, (1,)), 0.005), known, Player(known))


def test_more_threads_than_cores_are_noted():
    n_cores = len(os.sched_getaffinity(0))
    given = {"effort": SHORT, "cache": None, "scenario": "single-stream"}
    found = choose_deployment(f"{FILE}:small", (16,), vary={"threads": [n_cores + 1]}, **given)
    assert any(f"than the {n_cores} cores" in note for note in found.measured.notes)
    found = choose_deployment(f"{FILE}:small", (16,), vary={"threads": [n_cores]}, **given)
    assert not any("More threads" in note for note in found.measured.notes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def deployment(folder):
    pytest.importorskip("torch")
    return choose_deployment(
        f"{FILE}:small",
        "1,4,4",
        "poisson:20/s",
        p99="2s",
        vary={"batch": list(range(1, 17)), "threads": [1, 2]},
        effort=SHORT,
        cache=folder,
        power="20W,60W",
    )


def test_a_network_is_measured_in_few_points_and_the_answer_is_plain_json(deployment):
    told = json.loads(json.dumps(deployment.to_json()))
    assert told["n_measured"] <= 0.25 * told["n_grid"] == 8
    assert told["n_cached"] == 0
    assert told["setting"]["replicas"] == 1
    assert told["predicted"]["p99_s"] >= told["predicted"]["mean_s"] > 0
    assert told["energy_j"] == pytest.approx(
        20 * told["setting"]["threads"] / told["power"]["n_cores"] / 20
        + 40 / told["power"]["n_cores"] * told["predicted"]["core_s"]
    )
    assert set(told["batch_times"]) == {"1", "2"}


def test_the_answer_says_what_to_set_and_where_figures_come_from(deployment):
    text = str(deployment)
    assert text.startswith(("Batch up to", "No batches"))
    for part in ("p99", "replica", "modelled", "simulated", "measured", "J per sample"):
        assert part in text


def test_times_are_measured_once_for_the_same_network(deployment, folder):
    again = choose_deployment(
        f"{FILE}:small",
        "1,4,4",
        "poisson:20/s",
        p99="2s",
        vary={"batch": list(range(1, 17)), "threads": [1, 2]},
        effort=SHORT,
        cache=folder,
        power="20W,60W",
    )
    assert again.measured.n_cached == len(again.measured.points)
    assert again.setting == deployment.setting
    assert again.figures == deployment.figures


def test_batches_that_cannot_be_computed_are_left_out():
    pytest.importorskip("torch")
    found = choose_deployment(
        f"{FILE}:greedy",
        "1,4,4",
        scenario="offline",
        vary={"batch": [1, 2, 4, 8], "threads": [1]},
        effort=SHORT,
        cache=None,
    )
    assert found.setting.batch <= 4
    assert any("cannot be computed" in note for note in found.measured.notes)


@pytest.mark.slow
def test_a_server_is_given_the_batches_that_can_be_computed():
    pytest.importorskip("torch")
    found = choose_deployment(
        f"{FILE}:greedy",
        "1,4,4",
        "poisson:5/s",
        vary={"batch": [1, 2, 4, 8], "threads": [1]},
        effort=SHORT,
        cache=None,
    )
    assert found.setting.batch <= 4
    told = [note for note in found.measured.notes if "cannot be computed" in note]
    assert len(told) == 1
    assert told[0].startswith("Batches of 7 and more")
    assert max(p.batch for p in found.measured.points) == 6


def test_architectures_are_measured_once_each():
    pytest.importorskip("torch")
    family = Deployable(
        f"{FILE}:small", (1, 4, 4), "single-stream", vary={"threads": [1]}, effort=SHORT, cache=None
    )
    first = family.latency(width=8)
    assert family.latency(width=8) is first
    other = family.latency(width=64)
    assert other is not first
    for found in (first, other):
        assert 0 < found.mean_s <= found.p99_s
        assert found.throughput == pytest.approx(1 / found.mean_s)
        assert (found.batch, found.threads) == (1, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"p99": "fast"}, "p99"),
        ({"p99": -1.0}, "p99"),
        ({"p99": math.nan}, "p99"),
        ({"minimize": "cost"}, "minimize"),
        ({"measure": "some"}, "measure"),
        ({"replicas": 0}, "replicas"),
        ({"seed": -1}, "seed"),
        ({"overhead_s": -1.0}, "overhead"),
        ({"pause_s": -1.0}, "pause"),
        ({"colour": 3}, "colour"),
    ],
)
def test_options_that_mean_nothing_are_refused_before_anything_starts(options, told):
    with pytest.raises(UsageError, match=told):
        choose_deployment(f"{FILE}:small", "1,4,4", "poisson:5/s", **options)


@pytest.mark.parametrize(
    ("arrivals", "options", "told"),
    [
        ("offline", {"minimize": "mean"}, "minimize"),
        ("offline", {"replicas": 4}, "replicas"),
        ("single-stream", {"replicas": 4}, "replicas"),
        ("single-stream", {"vary": {"batch": [1, 8]}}, "vary"),
        ("single-stream", {"vary": {"wait": ["2ms"]}}, "vary"),
        ("burst:8/50ms", {"vary": {"wait": ["2ms"]}}, "vary"),
        ("offline", {"vary": {"wait": [0, "2ms"]}}, "vary"),
    ],
)
def test_what_a_scenario_has_no_use_for_is_refused_before_anything_starts(arrivals, options, told):
    with pytest.raises(UsageError, match="the scenario") as caught:
        choose_deployment(f"{FILE}:small", "1,4,4", arrivals, **options)
    assert caught.value.option.name == told


def test_what_a_pause_adds_is_told_where_batches_come_after_one(folder):
    found = choose_deployment(
        f"{FILE}:small", (1, 4, 4), "poisson:20/s", vary={"batch": [1, 2], "threads": [1]},
        effort=SHORT, cache=folder,
    )  # fmt: skip
    for pause_s, told in ((0.5, True), (0.0, False)):
        points = [replace(p, pause_s=pause_s) for p in found.measured.points]
        text = str(replace(found, measured=replace(found.measured, points=points)))
        assert ("500 ms more after a pause" in text) == told


def test_a_setting_that_no_number_of_replicas_saves_is_told(folder):
    found = choose_deployment(
        f"{FILE}:small", (1, 4, 4), "poisson:20/s", p99="2s",
        vary={"batch": [1, 2], "threads": [1]}, effort=SHORT, cache=folder,
    )  # fmt: skip
    lost = [
        one if one.setting == found.setting
        else replace(one, trouble="p99 up to 9 s", setting=replace(one.setting, replicas=1_000))
        for one in found.choice.assessed
    ]  # fmt: skip
    text = str(replace(found, choice=replace(found.choice, assessed=tuple(lost))))
    assert "no number of replicas keeps the limit" in text
    assert "1,000 replicas" not in text
