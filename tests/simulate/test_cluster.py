"""Simulated clusters: by hand where that is possible, and by what must hold in all of them."""

import itertools
import math

import numpy as np
import pytest

from foretell.cluster.models import open_estimates
from foretell.decide.placement.choose import read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.optimum import solve_timed
from foretell.decide.placement.tasks import read_task
from foretell.errors import UsageError
from foretell.simulate.arrivals import Arrival, made_up
from foretell.simulate.cluster import Scene
from foretell.simulate.figures import best_cost, figures_of, mean_cost, timed_problem


def scene_of(cluster, arrivals=None, seed=0):
    """Make a scene; arrivals are pairs of a time and a task."""
    cluster = read_cluster(cluster)
    if arrivals is None:
        tasks = made_up(cluster.trace, seed)
    else:
        tasks = [Arrival(at_s, read_task(text)) for at_s, text in arrivals]
    noise = 0.0 if cluster.trace is None else cluster.trace.noise
    return Scene(cluster, tasks, *open_estimates(cluster), noise)


def node_type(name, time_s, energy_j, cpu, **more):
    table = {"name": name, "nodes": [name], "capacity": {"cpu": cpu, "memory": "64Gi"}}
    table |= {"time_s": time_s} if time_s is not None else {}
    return {**table, **({} if energy_j is None else {"energy_j": energy_j}), **more}


FAST = node_type("fast", "work", "10 * work", 2, idle_w=5)
SLOW = node_type("slow", "4 * work", "2 * work", 2, idle_w=1)
PAIR = {"node_type": [FAST, SLOW]}


def test_a_queue_of_tasks_ends_when_it_should():
    scene = scene_of({"node_type": [FAST]}, [(0, "cpu=1,work=10"), (0, "cpu=2,work=5"),
                                             (1, "cpu=1,work=4")])  # fmt: skip
    played = scene.play(read_policy("geometric"))
    # The second needs both CPUs, and waits; the third fits beside the first, from 1 to 5.
    assert played.tasks["start_s"].tolist() == [0, 10, 1]
    assert played.tasks["end_s"].tolist() == [10, 15, 5]
    assert played.makespan_s == 15
    assert played.task_j == 10 * (10 + 5 + 4)
    assert played.idle_j == 5 * 15
    figures = figures_of(played)
    assert figures.mean_wait_s == pytest.approx(10 / 3)
    assert figures.mean_slowdown == pytest.approx((1 + 3 + 1) / 3)
    assert figures.total_j == played.task_j + played.idle_j


def test_energy_or_speed_is_what_the_weight_says():
    tasks = [(0, "cpu=1,work=10")]
    slow = scene_of(PAIR, tasks).play(read_policy("geometric:H=1"))
    fast = scene_of(PAIR, tasks).play(read_policy("geometric:H=0"))
    assert (slow.task_j, slow.makespan_s, slow.idle_j) == (20, 40, 6 * 40)
    assert (fast.task_j, fast.makespan_s, fast.idle_j) == (100, 10, 6 * 10)


def test_power_curves_are_integrated_over_time():
    curve = {"k0": 10, "k1": 5, "k2": 0.02}
    one = node_type("one", "work", None, 2, power=curve)
    played = scene_of({"node_type": [one]}, [(0, "cpu=1,work=10"), (4, "cpu=1,work=2")]).play(
        read_policy("first_fit")
    )

    def watts(percent):
        return 10 + 5 * math.exp(0.02 * percent)

    assert played.idle_j == pytest.approx(15 * 10)
    assert played.task_j == pytest.approx((watts(50) - 15) * 8 + (watts(100) - 15) * 2)


def test_a_node_that_can_be_off_draws_nothing_while_it_is_empty():
    off = node_type("off", "work", "work", 2, idle_w=7, can_power_off=True)
    played = scene_of({"node_type": [off]}, [(0, "work=3"), (10, "work=5")]).play(
        read_policy("kube")
    )
    assert played.makespan_s == 15
    assert played.idle_j == pytest.approx(7 * (3 + 5))


def test_a_task_that_fits_nowhere_is_counted_once_and_does_not_stop_the_rest():
    played = scene_of(PAIR, [(0, "cpu=3,work=1"), (1, "cpu=1,work=1")]).play(read_policy("kube"))
    assert played.unplaced == [0]
    assert len(played.tasks) == 1
    other = scene_of(PAIR, [(0, "x.com/fpga=1,work=1"), (1, "work=1")]).play(read_policy("kube"))
    assert other.unplaced == [0]


def test_what_is_in_use_from_the_start_stays_so():
    cluster = {"node_type": [FAST], "node": [{"name": "fast", "used": {"cpu": 1}}]}
    played = scene_of(cluster, [(0, "cpu=2,work=1"), (0, "cpu=1,work=3"), (1, "work=2")]).play(
        read_policy("geometric")
    )
    assert played.unplaced == [0]  # rather than waiting for ever
    assert played.tasks["end_s"].tolist() == [3, 5]


