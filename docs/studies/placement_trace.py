"""The simulated part of the study of placement: figures of the Heats study, with our policies."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import BLACK, BLUE, GREEN, ORANGE, drawing, markdown

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.cluster import ARMS, JOULES, OTHER_SPLIT, SERVERS, study

from foretell.cluster.models import open_estimates
from foretell.cluster.simulate import Simulation, run_policies
from foretell.decide.placement.choose import Chooser, read_policies, read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.fleet import Fleet
from foretell.decide.placement.moves import Mover, Running
from foretell.decide.placement.tasks import read_task
from foretell.decide.placement.waiting import Waiting
from foretell.simulate.arrivals import Arrival
from foretell.simulate.cluster import Played, Scene

GRAY = "#777777"
# Figure 3.1: a task of 69 s on the AMD node, moved to an ARM node after 30 s. Published.
_STAY_S, _STAY_J, _MOVED_AT_S, _PUBLISHED_J, _PUBLISHED_S = 69.0, 565.0, 30.0, -0.34, 5.4
_MOVE = {"every_s": _MOVED_AT_S, "min_age_s": 0.0, "min_remaining_s": 0.0, "start_s": 0.0}
_PUBLISHED = {"geometric H=0": "+1.5 %, faster", "geometric H=1": "-7.1 %, slower"}
_PERCENTILES = (10, 25, 50, 75, 90)


# Figure 3.1


def _two_nodes(arm: str) -> Mapping[str, Any]:
    rate, energy = ARMS[arm]
    kinds = {"amd": (18.7, 1.0, 32), "arm": (rate, energy, 4)}
    return {
        "migration": _MOVE,
        "node_type": [
            {
                "name": name,
                "count": 1,
                "capacity": {"cpu": cpus},
                "idle_w": 0,
                "time_s": f"iterations / {speed}",
                "energy_j": f"iterations * {JOULES * share}",
            }
            for name, (speed, share, cpus) in kinds.items()
        ],
    }


def _play_move(arm: str, *, moves: bool) -> Played:
    """Let the ARM node be taken until shortly before the move."""
    cluster = read_cluster(_two_nodes(arm))
    n = _STAY_S * 18.7
    blocker = read_task(f"cpu=4,iterations={(_MOVED_AT_S - 0.1) * ARMS[arm][0]}")
    task = read_task(
        f"cpu=2,iterations={n},migratable={'resume' if arm == 'resume' else 'restart'}"
    )
    scene = Scene(cluster, [Arrival(0, blocker), Arrival(0, task)], *open_estimates(cluster))
    return scene.play(read_policy(f"heats:H=1:moves={'on' if moves else 'off'}"))


def _moves_from(arm: str) -> float:
    """Return the least weight of energy at which the default policy makes the move."""
    cluster = read_cluster(_two_nodes(arm))
    kind = "resume" if arm == "resume" else "restart"
    task = read_task(f"cpu=2,iterations={_STAY_S * 18.7},migratable={kind}")
    for H in np.arange(0, 1.005, 0.01):
        chooser = Chooser(cluster, open_estimates(cluster)[0], read_policy(f"geometric:H={H:.2f}"))
        need = chooser.fleet.need(task.needs)
        assert need is not None
        chooser.fleet.take(0, need)
        running = Running(task, need, 0, 0.0)
        if Mover(cluster.migration, chooser).find(running, Waiting(), _MOVED_AT_S) is not None:
            return float(H)
    return float("nan")


def figure_of_a_move() -> tuple[str, plt.Figure]:
    """Return a table and a picture of Figure 3.1."""
    rows = [["published", "stays", f"{_STAY_S:.0f} s", f"{_STAY_J:.0f} J", "", ""]]
    rows.append(
        [
            "published",
            f"moves after {_MOVED_AT_S:.0f} s",
            f"{_PUBLISHED_S:.1f} ×",
            f"{100 * _PUBLISHED_J:+.0f} %",
            "",
            "",
        ]
    )
    ways: dict[str, list[tuple[float, float]]] = {}
    for arm, words in (("restart", "starts again"), ("resume", "resumes")):
        stayed, moved = (_play_move(arm, moves=m).tasks.iloc[1] for m in (False, True))
        rows.append(
            [
                "simulated",
                f"moves, and {words}",
                f"{moved['end_s'] / stayed['end_s']:.1f} ×",
                f"{100 * (moved['energy_j'] / stayed['energy_j'] - 1):+.0f} %",
                f"{1 / (ARMS[arm][0] / 18.7):.1f} × and {ARMS[arm][1]:.2f} ×",
                f"{_moves_from(arm):.2f}",
            ]
        )
        left = stayed["energy_j"] / stayed["end_s"] * _MOVED_AT_S
        ways[f"moves, and {words}"] = [
            (0, 0),
            (_MOVED_AT_S, left),
            (moved["end_s"], moved["energy_j"]),
        ]
        ways["stays"] = [(0, 0), (stayed["end_s"], stayed["energy_j"])]
    header = [
        "",
        "task",
        "time",
        "energy",
        "ARM against AMD: time and energy",
        "our policy moves it from H =",
    ]
    return markdown(header, rows), _draw_move(ways)


def _draw_move(ways: Mapping[str, list[tuple[float, float]]]) -> plt.Figure:
    looks = {
        "stays": (BLACK, "-"),
        "moves, and starts again": (BLUE, "--"),
        "moves, and resumes": (ORANGE, ":"),
    }
    with drawing():
        figure, axes = plt.subplots(figsize=(7, 3.4))
        for name, (color, line) in looks.items():
            times, joules = zip(*ways[name], strict=True)
            axes.plot(times, joules, line, color=color, marker="o", markersize=4, label=name)
        axes.axvline(_MOVED_AT_S, color=GRAY, linewidth=0.8)
        axes.set(
            xlabel="time, s",
            ylabel="energy of the task so far, J",
            ylim=(0, None),
            title="A task on the AMD node, moved to an ARM node after 30 s (simulated)",
        )
        axes.title.set(fontsize=10)
        axes.legend(loc="lower right")
    return figure


# Figure 3.5


@dataclass(frozen=True)
class Usage:
    """The share of CPUs and of memory in use on each node, over time."""

    times: np.ndarray
    cpus: np.ndarray
    memory: np.ndarray


def usage_of(simulation: Simulation, played: Played, step_s: float = 5.0) -> Usage:
    """Count what tasks ask for on each node, at evenly spaced moments."""
    fleet = Fleet.of(simulation.cluster)
    trace = simulation.cluster.trace
    assert trace is not None
    start_s = played.tasks["arrival_s"].min()
    times = np.arange(0.0, played.makespan_s, step_s)
    n_tasks = np.zeros((len(fleet), len(times)))
    for stay in played.stays:
        n_tasks[stay.node] += (times >= stay.start_s - start_s) & (times < stay.end_s - start_s)
    capacity = {name: fleet.capacity[fleet.row[name]][:, None] for name in ("cpus", "memory_bytes")}
    return Usage(
        times, n_tasks * 2e6 / capacity["cpus"], n_tasks * 200 * 2**20 / capacity["memory_bytes"]
    )


def figure_of_usage() -> tuple[str, plt.Figure]:
    """Return a table and a picture of Figure 3.5."""
    found = run_policies(study(), None, read_policies("geometric:H=0,geometric:H=1,kube"), [1])
    usages = {o.label: usage_of(found, o.played) for o in found.outcomes}
    common = min(len(u.times) for u in usages.values())
    rows = [
        [
            label,
            *(f"{100 * share[:, :common].mean():.0f} %" for share in (u.cpus, u.memory)),
            f"{100 * np.percentile(u.memory[:, :common], 90):.0f} %",
        ]
        for label, u in usages.items()
    ]
    header = [
        "simulated, seed 1",
        "CPUs in use, mean of nodes",
        "memory in use, mean of nodes",
        "memory, 90th percentile",
    ]
    return markdown(header, rows), _draw_usage(usages)


def _draw_usage(usages: Mapping[str, Usage]) -> plt.Figure:
    with drawing():
        figure, panels = plt.subplots(len(usages), 2, figsize=(9, 5.6), sharex=True, sharey=True)
        for (label, usage), (left, right) in zip(usages.items(), panels, strict=True):
            for axes, share, color in ((left, usage.cpus, BLUE), (right, usage.memory, ORANGE)):
                p10, p25, p50, p75, p90 = np.percentile(100 * share, _PERCENTILES, axis=0)
                axes.fill_between(
                    usage.times, p10, p90, color=color, alpha=0.2, linewidth=0, label="10 to 90 %"
                )
                axes.fill_between(
                    usage.times, p25, p75, color=color, alpha=0.35, linewidth=0, label="25 to 75 %"
                )
                axes.plot(usage.times, p50, color=color, label="median")
            left.set_ylabel(f"{label}\nin use, %")
        panels[0][0].set_title("CPUs", fontsize=10)
        panels[0][1].set_title("memory", fontsize=10)
        for axes in panels[-1]:
            axes.set_xlabel("time, s")
        for axes in panels[0]:
            axes.legend(loc="upper right", fontsize=8)
        figure.suptitle("Percentiles over the 8 nodes (simulated)", fontsize=10)
        figure.tight_layout()
    return figure


# Figure 3.6


def figure_of_weights(n_seeds: int, weights: tuple[float, ...]) -> tuple[str, plt.Figure]:
    """Return a table and a picture of Figure 3.6."""
    seeds = range(1, n_seeds + 1)
    names = ["kube", *(f"{p}:H={H:g}" for p in ("geometric", "heats") for H in weights)]
    found = run_policies(study(), None, read_policies(",".join(names)), seeds)
    drawn = run_policies(study(H={"from": 0.0, "to": 1.0}), None, read_policies("geometric"), seeds)
    kube = found.outcomes[0]
    rows = []
    for outcome in (*found.outcomes, *drawn.outcomes):
        label = "geometric, H drawn per task" if outcome in drawn.outcomes else outcome.label
        cells = [
            label,
            f"{outcome.mean('total_j') / 1000:.0f} kJ",
            f"{outcome.mean('makespan_s'):.0f} s",
        ]
        for name in ("total_j", "task_j", "mean_completion_s"):
            changes = [
                getattr(a, name) / getattr(b, name) - 1
                for a, b in zip(outcome.figures, kube.figures, strict=True)
            ]
            cells.append("" if outcome is kube else _with_interval(changes))
        rows.append([*cells, _PUBLISHED.get(outcome.label, "")])
    header = [
        "simulated",
        "energy",
        "makespan",
        "energy against kube",
        "of tasks alone",
        "mean completion",
        "published energy and time",
    ]
    return markdown(header, rows), _draw_weights(found, weights)


def _with_interval(changes: list[float]) -> str:
    from foretell.cluster.simulate import Interval

    found = Interval.of(changes)
    return f"{100 * found.mean:+.1f} ± {100 * (found.upper - found.mean):.1f} %"


def _draw_weights(found: Simulation, weights: tuple[float, ...]) -> plt.Figure:
    with drawing():
        figure, panels = plt.subplots(1, 2, figsize=(9, 3.6))
        parts = (("total_j", "energy with idle nodes"), ("mean_completion_s", "mean completion"))
        for axes, (name, words) in zip(panels, parts, strict=True):
            # Where both are the same, the larger squares show around the dots.
            for policy, look, size, color in (
                ("heats", "s:", 10, ORANGE),
                ("geometric", "o-", 5, BLUE),
            ):
                chosen = [o for o in found.outcomes if o.choice.name == policy]
                intervals = [found.against_first(o, name) for o in chosen]
                means = [100 * i.mean for i in intervals]
                halves = [100 * (i.upper - i.mean) for i in intervals]
                axes.errorbar(
                    weights,
                    means,
                    halves,
                    fmt=look,
                    markersize=size,
                    color=color,
                    capsize=3,
                    label=f"{policy} (simulated)",
                    fillstyle="none",
                )
            axes.axhline(0, color=GRAY, linewidth=0.8)
            axes.set(
                xlabel="H: 0 speed alone, 1 energy alone", ylabel="against kube, %", title=words
            )
            axes.title.set(fontsize=10)
        panels[0].plot([0, 1], [1.5, -7.1], "x", color=BLACK, markersize=9, label="published")
        panels[0].legend(loc="best", fontsize=8)
        figure.tight_layout()
    return figure


# What the study does not say


#: Takes the place of the order of servers: the Intel nodes split the other way.
SPLIT = (0, 1, 1, 2)


def other_assumptions(n_seeds: int, *, is_quick: bool) -> tuple[str, plt.Figure]:
    """Return a summary and a picture of the trace under other assumptions."""
    choices = read_policies("kube,geometric:H=0,geometric:H=1")
    clusters = {
        (arm, idle, (0, 1, 2)): study(arm, idle=idle)
        for arm in ARMS
        for idle in (0.0, 0.5, 1.0, 2.0)
    }
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)):
        clusters["restart", 1.0, order] = study(servers=[SERVERS[i] for i in order])
    clusters["restart", 1.0, SPLIT] = study(nodes=OTHER_SPLIT)
    if is_quick:
        clusters = dict(list(clusters.items())[:3])
    rows = []
    for (arm, idle, order), cluster in clusters.items():
        found = run_policies(cluster, None, choices, range(1, n_seeds + 1))
        fast, frugal = found.outcomes[1:]
        rows.append(
            (
                arm,
                idle,
                order,
                found.against_first(frugal, "total_j").mean,
                found.against_first(fast, "mean_completion_s").mean,
                found.against_first(fast, "total_j").mean,
            )
        )
    table = pd.DataFrame(rows, columns=["arm", "idle", "order", "saved", "faster", "dearer"])
    meets = (table["saved"] <= -0.071) & (table["faster"] <= -0.10) & (table["dearer"] <= 0.015)
    text = (
        f"Of {len(table)} combinations, {int(meets.sum())} reach all three published results: H = "
        "1 saves 7.1 % of energy, H = 0 shortens completion by 10 %, and H = 0 costs at most 1.5 % "
        "more energy. Over "
        f"all of them, H = 1 changes energy by {100 * table['saved'].min():+.1f} to "
        f"{100 * table['saved'].max():+.1f} %, and H = 0 changes completion by "
        f"{100 * table['faster'].min():+.1f} to {100 * table['faster'].max():+.1f} %.\n"
    )
    return text, _draw_assumptions(table)


def _draw_assumptions(table: pd.DataFrame) -> plt.Figure:
    looks = {"restart": ("o", BLUE), "resume": ("s", ORANGE), "prototype": ("^", GREEN)}
    with drawing():
        figure, axes = plt.subplots(figsize=(7, 4))
        usual, split = table["order"] == (0, 1, 2), table["order"] == SPLIT
        for arm, (marker, color) in looks.items():
            own = table[(table["arm"] == arm) & usual]
            axes.plot(
                100 * own["faster"],
                100 * own["saved"],
                marker,
                color=color,
                fillstyle="none",
                label=f"ARM as in {arm}, idle × 0 to 2",
            )
        others = table[~usual & ~split]
        axes.plot(
            100 * others["faster"],
            100 * others["saved"],
            "D",
            color=GRAY,
            fillstyle="none",
            label="servers in another order",
        )
        axes.plot(
            100 * table[split]["faster"],
            100 * table[split]["saved"],
            "x",
            color=GRAY,
            label="two small Intel nodes, one large",
        )
        chosen = table[(table["arm"] == "restart") & (table["idle"] == 1.0) & usual]
        axes.plot(
            100 * chosen["faster"],
            100 * chosen["saved"],
            "*",
            color=BLACK,
            markersize=12,
            label="used above",
        )
        axes.axhline(-7.1, color=GRAY, linewidth=0.8)
        axes.axvline(-10, color=GRAY, linewidth=0.8)
        axes.set(
            xlabel="H = 0: mean completion against kube, %",
            ylabel="H = 1: energy against kube, %",
            title="The same trace under other assumptions (simulated)",
        )
        axes.title.set(fontsize=10)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure
