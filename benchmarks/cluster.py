"""What placement by predictions is worth, against the optimum, kube-scheduler's rule and an oracle.

    python -m benchmarks.cluster [--seeds 20] [--only NAME]

Every figure is *simulated*, unless it is called *published*. The set-up of the trace is that of
the HEATS study: 480 k-means tasks of 500 to 1,000 iterations in 4 bursts, on 1 AMD, 3 Intel and 4
ARM nodes. Rates of the servers are those of its published prototype; which of them belongs to
which server is an assumption. The ARM node is 5.0 times slower than the AMD at 0.22 of its energy,
as its first figure implies. Idle watts are assumptions. This combination was chosen after trying
others, because it comes close to the published figures; `--only assumptions` prints the others.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import foretell
from foretell.cluster.models import open_estimates
from foretell.cluster.simulate import Interval, Simulation, run_policies
from foretell.decide.placement.choose import Chooser, read_policies, read_policy
from foretell.decide.placement.cluster import Cluster, read_cluster
from foretell.decide.placement.estimates import (
    Estimates,
    FormulaSource,
    TypeModel,
    true_models,
    type_models,
)
from foretell.decide.placement.optimum import solve, solve_timed
from foretell.decide.placement.tasks import Task
from foretell.machines import Resources
from foretell.simulate.arrivals import Arrival, made_up
from foretell.simulate.cluster import Scene
from foretell.simulate.figures import mean_cost, timed_problem
from foretell.spaces.expressions import Expression

#: Iterations per second, and energy relative to the AMD: published figures of the prototype.
SERVERS = ((18.7, 1.0), (12.3, 0.99), (14.2, 0.36))
#: The same of an ARM node: from the study's first figure, if tasks start again or resume, and from
#: the prototype.
ARMS = {"restart": (18.7 / 5.0, 0.22), "resume": (18.7 / 8.8, 0.40), "prototype": (1.9, 0.07)}
JOULES = 565 / 69 / 18.7  # per iteration on the AMD: 565 J in 69 s, published
IDLE_W = {"amd": 35, "e3": 12, "e5": 30, "arm": 2}  # assumed
NODES = {"amd": (1, 32, "64Gi"), "e3": (1, 4, "64Gi"), "e5": (2, 32, "128Gi"), "arm": (4, 4, "1Gi")}
#: The study does not say how its 3 Intel nodes split: the other way.
OTHER_SPLIT = {**NODES, "e3": (2, 4, "64Gi"), "e5": (1, 32, "128Gi")}
TRACE = {
    "tasks": 480, "bursts": 4, "every_s": 150, "within_s": 150, "cpu": 2, "memory": "200Mi",
    "features": {"iterations": {"from": 500, "to": 1000}}, "noise": 0.05,
}  # fmt: skip
WEIGHTS = (0, 0.2, 0.4, 0.618, 0.8, 1)


def study(
    arm: str = "restart", servers: Sequence[tuple[float, float]] = SERVERS, idle: float = 1.0,
    nodes: Mapping[str, tuple[int, int, str]] = NODES, **more: object,
) -> Cluster:  # fmt: skip
    """Return the study's cluster under some assumptions."""
    rates = dict(zip(("amd", "e3", "e5"), servers, strict=True)) | {"arm": ARMS[arm]}
    types = [
        {
            "name": name,
            "count": count,
            "capacity": {"cpu": cpus, "memory": memory},
            "time_s": f"iterations / {rates[name][0]}",
            "energy_j": f"iterations * {JOULES * rates[name][1]}",
            "idle_w": idle * IDLE_W[name],
        }
        for name, (count, cpus, memory) in nodes.items()
    ]
    return read_cluster({"node_type": types, "trace": {**TRACE, **more}})


# Against the optimum


def static_regret(policy: str, n_cases: int = 200) -> None:
    """Place up to 40 tasks on up to 8 nodes, together as they arrive or one after the other."""
    found = []
    for seed in range(n_cases):
        random = np.random.default_rng(seed)
        cluster = _random_cluster(random, int(random.integers(2, 9)), "at once")
        H = float(random.choice([0, 0.25, 0.5, 0.75, 1]))
        chooser = Chooser(cluster, open_estimates(cluster)[0], read_policy(f"geometric:H={H}"))
        room = chooser.fleet.capacity[chooser.fleet.row["cpus"]].sum() / 1e6
        share, tasks, used = random.uniform(0.3, 0.9), [], 0.0
        while len(tasks) < 40 and used < share * room:
            cpus = int(random.integers(1, 5))
            used += cpus
            tasks.append(Task(Resources(cpus=cpus), {"work": int(random.integers(1, 100))}))
        pairs = [(task, chooser.fleet.need(task.needs)) for task in tasks]
        problem = chooser.problem(pairs)
        best = solve(problem)
        chosen = chooser.assign(pairs) if policy == "together" else _one_by_one(chooser, pairs)
        if None in chosen or None in best:
            continue  # not all fit in the order of arrival: the sums would not compare
        costs = [sum(problem.costs[i, n] for i, n in enumerate(way)) for way in (chosen, best)]
        found.append(costs[0] / costs[1] - 1)
    _tell_regret(f"static, up to 40 tasks × 8 nodes, {policy}", found)


def _one_by_one(
    chooser: Chooser, pairs: Sequence[tuple[Task, NDArray[np.int64]]]
) -> list[int | None]:
    chosen = []
    for task, need in pairs:
        chosen.append(chooser.choose(task, need))
        if chosen[-1] is not None:
            chooser.fleet.take(chosen[-1], need)
    return chosen


def regret(_: int) -> None:
    """Compare with integer programming."""
    static_regret("together")
    static_regret("one by one")
    timed_regret()
    timed_regret(n_cases=20, every_s=5)


def timed_regret(n_cases: int = 40, every_s: float = 20) -> None:
    """Let up to 12 tasks arrive on up to 4 nodes, against the best schedule over time.

    The best schedule knows all tasks in advance. At H = 1 waiting costs nothing, so that it lets
    tasks wait for the most frugal node as long as it takes; hence a second optimum, in which no
    task starts later than it did under the policy.
    """
    for H in (0.0, 0.5, 1.0):
        found: dict[bool, list[float]] = {True: [], False: []}
        for seed in range(n_cases):
            scene = _timed_scene(seed, every_s)
            played = scene.play(read_policy(f"geometric:H={H}"))
            for may_wait_more, costs in found.items():
                problem = timed_problem(scene, [played], H, may_wait_more=may_wait_more)
                total = None if problem is None else solve_timed(problem)
                if total is not None:
                    best = total / len(scene.arrivals)
                    costs.append(max(0.0, mean_cost(played) / best - 1))
        name = f"over time, up to 12 tasks × 4 nodes, one per {every_s:g} s, H={H:g}"
        _tell_regret(f"{name}, any waits", found[True])
        _tell_regret(f"{name}, same waits", found[False])


def _timed_scene(seed: int, every_s: float) -> Scene:
    random = np.random.default_rng([seed, 7])
    cluster = _random_cluster(random, int(random.integers(2, 5)), "poisson")
    tasks = [
        Task(Resources(cpus=int(random.integers(1, 5))), {"work": int(work)})
        for work in random.integers(5, 100, int(random.integers(4, 13)))
    ]
    times = np.cumsum(random.exponential(every_s, len(tasks)))
    arrivals = [Arrival(float(t), task) for t, task in zip(times, tasks, strict=True)]
    return Scene(cluster, arrivals, *open_estimates(cluster))


def _random_cluster(random: np.random.Generator, n_types: int, arrivals: str) -> Cluster:
    types = []
    for i in range(n_types):
        speed = float(np.exp(random.normal(0, 0.7)))
        energy = float(np.exp(random.normal(0, 0.7)))
        types.append(
            {
                "name": f"t{i}", "count": 1, "capacity": {"cpu": int(random.integers(4, 33))},
                "time_s": f"(work + {random.uniform(0, 20):.3f}) * {speed:.4f}",
                "energy_j": f"(work + {random.uniform(0, 20):.3f}) * {energy:.4f}", "idle_w": 1,
            }
        )  # fmt: skip
    return read_cluster({"node_type": types, "trace": {"arrivals": arrivals}})


def _tell_regret(name: str, found: Sequence[float]) -> None:
    median, p95 = 100 * np.quantile(found, [0.5, 0.95])
    print(f"{name:<76} {len(found):4} cases   median {median:5.2f} %   p95 {p95:6.2f} %")


# The study's trace


def study_trace(n_seeds: int) -> None:
    """Compare weights with kube on the study's trace."""
    policies = "kube," + ",".join(f"geometric:H={H}" for H in WEIGHTS) + ",heats:H=0,heats:H=1"
    _tell("assumed: ARM restarts", _run(study(), policies, n_seeds))
    drawn = study(H={"from": 0.0, "to": 1.0})
    _tell("H drawn for each task", _run(drawn, "geometric", n_seeds, against=study()))
    moving = study(migratable="resume")
    moves = {"every_s": 60, "enabled": True}
    moving = moving.model_copy(update={"migration": moving.migration.model_copy(update=moves)})
    policies = "kube,geometric:H=0,geometric:H=0.618,geometric:H=1"
    _tell("with moves of tasks that resume", _run(moving, policies, n_seeds))
    print("published: H=0 faster, +1.5 % energy; H=1 slower, -7.1 % energy; the rest between")


