"""Moves: cooldowns, sureness, and room for tasks that wait."""

import math

import pytest

from foretell.decide.placement.choose import Chooser, read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import (
    Estimate,
    Estimates,
    Figure,
    TypeEstimates,
    type_models,
)
from foretell.decide.placement.moves import Mover, Running
from foretell.decide.placement.tasks import read_task
from foretell.decide.placement.waiting import Waiter, Waiting

CLUSTER = {
    "migration": {"cooldown_s": 100, "min_age_s": 10, "min_remaining_s": 10, "start_s": 5},
    "node_type": [
        {"name": "fast", "nodes": ["fast"], "capacity": {"cpu": 4}, "time_s": 100, "energy_j": 50},
        {"name": "slow", "nodes": ["slow"], "capacity": {"cpu": 4}, "time_s": 400, "energy_j": 50},
    ],
}
FAST, SLOW = 0, 1


class Setting:
    """A task that runs on the slow node since 0 s, and could move to the fast one."""

    def __init__(self, policy="geometric:H=0", needs="cpu=2", described=CLUSTER, how="resume"):
        cluster = read_cluster(described)
        self.chooser = Chooser(cluster, Estimates(type_models(cluster, {})), read_policy(policy))
        self.mover = Mover(cluster.migration, self.chooser)
        task = read_task(f"{needs},migratable={how}")
        self.need = self.chooser.fleet.need(task.needs)
        self.running = Running(task, self.need, SLOW, 0.0)
        self.chooser.fleet.take(SLOW, self.need)
        self.waiting = Waiting()

    def find(self, now_s=200.0):
        return self.mover.find(self.running, self.waiting, now_s)


def test_a_move_that_saves_time_is_found_with_the_share_that_is_left():
    move = Setting().find(200.0)
    assert (move.to, move.share) == (FAST, pytest.approx(0.5))


@pytest.mark.parametrize(("now_s", "moves"), [(140.0, False), (199.0, False), (201.0, True)])
def test_no_move_goes_back_within_the_cooldown(now_s, moves):
    setting = Setting()
    setting.running.left = {FAST: 101.0}
    assert (setting.find(now_s) is not None) is moves


def test_a_task_that_moved_stays_for_the_cooldown_whatever_other_nodes_there_are():
    """Nodes by name: fast, other, slow. It came from the other one to the slow one."""
    other = {**CLUSTER["node_type"][1], "name": "other", "nodes": ["other"]}
    cluster = {**CLUSTER, "node_type": [*CLUSTER["node_type"], other]}
    setting = Setting(described=cluster)
    setting.chooser.fleet.give_back(SLOW, setting.need)
    setting.running.node = 2
    setting.chooser.fleet.take(2, setting.need)
    setting.running.left = {1: 150.0}
    assert setting.find(249.0) is None
    assert setting.find(251.0).to == FAST


def with_rules(**rules):
    """Return the cluster with other rules of moves."""
    return {**CLUSTER, "migration": {**CLUSTER["migration"], **rules}}


@pytest.mark.parametrize(("start_s", "moves"), [(30, True), (60, False)])
def test_the_time_to_start_counts(start_s, moves):
    # 15 % are left: staying takes 60 s, and the fast node 15 s after the start.
    setting = Setting(described=with_rules(start_s=start_s))
    assert (setting.find(340.0) is not None) is moves


@pytest.mark.parametrize(
    ("how", "now_s", "share"),
    [("resume", 320.0, 0.2), ("restart", 320.0, math.nan), ("restart", 200.0, 1.0)],
)
def test_a_task_that_restarts_does_all_of_its_work_again(how, now_s, share):
    # Staying takes 80 s at 320 s, and 200 s at 200 s; starting again takes 105 s.
    move = Setting(how=how).find(now_s)
    assert (move.share if move else math.nan) == pytest.approx(share, nan_ok=True)


