"""Where should a task run? The figures of the Heats study with our policies, and real k-means.

    python docs/studies/placement.py [--runs examples/placement/runs.csv] [--quick]

Beside the runs lie those of tasks that no model has seen (`tasks.csv`), and those of tasks that
arrived one after the other at a real API server (`live.csv`), if they were made.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import (
    BLACK,
    BLUE,
    EXAMPLES,
    GREEN,
    ORANGE,
    Study,
    drawing,
    mape,
    markdown,
    open_study,
    percent,
)
from placement_trace import (
    figure_of_a_move,
    figure_of_usage,
    figure_of_weights,
    other_assumptions,
)

import foretell
from foretell.decide.placement.cluster import read_cluster

N_SEEDS = 20
WEIGHTS = (0, 0.2, 0.4, 0.6, 0.618, 0.8, 1)
COLUMNS = ["points", "iterations"]
#: The types of nodes: the share of a core, and how they are drawn.
TYPES = {"whole": (1.0, "o", BLUE), "half": (0.5, "s", ORANGE), "quarter": (0.25, "^", GREEN)}
POLICIES = {
    "kube-scheduler": "kube",
    "foretell H=0": "geometric:H=0",
    "foretell H=1": "geometric:H=1",
}


@dataclass(frozen=True)
class Checked:
    """Tasks of one type of node: how long they took, and what was predicted."""

    measured_s: np.ndarray
    predicted_s: np.ndarray
    lower_s: np.ndarray
    upper_s: np.ndarray

    @property
    def coverage(self) -> float:
        """The share of tasks whose time is in the interval that was predicted."""
        return float(np.mean((self.lower_s <= self.measured_s) & (self.measured_s <= self.upper_s)))


def fit_types(runs: pd.DataFrame, folder: Path) -> dict[str, foretell.SavedModel]:
    """Fit a model of the time on each type of node; write it, too."""
    found = {}
    for name, (cpus, _, _) in TYPES.items():
        own = runs.loc[runs["cpus"] == cpus, [*COLUMNS, "wall_time_s"]].reset_index(drop=True)
        fitted = foretell.fit_model(own, target="wall_time_s", output=folder / name, n_jobs=1)
        found[name] = fitted.best
    return found


def check(model: foretell.SavedModel, tasks: pd.DataFrame, measured: str) -> Checked:
    """Compare what was measured with what is predicted."""
    forecast = model.forecast(tasks[COLUMNS].reset_index(drop=True))
    return Checked(tasks[measured].to_numpy(), forecast.value, forecast.lower, forecast.upper)


def errors(checked: dict[str, Checked], repeats: dict[str, float]) -> str:
    """Write the errors of each type as a table."""
    rows = [
        [
            f"{name} ({TYPES[name][0]:g} of a core)",
            str(len(c.measured_s)),
            percent(mape(c.measured_s, c.predicted_s)),
            percent(float(np.median(np.abs(c.predicted_s / c.measured_s - 1)))),
            f"{100 * c.coverage:.0f} %",
            percent(repeats[name]),
        ]
        for name, c in checked.items()
    ]
    header = [
        "node",
        "tasks",
        "mean error",
        "median error",
        "inside the 90 % interval",
        "repeats differ by",
    ]
    return markdown(header, rows)


def repeat_noise(runs: pd.DataFrame) -> dict[str, float]:
    """Return by how much repeats of a configuration differ from their mean, on each type."""
    means = runs.groupby(["cpus", *COLUMNS])["wall_time_s"].transform("mean")
    off = (runs["wall_time_s"] / means - 1).abs()
    return {name: float(off[runs["cpus"] == cpus].mean()) for name, (cpus, _, _) in TYPES.items()}


def draw_checked(checked: dict[str, Checked]) -> plt.Figure:
    """Draw measured against predicted times."""
    with drawing():
        figure, axes = plt.subplots(figsize=(6, 4.4))
        for name, c in checked.items():
            cpus, marker, color = TYPES[name]
            below, above = c.predicted_s - c.lower_s, c.upper_s - c.predicted_s
            axes.errorbar(
                c.measured_s,
                c.predicted_s,
                [below, above],
                fmt=marker,
                color=color,
                fillstyle="none",
                elinewidth=0.6,
                label=f"{name}: {cpus:g} of a core",
            )
        ends = [
            0.8 * min(c.measured_s.min() for c in checked.values()),
            1.25 * max(c.measured_s.max() for c in checked.values()),
        ]
        axes.plot(ends, ends, color=BLACK, linewidth=0.8)
        axes.set(
            xscale="log",
            yscale="log",
            xlim=ends,
            ylim=ends,
            xlabel="measured, s",
            ylabel="predicted, s, with 90 % intervals",
            title="K-means on emulated nodes",
        )
        axes.title.set(fontsize=10)
        axes.legend(loc="upper left")
    return figure


def live_part(live: pd.DataFrame, models: dict[str, foretell.SavedModel], folder: Path) -> str:
    """Compare what happened at a real API server with the simulation of the same tasks."""
    (folder / "cluster.toml").write_text((EXAMPLES / "placement" / "cluster.toml").read_text())
    kinds = read_cluster(folder / "cluster.toml").node_type
    rows = []
    for scheduler, policy in POLICIES.items():
        own = live[live["scheduler"] == scheduler]
        if own.empty:
            continue
        tasks = own[["arrival_s", "cpu", *COLUMNS]]
        simulated = foretell.simulate_cluster(
            folder / "cluster.toml", tasks, policy=policy
        ).outcomes[0]
        off = [
            np.abs(models[name].predict(part[COLUMNS].reset_index(drop=True)) / part["time_s"] - 1)
            for name, part in own.reset_index(drop=True).groupby("type")
        ]
        counts = own["type"].value_counts()
        watts = own["type"].map({table.name: table.busy_w - table.idle_w for table in kinds})
        rows.append(
            [
                scheduler,
                ", ".join(f"{counts.get(name, 0)} {name}" for name in TYPES),
                f"{(own['end_s'] - own['arrival_s']).mean():.1f} s",
                f"{simulated.mean('mean_completion_s'):.1f} s",
                f"{(own['time_s'] * watts).sum() / 1000:.2f} kJ",
                percent(float(np.concatenate(off).mean())),
                f"{own['load'].iloc[0]:.0f}",
            ]
        )
    header = [
        "scheduler",
        "where tasks ran",
        "mean completion, measured",
        "simulated",
        "energy of tasks, modelled",
        "mean error of predicted times",
        "load of the machine",
    ]
    return markdown(header, rows)


def measured_part(study: Study, folder: Path) -> tuple[str, dict[str, plt.Figure]]:
    """Write what was measured on emulated nodes."""
    runs, unseen, live = study.table(), study.beside("tasks.csv"), study.beside("live.csv")
    models = fit_types(runs, folder)
    text = f"## Real k-means on emulated nodes\n\n{study.facts()}\n\n"
    pictures = {}
    if unseen.runs.exists():
        tasks = unseen.table()
        checked = {
            name: check(models[name], tasks[tasks["cpus"] == cpus], "wall_time_s")
            for name, (cpus, _, _) in TYPES.items()
        }
        load = pd.concat([runs, tasks])["other_load"]
        text += (
            f"Tasks that no model has seen: {unseen.facts()} Others kept {load.mean():.1f} of 2 "
            f"cores busy on average.\n\n{errors(checked, repeat_noise(runs))}\n"
            "![Measured and predicted times](../pictures/placement-measured.svg)\n\n"
        )
        pictures["placement-measured"] = draw_checked(checked)
    if live.runs.exists():
        table = live_part(pd.read_csv(live.runs), models, folder.parent)
        text += f"### Through a real API server\n\n{table}\n"
    return text, pictures


def main() -> None:
    """Simulate, read, analyze, write."""
    study = open_study("placement", "Place tasks by predicted time and energy.")
    n_seeds = 2 if study.is_quick else N_SEEDS
    move, move_picture = figure_of_a_move()
    usage, usage_picture = figure_of_usage()
    weights, weights_picture = figure_of_weights(n_seeds, (0, 1) if study.is_quick else WEIGHTS)
    others, others_picture = other_assumptions(n_seeds, is_quick=study.is_quick)
    with tempfile.TemporaryDirectory() as folder:
        measured, pictures = measured_part(study, Path(folder, "models"))
    results = (
        f"## A task that moves (Figure 3.1)\n\n{move}\n"
        "![Energy of a task that moves](../pictures/placement-move.svg)\n\n"
        f"## CPUs and memory in use (Figure 3.5)\n\n{usage}\n"
        "![Percentiles of CPUs and memory in use](../pictures/placement-usage.svg)\n\n"
        f"## Energy and time against H (Figure 3.6)\n\n{n_seeds} seeds, 95 % intervals.\n\n"
        f"{weights}\n"
        "![Energy and completion against H](../pictures/placement-weights.svg)\n\n"
        f"### Other assumptions\n\n{others}\n"
        "![The same trace under other assumptions](../pictures/placement-assumptions.svg)\n\n"
        f"{measured}"
    )
    pictures |= {
        "placement-move": move_picture,
        "placement-usage": usage_picture,
        "placement-weights": weights_picture,
        "placement-assumptions": others_picture,
    }
    study.write(results, pictures)


if __name__ == "__main__":
    main()