def other_assumptions(n_seeds: int) -> None:
    """Vary what the study does not say: which server is which, the ARM node, and idle power."""
    policies = "kube,geometric:H=0,geometric:H=1"
    for arm in ARMS:
        for idle in (0.0, 0.5, 1.0, 2.0):
            found = _run(study(arm, idle=idle), policies, n_seeds)
            _tell(f"ARM as in {arm}, idle × {idle:g}", found, brief=True)
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)):
        found = _run(study(servers=[SERVERS[i] for i in order]), policies, n_seeds)
        _tell(f"servers in the order {order}", found, brief=True)
    _tell("2 × E3, 1 × E5", _run(study(nodes=OTHER_SPLIT), policies, n_seeds), brief=True)


def _run(
    cluster: Cluster, policies: str, n_seeds: int, against: Cluster | None = None
) -> Simulation:
    seeds = range(1, n_seeds + 1)
    found = run_policies(cluster, None, read_policies(policies), seeds)
    if against is None:
        return found
    kube = run_policies(against, None, read_policies("kube"), seeds)
    return replace(found, outcomes=(*kube.outcomes, *found.outcomes))


def _tell(name: str, found: Simulation, *, brief: bool = False) -> None:
    """Print changes against kube, with 95 % intervals.

    Energy is told in three ways: until a policy's own last task ends, as the study counts; over one
    time for all policies, as on nodes that stay on; and of tasks alone.
    """
    if not brief:
        print(f"{name}, {len(found.seeds)} seeds, against kube (simulated)")
    kube = found.outcomes[0]
    idle_w = sum(IDLE_W[n] * count for n, (count, _, _) in NODES.items())
    if found.n_nodes == 8 and kube.mean("makespan_s"):
        idle_w = kube.mean("idle_j") / kube.mean("makespan_s")
    for outcome in found.outcomes[1:]:
        common = []
        for a, b in zip(outcome.figures, kube.figures, strict=True):
            window_j = idle_w * max(a.makespan_s, b.makespan_s)
            common.append((a.task_j + window_j) / (b.task_j + window_j) - 1)
        parts = {
            "energy": found.against_first(outcome, "total_j"),
            "over one time": Interval.of(common),
            "of tasks": found.against_first(outcome, "task_j"),
            "completion": found.against_first(outcome, "mean_completion_s"),
        }
        shown = "   ".join(f"{k} {_percents(v)}" for k, v in parts.items())
        label = f"{name}: {outcome.label}" if brief else f"  {outcome.label}"
        print(f"{label:<{44 if brief else 20}} {shown}   moves {outcome.mean('n_moves'):.1f}")


def _percents(interval: Interval) -> str:
    half = 100 * (interval.upper - interval.mean)
    return f"{100 * interval.mean:+6.1f} ± {half:.1f} %"


# Wrong and learned models


def wrong_models(n_seeds: int) -> None:
    """Let the models of each type be off by 30 %, at random up or down."""
    for H, name in ((0.0, "mean_completion_s"), (0.0, "total_j"), (1.0, "total_j")):
        loss, against = [], []
        for seed in range(1, n_seeds + 1):
            cluster = study()
            truth = Estimates(true_models(cluster, {}))
            random = np.random.default_rng([seed, 3])
            wrong = Estimates([_scaled(m, random) for m in type_models(cluster, {})])
            choices = read_policies(f"kube,geometric:H={H}")
            sure = run_policies(cluster, None, choices, [seed], (truth, truth))
            unsure = run_policies(cluster, None, choices, [seed], (wrong, truth))
            figures = [s.outcomes[1].mean(name) for s in (sure, unsure)]
            loss.append(figures[1] / figures[0] - 1)
            against.append(unsure.against_first(unsure.outcomes[1], name).mean)
        print(
            f"models off by ± 30 %, H={H:g}, {name:<18} {_percents(Interval.of(loss))} against "
            f"true models, {_percents(Interval.of(against))} against kube (simulated)"
        )