@pytest.mark.parametrize(("start_s", "moves"), [(1, True), (10, False)])
def test_the_energy_of_both_copies_counts_while_one_starts(start_s, moves):
    # Half is left: 100 J at 2 W. The other node takes 80 J, and 2 J for each second of the start.
    types = [
        {"name": "fast", "nodes": ["fast"], "capacity": {"cpu": 4}, "time_s": 100, "energy_j": 160},
        {"name": "slow", "nodes": ["slow"], "capacity": {"cpu": 4}, "time_s": 100, "energy_j": 200},
    ]
    described = {**with_rules(start_s=start_s), "node_type": types}
    setting = Setting("geometric:H=1", described=described)
    assert (setting.find(50.0) is not None) is moves


@pytest.mark.parametrize("policy", ["geometric", "heats"])
def test_tasks_move_where_only_what_counts_is_known(policy):
    types = [{k: v for k, v in kind.items() if k != "energy_j"} for kind in CLUSTER["node_type"]]
    described = {**CLUSTER, "node_type": types}
    assert Setting(f"{policy}:H=0", described=described).find().to == FAST
    for H in (0.5, 1):
        assert Setting(f"{policy}:H={H}", described=described).find() is None


def test_no_more_tasks_move_in_a_minute_than_allowed():
    setting = Setting()
    for _ in range(10):
        setting.mover.note(Running(setting.running.task, setting.need, FAST, 0.0), 150.0)
    assert setting.find(209.0) is None
    assert setting.find(210.0) is not None


def test_a_move_must_be_better_by_more_than_the_error_of_the_predictions():
    setting = Setting()
    known = setting.chooser.estimates.of(setting.running.task)

    def with_interval(ratio):
        times = [
            Figure(e.time.value, e.time.value / ratio, e.time.value * ratio) for e in known.by_type
        ]
        wide = TypeEstimates.of(
            [Estimate(t, e.energy) for t, e in zip(times, known.by_type, strict=True)]
        )
        setting.chooser.estimates._known[setting.running.task.key] = wide
        return setting.find(50.0)

    # Staying takes 350 s, moving 5 + 87.5 s: a difference of 1.33 in logarithms, which is
    # 2·√2·ln(r)/1.645 at r = 2.17.
    assert with_interval(2.0) is not None
    assert with_interval(2.4) is None


def test_no_move_takes_the_room_of_a_task_that_waits():
    setting = Setting(needs="cpu=3")
    big = read_task("cpu=4")
    need = setting.chooser.fleet.need(big.needs)
    setting.waiting.add(Waiter(0, big, need))
    assert setting.find() is not None  # it can have the slow node instead
    setting.waiting.add(Waiter(1, big, need))
    assert setting.find() is None


def test_a_policy_without_predictions_moves_nothing():
    assert Setting("kube").find() is None


def test_a_task_that_nearly_ended_stays():
    assert Setting().find(395.0) is None


def test_a_task_that_should_have_ended_stays_whatever_the_limits():
    setting = Setting("geometric:H=0.5")
    limits = {"min_remaining_s": 0.0, "start_s": 0.0}
    setting.mover.rules = setting.mover.rules.model_copy(update=limits)
    assert setting.find(399.0) is not None
    assert setting.find(401.0) is None


def test_moves_count_the_energy_that_the_policy_counts():
    """A node that is empty but for this task could be switched off."""
    power = {"idle_w": 10, "busy_w": 12, "can_power_off": True}
    types = [
        {"name": name, "nodes": [name], "capacity": {"cpu": 4}, "time_s": 400, "energy_j": 50,
         **power}
        for name in ("other", "own")
    ]  # fmt: skip
    cluster = read_cluster({**CLUSTER, "node_type": types})
    for energy, moves in (("task", False), ("node", True)):
        choice = read_policy(f"geometric:H=1:energy={energy}")
        chooser = Chooser(cluster, Estimates(type_models(cluster, {})), choice)
        task = read_task("cpu=1,migratable=resume")
        need = chooser.fleet.need(task.needs)
        for node in (0, 1):
            chooser.fleet.take(node, need)
        before = chooser.fleet.used.copy()
        move = Mover(cluster.migration, chooser).find(Running(task, need, 1, 0.0), Waiting(), 100.0)
        assert (move is not None) is moves
        assert (chooser.fleet.used == before).all()
