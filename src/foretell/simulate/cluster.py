"""A cluster simulated: tasks arrive, a policy places and moves them, and energy is summed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.corun.jobs import JobNeeds
from foretell.decide.placement.choose import Chooser, PolicyChoice
from foretell.decide.placement.cluster import Cluster
from foretell.decide.placement.estimates import Estimates
from foretell.decide.placement.fleet import Amounts
from foretell.decide.placement.moves import Mover, Running
from foretell.decide.placement.neighbors import Neighbors
from foretell.decide.placement.reserving import first_room
from foretell.decide.placement.tasks import Task
from foretell.decide.placement.waiting import Waiter, Waiting
from foretell.errors import UsageError
from foretell.simulate.arrivals import Arrival
from foretell.simulate.events import Event, Events
from foretell.simulate.ledger import Ledger

Array = NDArray[np.float64]
_MOST_AT_ONCE = 40  # waiting tasks that a policy may place together


@dataclass(frozen=True)
class Stay:
    """A task on one node: the whole of its run, or a part of it."""

    task: int
    node: int
    start_s: float
    end_s: float
    cpus: float


@dataclass(frozen=True, eq=False)
class Played:
    """What happened under one policy with one seed.

    Attributes
    ----------
    tasks
        One row per task: when it arrived, started and ended, where, and what it took.
    task_j, idle_j
        The energy of all tasks, and that of nodes that are on, whatever runs.
    unplaced
        Tasks that no node can ever take.
    """

    policy: str
    H: float
    seed: int
    tasks: pd.DataFrame
    stays: list[Stay]
    task_j: float
    idle_j: float
    makespan_s: float
    n_moves: int
    unplaced: list[int]


@dataclass(eq=False, slots=True)
class _Job:
    """A task from its arrival to its end."""

    index: int
    task: Task
    arrived_s: float
    times: Array
    energies: Array
    waiter: Waiter | None = None
    running: Running | None = None
    first_s: float = math.nan
    ended_s: float = math.nan
    energy_j: float = 0.0
    end: Event | None = None
    left_s: float = 0.0
    since_s: float = 0.0
    speed: float = 1.0
    is_moving: bool = False
    where: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Scene:
    """What all policies are tried on: a cluster, tasks, what is predicted, and what is true.

    Attributes
    ----------
    noise
        The standard deviation of the logarithm of true times and energies.
    profiles
        What jobs need alone, by the name that tasks give as their profile; such tasks slow one
        another on the nodes that they share.
    """

    cluster: Cluster
    arrivals: Sequence[Arrival]
    estimates: Estimates
    truth: Estimates
    noise: float = 0.0
    profiles: Mapping[str, JobNeeds] = field(default_factory=dict)

    def play(self, choice: PolicyChoice, seed: int = 0) -> Played:
        """Let the tasks arrive, and place them by a policy."""
        return _Play(self, choice, seed).play()


class _Play:
    """One policy at work."""

    def __init__(self, scene: Scene, choice: PolicyChoice, seed: int) -> None:
        self.scene, self.choice, self.seed = scene, choice, seed
        cluster = scene.cluster
        self.chooser = Chooser(cluster, scene.estimates, choice, seed)
        self.fleet = self.chooser.fleet
        cluster.check_nodes()
        self.room_at_start = self.fleet.free
        self.events = Events(seed)
        self.waiting = Waiting()
        self.mover = Mover(cluster.migration, self.chooser)
        self.moves = cluster.migration.enabled if choice.moves is None else choice.moves
        self.neighbors = Neighbors.of(cluster, self.fleet, scene.profiles)
        self.chooser.neighbors = self.neighbors
        if self.moves and self._has_profiles:
            raise UsageError(
                "tasks with profiles are not moved in a simulation; switch moves off, or leave out "
                "the column profile"
            )
        self.running: dict[int, _Job] = {}
        self.stays: list[Stay] = []
        self.n_moves = 0
        self.ledger = Ledger(self.fleet, scene.truth, self._start_s())
        self.jobs = self._jobs()
        self.n_left = len(self.jobs)
        self.unplaced: list[int] = []

    @property
    def _has_profiles(self) -> bool:
        known = self.neighbors
        return known is not None and any(known.knows(a.task) for a in self.scene.arrivals)

    def _start_s(self) -> float:
        return self.scene.arrivals[0].at_s if self.scene.arrivals else 0.0

    def _jobs(self) -> list[_Job]:
        tasks = [arrival.task for arrival in self.scene.arrivals]
        self.scene.estimates.prefetch(tasks)
        self.scene.truth.prefetch(tasks)
        noise = np.random.default_rng([self.seed, 2]).normal(0, self.scene.noise, (len(tasks), 2))
        factors = np.exp(noise)
        jobs = []
        for i, arrival in enumerate(self.scene.arrivals):
            true = self.scene.truth.of(arrival.task)
            known = np.isfinite(true.time_s) & np.isfinite(true.energy_j)
            if not known[self.fleet.type_of].all():
                self._refuse(arrival.place or f"task {i + 1}", arrival.task, known)
            jobs.append(
                _Job(
                    i, arrival.task, arrival.at_s,
                    true.time_s * factors[i, 0], true.energy_j * factors[i, 1],
                )
            )  # fmt: skip
        return jobs

    def _refuse(self, which: str, task: Task, known: NDArray[np.bool_]) -> None:
        place = next(int(i) for i in self.fleet.type_of if not known[i])
        table = self.scene.cluster.node_type[place]
        estimate = self.scene.truth.of(task).by_type[place]
        what, figure = ("time", estimate.time)
        remedy = "write time_s = an expression of the task's columns"
        if figure.is_known:
            what, figure = ("energy", estimate.energy)
            remedy = "write energy_j = an expression, idle_w and busy_w, or a power curve"
        raise UsageError(
            f"{which}: its {what} on nodes of type {table.name} is not known "
            f"({figure.remark or figure.trust}); give the task what is missing, or in the cluster "
            f"file {remedy}, or name models that were fitted on such tasks"
        )

    def play(self) -> Played:
        for at_s, group in groupby(self.jobs, key=lambda job: job.arrived_s):
            self.events.at(at_s, self._arrive, list(group))
        if self.moves and self.chooser.policy.can_move and self.jobs:
            first = self.jobs[0].arrived_s + self.scene.cluster.migration.every_s
            self.events.at(first, self._look_for_moves)
        self.events.run()
        done = [job for job in self.jobs if not math.isnan(job.ended_s)]
        start = self.ledger.start_s
        end = max((job.ended_s for job in done), default=start)
        task_j, idle_j = self.ledger.close(end)
        return Played(
            self.choice.label, self.chooser.H, self.seed, self._table(done), self.stays, task_j,
            idle_j, float(end - start), self.n_moves, self.unplaced,
        )  # fmt: skip

    # What happens

    def _arrive(self, jobs: list[_Job]) -> None:
        """Place tasks that arrive at the same moment, or let them wait."""
        usable: list[tuple[_Job, Amounts]] = []
        for job in jobs:
            need = self.fleet.need(job.task.needs)
            if need is None or not self._could_take(need).any():
                self.unplaced.append(job.index)
                self.n_left -= 1
            else:
                usable.append((job, need))
        nodes = self._assigned([(job.task, need) for job, need in usable])
        for (job, need), assigned in zip(usable, nodes, strict=True):
            node = self.chooser.choose(job.task, need) if assigned is None else assigned
            if node is None:
                job.waiter = Waiter(job.index, job.task, need)
                self.waiting.add(job.waiter)
                self.events.after(self.scene.cluster.policy.reserve_after_s, self._reserve, job)
            else:
                self.waiting.last_placed = max(self.waiting.last_placed, job.index)
                self._start(job, need, node, 1.0)

    def _could_take(self, need: Amounts) -> NDArray[np.bool_]:
        """Say which nodes have room for a task when no other task of the simulation runs."""
        room = np.all(need[:, None] <= self.room_at_start, axis=0)
        found: NDArray[np.bool_] = room & self.fleet.ready
        return found

    def _assigned(self, tasks: list[tuple[Task, Amounts]]) -> list[int | None]:
        """Return nodes for tasks that are placed at once, in groups that are not too large."""
        found: list[int | None] = []
        for i in range(0, len(tasks), _MOST_AT_ONCE):
            group = tasks[i : i + _MOST_AT_ONCE]
            assigned = None if i else self.chooser.assign(group)  # a first group takes the room
            found += assigned or [None] * len(group)
        return found

    def _start(self, job: _Job, need: Amounts, node: int, share: float, delay_s: float = 0) -> None:
        """Start a task, or go on with the share of it that is left, on a node."""
        now_s = self.events.now_s
        self.ledger.note(node, self.events.now_s)
        self.fleet.take(node, need)
        if job.running is None:
            job.first_s = now_s
            job.running = Running(job.task, need, node, now_s, share)
            self.running[job.index] = job
        job.where.append(node)
        time_s = delay_s + share * float(job.times[self.fleet.type_of[node]])
        job.end = self.events.after(time_s, self._end, job)
        job.left_s, job.since_s, job.speed = time_s, now_s, 1.0
        if self.neighbors is not None:
            self.neighbors.add(node, job.index, job.task)
            self._retime(node)

    def _retime(self, node: int) -> None:
        """Plan the ends of tasks anew whose speed has changed with their neighbors."""
        assert self.neighbors is not None
        now_s = self.events.now_s
        for number, speed in self.neighbors.speeds(node).items():
            job = self.jobs[number]
            if speed == job.speed or job.end is None:
                continue
            job.left_s = max(0.0, job.left_s - (now_s - job.since_s) * job.speed)
            job.since_s, job.speed = now_s, speed
            job.end.cancel()
            job.end = self.events.after(job.left_s / speed, self._end, job)

    def _end(self, job: _Job) -> None:
        running = job.running
        assert running is not None
        job.ended_s = self.events.now_s
        self._leave(job, running.node, running.share)
        del self.running[job.index]
        self.n_left -= 1

    def _leave(self, job: _Job, node: int, share: float) -> None:
        """Take a task off a node, having done a share of it there, and use the room."""
        running = job.running
        assert running is not None
        self.ledger.note(node, self.events.now_s)
        self.fleet.give_back(node, running.need)
        self._count(job, node, share)
        if self.neighbors is not None:
            self.neighbors.remove(node, job.index)
            self._retime(node)
        cpus = job.task.needs.cpus
        self.stays.append(Stay(job.index, node, running.started_s, self.events.now_s, cpus))
        self._place_waiting(node)

    def _count(self, job: _Job, node: int, share: float) -> None:
        """Count the energy of a share of a task on a node."""
        energy_j = share * float(job.energies[self.fleet.type_of[node]])
        job.energy_j += energy_j
        self.ledger.add(node, energy_j)

    def _place_waiting(self, node: int) -> None:
        """Place waiting tasks, now that a node has more room."""
        while (waiter := self.waiting.next_for(self.fleet, node)) is not None:
            if self._place_together():
                continue
            chosen = self.chooser.choose(waiter.task, waiter.need, waiter.own)
            assert chosen is not None, "a node has room, so one is chosen"
            self._place(waiter, chosen)

    def _place_together(self) -> bool:
        """Place some of the waiting tasks at once, if the policy does that."""
        if self.chooser.policy.together != "waiting":
            return False
        first = [w for _, w in zip(range(_MOST_AT_ONCE), self.waiting, strict=False)]
        chosen = self.chooser.assign([(w.task, w.need) for w in first])
        placed = [(w, node) for w, node in zip(first, chosen or (), strict=False)
                  if node is not None]  # fmt: skip
        for waiter, node in placed:
            self._place(waiter, node)
        return bool(placed)

    def _place(self, waiter: Waiter, node: int) -> None:
        self.waiting.remove(waiter)
        if waiter.own is not None:
            self.fleet.reserved[waiter.own] = False
        job = self.jobs[waiter.order]
        self._start(job, waiter.need, node, 1.0)
        if waiter.own is not None and waiter.own != node:
            self._place_waiting(waiter.own)

    def _reserve(self, job: _Job) -> None:
        """Keep a node free for a task that waited long while later ones were placed."""
        waiter = job.waiter
        assert waiter is not None
        if job.running is not None or waiter.own is not None:
            return
        room = None
        if self.waiting.was_overtaken(waiter):
            running = [job.running for job in self.running.values() if job.running is not None]
            usable = self._could_take(waiter.need)
            room = first_room(self.chooser, waiter.need, running, usable, self.events.now_s)
        if room is None:
            self.events.after(self.scene.cluster.policy.reserve_after_s, self._reserve, job)
            return
        waiter.own = room.node
        self.fleet.reserved[room.node] = True

    # Moves

    def _look_for_moves(self) -> None:
        for job in list(self.running.values()):
            running = job.running
            assert running is not None
            if job.is_moving:
                continue
            move = self.mover.find(running, self.waiting, self.events.now_s)
            if move is not None:
                self._move(job, running, move.to, move.share)
        if self.n_left:
            self.events.after(self.scene.cluster.migration.every_s, self._look_for_moves)

    def _move(self, job: _Job, running: Running, to: int, share: float) -> None:
        """Start a task on another node; it leaves the old one as soon as the new one is ready."""
        now_s, start_s = self.events.now_s, self.scene.cluster.migration.start_s
        time_s = float(job.times[self.fleet.type_of[running.node]])
        left = max(0.0, running.share - (now_s - running.started_s) / time_s)
        if left * time_s <= start_s:
            return  # it ends before the other is ready
        assert job.end is not None
        job.end.cancel()
        job.is_moving = True
        self.n_moves += 1
        self.mover.note(running, now_s)
        on_both = (now_s + start_s - running.started_s) / time_s
        rest = left if job.task.migratable == "resume" else 1.0
        self._start(job, running.need, to, rest, delay_s=start_s)
        self.events.after(start_s, self._moved, job, to, rest, on_both)

    def _moved(self, job: _Job, to: int, rest: float, done: float) -> None:
        running = job.running
        assert running is not None
        old = running.node
        job.is_moving = False
        self.stays.append(
            Stay(job.index, to, self.events.now_s - self.scene.cluster.migration.start_s,
                 self.events.now_s, job.task.needs.cpus)
        )  # fmt: skip
        started_s = running.started_s
        running.node, running.started_s, running.share = to, self.events.now_s, rest
        self.ledger.note(old, self.events.now_s)
        self.fleet.give_back(old, running.need)
        self._count(job, old, done)
        self.stays.append(Stay(job.index, old, started_s, self.events.now_s, job.task.needs.cpus))
        self._place_waiting(old)

    def _table(self, done: list[_Job]) -> pd.DataFrame:
        rows = []
        types, names = self.fleet.types, self.fleet.names
        for job in done:
            need = self.fleet.need(job.task.needs)
            assert need is not None
            usable = np.unique(self.fleet.type_of[self._could_take(need)])
            fastest_s, least_j = job.times[usable].min(), np.nanmin(job.energies[usable])
            last = job.where[-1]
            estimate = self.chooser.estimates.of(job.task).by_type[self.fleet.type_of[last]]
            rows.append(
                (
                    job.task.name or str(job.index + 1), job.arrived_s, names[last],
                    types[self.fleet.type_of[last]].name, job.first_s, job.ended_s,
                    job.first_s - job.arrived_s, job.ended_s - job.first_s, job.energy_j,
                    (job.ended_s - job.arrived_s) / fastest_s, len(job.where) - 1,
                    estimate.time.value, estimate.energy.value, fastest_s, least_j,
                    self.chooser.weight(job.task),
                )
            )  # fmt: skip
        return pd.DataFrame(rows, columns=list(TASK_COLUMNS))


#: What is known of each task afterward.
TASK_COLUMNS = (
    "name", "arrival_s", "node", "type", "start_s", "end_s", "wait_s", "time_s", "energy_j",
    "slowdown", "n_moves", "predicted_time_s", "predicted_energy_j", "fastest_s", "least_j", "H",
)  # fmt: skip