def _scaled(model: TypeModel, random: np.random.Generator) -> TypeModel:
    def scaled(source: object) -> FormulaSource:
        assert isinstance(source, FormulaSource)
        factor = 1 + 0.3 * random.choice([-1, 1])
        text = f"({source.expression.text}) * {factor}"
        return FormulaSource(Expression(text), source.quantity)

    return replace(model, time=scaled(model.time), energy=scaled(model.energy))


def learned_models(n_seeds: int) -> None:
    """Fit models on 24 noisy runs per type, and compare their saving with that of an oracle."""
    cluster = study()
    truth = Estimates(true_models(cluster, {}))
    predictors = {}
    for t, model in enumerate(truth.models):
        random = np.random.default_rng([t, 5])
        iterations = np.repeat(np.linspace(500, 1000, 8).astype(int), 3)
        predictors[model.name] = []
        for target, source in (("time_s", model.time), ("energy_j", model.energy)):
            rows = [{"iterations": int(n)} for n in iterations]
            true = np.array([f.value for f in source.figures(rows)])
            runs = pd.DataFrame(
                {"iterations": iterations, target: true * np.exp(random.normal(0, 0.08, len(true)))}
            )
            fitted = foretell.fit_model(runs, target=target, n_jobs=1).best
            predictors[model.name].append((fitted, f"{t} {target}"))
    learned = Estimates(type_models(cluster, predictors))
    choices = read_policies("kube,geometric:H=0,geometric:H=1")
    seeds = range(1, n_seeds + 1)
    oracle = run_policies(cluster, None, choices, seeds, (truth, truth))
    found = run_policies(cluster, None, choices, seeds, (learned, truth))
    for i, name in ((1, "mean_completion_s"), (2, "total_j")):
        savings = [-s.against_first(s.outcomes[i], name).mean for s in (oracle, found)]
        share = 100 * savings[1] / savings[0]
        print(
            f"learned models, {choices[i].label:<14} {name:<18} reach {share:.0f} % of the "
            f"oracle's {100 * savings[0]:.1f} % (simulated)"
        )


# Moves


def flapping(n_seeds: int) -> None:
    """Let tasks that resume move as often as they may, and count returns to a former node."""
    moving = study(migratable="resume")
    eager = {"every_s": 10, "enabled": True, "margin": 0.0, "max_per_task": 100, "min_age_s": 0.0,
             "max_per_minute": 1000, "min_remaining_s": 0.0}  # fmt: skip
    moving = moving.model_copy(update={"migration": moving.migration.model_copy(update=eager)})
    cooldown_s = moving.migration.cooldown_s
    for H in (0.0, 0.618, 1.0):
        n_moves, n_returns = 0, 0
        for seed in range(1, n_seeds + 1):
            (outcome,) = run_policies(
                moving, None, read_policies(f"geometric:H={H}"), [seed]
            ).outcomes
            stays = pd.DataFrame(outcome.played.stays).sort_values("start_s")
            for _, own in stays.groupby(["task", "node"]):
                gaps = own["start_s"].to_numpy()[1:] - own["end_s"].to_numpy()[:-1]
                # A stay that a move cut in two at the same moment is one stay.
                n_returns += int(((gaps > 1e-6) & (gaps < cooldown_s)).sum())
            n_moves += outcome.played.n_moves
        print(f"eager moves, H={H:<5g} {n_moves:5} moves in {n_seeds} seeds, {n_returns} returns "
              f"within the cooldown of {cooldown_s:g} s (simulated)")  # fmt: skip


# Against PEAKS


def against_peaks(n_seeds: int) -> None:
    """Compare with the rule of PEAKS on nodes with power curves, which are off when empty or not.

    The curves are made up. Times differ by type, which PEAKS does not know.
    """
    types = [
        {"name": "old", "count": 4, "capacity": {"cpu": 16, "memory": "64Gi"},
         "time_s": "work", "power": {"k0": 60, "k1": 20, "k2": 0.018}},
        {"name": "new", "count": 4, "capacity": {"cpu": 16, "memory": "64Gi"},
         "time_s": "0.6 * work", "power": {"k0": 30, "k1": 25, "k2": 0.016}},
        {"name": "board", "count": 8, "capacity": {"cpu": 4, "memory": "4Gi"},
         "time_s": "3 * work", "power": {"k0": 1.9, "k1": 0.8, "k2": 0.02}},
    ]  # fmt: skip
    trace = {"tasks": 400, "arrivals": "poisson", "rate_per_s": 0.5, "cpu": [1, 2],
             "memory": "100Mi", "features": {"work": {"from": 60, "to": 240}},
             "migratable": "resume"}  # fmt: skip
    policies = "peaks,geometric:H=1:energy=marginal,geometric:H=1:energy=marginal:moves=on"
    policies += ",geometric:H=1:energy=node,geometric:H=1:energy=node:moves=on"
    for is_off in (False, True):
        cluster = read_cluster(
            {"node_type": [{**t, "can_power_off": is_off} for t in types], "trace": trace}
        )
        seeds = range(1, n_seeds + 1)
        found = run_policies(cluster, None, read_policies(policies), seeds)
        print(f"against peaks, empty nodes {'off' if is_off else 'on'} (simulated)")
        for outcome in found.outcomes[1:]:
            energy = _percents(found.against_first(outcome, "total_j"))
            tasks = _percents(found.against_first(outcome, "task_j"))
            moves = outcome.mean("n_moves")
            print(f"  {outcome.label:<40} energy {energy}   of tasks {tasks}   moves {moves:.0f}")