def test_an_overtaken_task_gets_a_node_of_its_own_in_the_end():
    """Small tasks that keep coming would starve a large one."""
    small = [(float(t), "cpu=1,work=10") for t in range(0, 2000, 5)]
    tasks = sorted([*small, (12.0, "cpu=2,work=10,name=large")])
    for wait_s, starts_by in ((50.0, 100.0), (300.0, 400.0)):
        cluster = {"node_type": [FAST], "policy": {"reserve_after_s": wait_s}}
        played = scene_of(cluster, tasks).play(read_policy("geometric"))
        large = played.tasks.set_index("name").loc["large"]
        assert 12 + wait_s <= large["start_s"] <= 12 + starts_by
        assert len(played.tasks) == len(tasks)


def never_more_than_there_is(scene, played):
    """Check that at every start, the tasks on a node fit, and that every task ran once."""
    nodes = sorted(scene.cluster.nodes()[0], key=lambda node: node.name)
    for i, node in enumerate(nodes):
        own = [s for s in played.stays if s.node == i]
        for moment in {s.start_s for s in own}:
            used = sum(s.cpus for s in own if s.start_s <= moment < s.end_s)
            assert used <= node.type.capacity.cpus + 1e-9
    assert len(played.tasks) + len(played.unplaced) == len(scene.arrivals)
    assert (played.tasks["wait_s"] >= 0).all()


BUSY = {
    "trace": {"tasks": 150, "bursts": 3, "every_s": 60, "within_s": 40, "cpu": [1, 2, 3],
              "memory": ["100Mi", "1Gi"], "noise": 0.2, "migratable": "resume",
              "features": {"work": {"from": 5.0, "to": 60.0}}},
    "migration": {"every_s": 7, "min_age_s": 5, "min_remaining_s": 5, "cooldown_s": 40,
                  "start_s": 2, "max_per_minute": 1000, "max_per_task": 9},
    "node_type": [
        {"name": "fast", "count": 3, "capacity": {"cpu": 6, "memory": "4Gi"},
         "time_s": "work", "energy_j": "9 * work", "idle_w": 9},
        {"name": "slow", "count": 5, "capacity": {"cpu": 4, "memory": "2Gi"},
         "time_s": "3 * work", "energy_j": "4 * work", "idle_w": 2},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "policy",
    ["geometric:H=0.4:moves=on", "heats:H=1:moves=on", "kube", "first_fit", "random", "best"],
)
def test_no_task_is_lost_and_no_node_holds_more_than_it_has(policy):
    scene = scene_of(BUSY)
    never_more_than_there_is(scene, scene.play(read_policy(policy), seed=3))


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others():
    played = [scene_of(BUSY, seed=s).play(read_policy("random"), s) for s in (1, 1, 2)]
    first, same, other = (p.tasks.to_csv() for p in played)
    assert first == same != other


@pytest.mark.parametrize("seed", range(20))
def test_no_task_returns_to_a_node_within_the_cooldown(seed):
    scene = scene_of(BUSY, seed=seed)
    played = scene.play(read_policy("heats:H=0.3:moves=on"), seed)
    assert played.n_moves > 0
    by_task = {}
    for stay in sorted(played.stays, key=lambda s: s.start_s):
        by_task.setdefault(stay.task, []).append(stay)
    for stays in by_task.values():
        for a, b in itertools.combinations(stays, 2):
            if a.node == b.node and b.start_s > a.end_s:
                assert b.start_s - a.end_s >= 40 - 2 - 1e-9  # it left when the copy started


def test_a_move_takes_the_time_and_energy_that_it_should():
    """The fast node is taken at first; when it is free, the slow task moves there."""
    cluster = {**PAIR, "migration": {"every_s": 20, "min_age_s": 10, "min_remaining_s": 10,
                                     "start_s": 3}}  # fmt: skip
    tasks = [(0, "cpu=2,work=15"), (1, "cpu=1,work=40,migratable=resume")]
    played = scene_of(cluster, tasks).play(read_policy("geometric:H=0:moves=on"))
    # On the slow node from 1 to 20: 19/160 done. 3 s to start, then the rest of 40 s.
    left = 1 - 19 / 160
    assert played.n_moves == 1
    assert played.tasks["end_s"][1] == pytest.approx(20 + 3 + 40 * left)
    assert played.tasks["energy_j"][1] == pytest.approx(80 * 22 / 160 + 400 * left)
    restart = [(0, "cpu=2,work=15"), (1, "cpu=1,work=40,migratable=restart")]
    again = scene_of(cluster, restart).play(read_policy("geometric:H=0:moves=on"))
    assert again.tasks["end_s"][1] == pytest.approx(20 + 3 + 40)


@pytest.mark.parametrize(
    ("changes", "task"),
    [
        ({}, "migratable=never"),
        ({"margin": 3.0}, "migratable=resume"),
        ({"max_per_task": 0}, "migratable=resume"),
        ({"max_per_minute": 0}, "migratable=resume"),
        ({"min_age_s": 500}, "migratable=resume"),
        ({"min_remaining_s": 150}, "migratable=resume"),
    ],
)
def test_limits_keep_a_task_where_it_is(changes, task):
    rules = {"every_s": 20, "min_age_s": 10, "min_remaining_s": 10, "start_s": 3, **changes}
    tasks = [(0, "cpu=2,work=15"), (1, f"cpu=1,work=40,{task}")]
    scene = scene_of({**PAIR, "migration": rules}, tasks)
    assert scene.play(read_policy("geometric:H=0:moves=on")).n_moves == 0


def test_moves_are_off_unless_asked_for():
    scene = scene_of(BUSY)
    assert scene.play(read_policy("geometric:H=0.4"), 1).n_moves == 0
    on = scene_of({**BUSY, "migration": {**BUSY["migration"], "enabled": True}})
    assert on.play(read_policy("geometric:H=0.4"), 1).n_moves > 0
    assert on.play(read_policy("geometric:H=0.4:moves=off"), 1).n_moves == 0


# Regret


def best_by_hand(scene, H):
    """Try all orders and nodes of tasks that each fill a node: the best schedule by brute force."""
    times = [scene.truth.of(a.task).time_s for a in scene.arrivals]
    energies = [scene.truth.of(a.task).energy_j for a in scene.arrivals]
    n, best = len(times), math.inf
    for nodes in itertools.product(range(len(times[0])), repeat=n):
        for order in itertools.permutations(range(n)):
            free, total = [0.0] * len(times[0]), 0.0
            for i in order:
                arrived = scene.arrivals[i].at_s
                end = max(free[nodes[i]], arrived) + times[i][nodes[i]]
                free[nodes[i]] = end
                energy = energies[i][nodes[i]] / min(energies[i])
                total += energy**H * ((end - arrived) / min(times[i])) ** (1 - H)
            best = min(best, total / n)
    return best


@pytest.mark.parametrize("H", [0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_schedule_is_that_found_by_trying_all(H, seed):
    random = np.random.default_rng(seed)
    tasks = sorted((float(random.uniform(0, 20)), f"cpu=2,work={random.integers(5, 30)}")
                   for _ in range(4))  # fmt: skip
    scene = scene_of(PAIR, tasks)
    played = [scene.play(read_policy(f"{name}:H={H}")) for name in ("geometric", "best")]
    found, exact = best_cost(scene, played, H), best_by_hand(scene, H)
    assert found <= exact * (1 + 1e-6)  # slots are cut so that it is never too high
    assert found >= exact * 0.85
    assert all(mean_cost(p) >= exact * (1 - 1e-9) for p in played)


def test_at_equal_waits_the_best_schedule_cannot_wait_for_a_frugal_node():
    scene = scene_of(PAIR, [(0, "cpu=2,work=10"), (1, "cpu=2,work=10")])
    played = scene.play(read_policy("geometric:H=1"))
    assert played.tasks["wait_s"].tolist() == [0, 0]  # the second takes the fast node, at 5 × 20 J
    patient = timed_problem(scene, [played], 1.0)
    prompt = timed_problem(scene, [played], 1.0, may_wait_more=False)
    assert solve_timed(patient) == pytest.approx(2)
    assert solve_timed(prompt) == pytest.approx(1 + 5)


def test_there_is_no_best_schedule_of_a_large_scene():
    scene = scene_of(BUSY)
    assert best_cost(scene, [scene.play(read_policy("kube"))], 0.5) is None


# What cannot be simulated


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"time_s": None}, "its time on nodes of type slow .*no model.*write time_s"),
        ({"time_s": "missing * 2"}, "its time on nodes of type slow .*needs 'missing'"),
        ({"time_s": "work - 99"}, "its time on nodes of type slow .*more than 0"),
        ({"energy_j": None, "idle_w": None}, "its energy on nodes of type slow .*power curve"),
    ],
)
def test_a_type_of_which_nothing_is_known_is_refused(changes, expected):
    slow = {k: v for k, v in {**SLOW, **changes}.items() if v is not None}
    scene = scene_of({"node_type": [FAST, slow]}, [(0, "work=3")])
    with pytest.raises(UsageError, match=expected):
        scene.play(read_policy("kube"))


def test_a_cluster_without_nodes_is_refused():
    live = {"name": "a", "selector": {"x": "y"}, "capacity": {"cpu": 1}, "time_s": 1}
    with pytest.raises(UsageError, match=r"no nodes; .*write count"):
        scene_of({"node_type": [live]}, [(0, "cpu=1")]).play(read_policy("kube"))