# Speed


def speed() -> None:
    """Time decisions at 1,000 nodes, the study's trace, and 100,000 tasks on 1,000 nodes."""
    for policy in ("geometric:H=0.5", "heats:H=0.5", "kube", "peaks"):
        cluster = _large(50)
        chooser = Chooser(cluster, open_estimates(cluster)[0], read_policy(policy))
        tasks = [Task(Resources(cpus=1), {"work": 10 + i % 100}) for i in range(3000)]
        chooser.estimates.prefetch(tasks)
        began_s = time.perf_counter()
        for task in tasks:
            need = chooser.fleet.need(task.needs)
            chooser.fleet.take(chooser.choose(task, need), need)
        rate = len(tasks) / (time.perf_counter() - began_s)
        print(f"decisions, 1,000 nodes of 20 types, {policy:<16} {rate:8,.0f} tasks/s")
    cluster = study()
    began_s = time.perf_counter()
    run_policies(cluster, None, read_policies("geometric:H=1"), [1])
    print(f"the study's trace, 480 tasks × 8 nodes     {time.perf_counter() - began_s:8.2f} s")
    cluster = _large(50, tasks=100_000, rate_per_s=200)
    began_s = time.perf_counter()
    scene = Scene(cluster, made_up(cluster.trace, 1), *open_estimates(cluster))
    played = scene.play(read_policy("geometric:H=0.5"))
    seconds = time.perf_counter() - began_s
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wait = played.tasks["wait_s"].mean()
    print(f"100,000 tasks × 1,000 nodes                {seconds:8.1f} s   {memory:.0f} MiB   "
          f"mean wait {wait:.1f} s")  # fmt: skip


def _large(n_each: int, **trace: object) -> Cluster:
    random = np.random.default_rng(1)
    types = [
        {
            "name": f"t{i:02}", "count": n_each,
            "capacity": {"cpu": int(random.integers(8, 65)), "memory": "128Gi"},
            "time_s": f"work * {np.exp(random.normal(0, 0.5)):.4f}",
            "energy_j": f"work * {np.exp(random.normal(0, 0.7)):.4f}",
            "idle_w": 20, "busy_w": 100,
        }
        for i in range(20)
    ]  # fmt: skip
    shape = {"arrivals": "poisson", "cpu": [1, 2, 4], "memory": ["256Mi", "1Gi"],
             "features": {"work": {"from": 10, "to": 100}}}  # fmt: skip
    return read_cluster({"node_type": types, "trace": {**shape, **trace}})


def check_shape(n_seeds: int) -> None:
    """Say whether energy falls and times grow from each weight to the next."""
    found = _run(study(), ",".join(f"geometric:H={H}" for H in WEIGHTS), n_seeds)
    for name, sign in (("task_j", -1), ("total_j", -1), ("mean_completion_s", 1)):
        means = [o.mean(name) for o in found.outcomes]
        steps = [sign * (b / a - 1) for a, b in pairwise(means)]
        print(f"monotone in H, {name:<18} {'yes' if min(steps) > -1e-3 else 'no'}   "
              f"steps {', '.join(f'{100 * sign * s:+.1f} %' for s in steps)}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", help="a part: " + ", ".join(PARTS))
    given = parser.parse_args()
    for name, part in PARTS.items():
        if given.only in (None, name):
            print(f"\n{name}")
            part(given.seeds)


PARTS: dict[str, Callable[[int], None]] = {
    "regret": regret,
    "trace": study_trace,
    "shape": check_shape,
    "assumptions": other_assumptions,
    "wrong": wrong_models,
    "learned": learned_models,
    "moves": flapping,
    "peaks": against_peaks,
    "speed": lambda _: speed(),
}

if __name__ == "__main__":
    main()
