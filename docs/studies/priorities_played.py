"""The simulated part of the study of priorities: the figures of chapter 4, played again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from page import BLACK, BLUE, GREEN, ORANGE, drawing, markdown

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.queue_study import (
    ENERGY_PUBLISHED,
    FULL_SPEEDUP,
    LIMITED,
    POWER,
    STAGES,
    TABLE_4_2,
    THREE,
    TWO,
    UNLIMITED,
    Outcome,
    P,
    Policy,
    SetUp,
    compare,
    reference,
    sprinting,
    three_classes,
    triangle_count,
    two_class_studies,
)

from benchmarks import queue_others

#: Against P, as published: mean and p95 of low, then of high; empty where the text has no figure.
PUBLISHED = {
    ("reference", "NP"): ("−20 %", "", "+80 %", ""),
    ("reference", "DA(0,20)"): ("−65 %", "−65 %", "+10 %", ""),
    ("equal sizes", "DA(0,20)"): ("up to −80 %", "up to −80 %", "better than reference", ""),
    ("low:high 1:9", "DA(0,20)"): ("as reference", "−20 %", "worse", "worse"),
    ("50 % load", "NP"): ("0 %", "0 %", "0 %", "0 %"),
    ("50 % load", "DA(0,20)"): ("as reference", "as reference", "", ""),
}
EXPERIMENT_JOBS = 300
#: Low jobs have no end there with P, so that nothing can be compared with them.
UNSTABLE = "low:high 1:9"


def change(outcome: Outcome, name: str, figure: str) -> str:
    """Write a change against P with its 95 % interval."""
    found = getattr(outcome, f"{figure}_change")[name]
    if outcome.policy == "P":
        return f"{getattr(outcome, figure)[name].mean:.0f} s"
    return f"{100 * found.mean:+.0f} % ± {100 * found.half:.0f}".replace("-", "−")


def figure_of_two_classes(n_jobs: int, n_seeds: int) -> tuple[str, plt.Figure]:
    """Play the two-class studies; return a table and a picture."""
    rows, outcomes = [], {}
    for set_up in two_class_studies():
        found = compare(set_up, TWO, n_jobs=n_jobs, n_seeds=n_seeds)
        outcomes[set_up.name] = found
        for o in found:
            known = PUBLISHED.get((set_up.name, o.policy), ("",) * 4)
            cells = [
                change(o, name, figure) for name in ("low", "high") for figure in ("mean", "p95")
            ]
            if set_up.name == UNSTABLE:
                cells[:2] = [f"{c}, grows" if o.policy == "P" else "–" for c in cells[:2]]
            both = [f"{ours} ({theirs})" if theirs else ours
                    for ours, theirs in zip(cells, known, strict=True)]  # fmt: skip
            waste = f"{100 * o.waste.mean:.1f} %" if o.policy == "P" else "0"
            rows.append([set_up.name, o.policy, *both, waste, f"{o.load.mean:.2f}"])
    header = [
        "study", "policy", "low, mean", "low, p95", "high, mean", "high, p95", "waste",
        "busy share",
    ]  # fmt: skip
    return markdown(header, rows), draw_changes(outcomes)


def draw_changes(outcomes: dict[str, list[Outcome]]) -> plt.Figure:
    """Draw changes against P: solid bars for means, hatched ones for p95."""
    with drawing():
        figure, axes = plt.subplots(1, len(outcomes), figsize=(9.5, 3.1), sharey=True)
        for ax, (study, found) in zip(axes, outcomes.items(), strict=True):
            others = found[1:]
            at = np.arange(len(others))
            for shift, name, color in ((-0.2, "low", BLUE), (0.2, "high", ORANGE)):
                for offset, kind, hatch in ((-0.09, "mean", None), (0.09, "p95", "////")):
                    values = [getattr(o, f"{kind}_change")[name].mean for o in others]
                    ax.bar(
                        at + shift + offset, np.clip(100 * np.array(values), -100, 220), 0.18,
                        color=color if hatch is None else "none", edgecolor=color, hatch=hatch,
                        label=f"{name}, {kind}",
                    )  # fmt: skip
            ax.set_axisbelow(True)
            ax.axhline(0, color=BLACK, linewidth=0.8)
            ax.set_xticks(at, [o.policy for o in others], rotation=30, ha="right", fontsize=8)
            ax.set_title(study, fontsize=10)
        axes[0].set_ylabel("against P, %")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.9))
    return figure


def other_ways(n_jobs: int, n_seeds: int) -> str:
    """Play other ways to share the engine on the jobs of the reference; return a table."""
    found = queue_others.others(reference(), n_jobs=n_jobs, n_seeds=n_seeds)
    header = ["way", "low, mean", "low, p95", "high, mean", "high, p95", "waste"]
    return markdown(header, queue_others.rows(found))


def figure_of_three_classes(n_jobs: int, n_seeds: int) -> str:
    """Play the three-class study; return a table."""
    found = compare(three_classes(), THREE, n_jobs=n_jobs, n_seeds=n_seeds)
    rows = [
        [
            o.policy,
            *(
                f"{change(o, name, 'mean')}, {change(o, name, 'p95')}"
                for name in ("low", "middle", "high")
            ),
            f"{100 * o.waste.mean:.1f} % (16 %)" if o.policy == "P" else "0",
        ]
        for o in found
    ]
    header = ["policy", "low: mean, p95", "middle: mean, p95", "high: mean, p95", "waste"]
    return markdown(header, rows)


def figure_of_stages(n_jobs: int, n_seeds: int) -> str:
    """Play the study of jobs of several stages; return a table."""
    rows = []
    for o in compare(triangle_count(), STAGES, n_jobs=n_jobs, n_seeds=n_seeds):
        cells = [change(o, n, f) for n in ("low", "high") for f in ("mean", "p95")]
        if o.policy in {"DA(0,5)", "DA(0,10)"}:
            cells[0] += " (over −50 %)"
        rows.append([o.policy, *cells, f"{o.load.mean:.2f}"])
    header = ["policy", "low, mean", "low, p95", "high, mean", "high, p95", "busy share"]
    return markdown(header, rows)


def table_4_2(n_jobs: int, n_seeds: int) -> tuple[str, plt.Figure]:
    """Play Table 4.2; return it and a picture of the queueing times."""
    found = compare(sprinting(), LIMITED, n_jobs=n_jobs, n_seeds=n_seeds)
    rows, pairs = [], []
    for o in found:
        ours = [x[name] for name in ("high", "low") for x in (o.wait, o.engine)]
        pairs.append((o.policy, [x.mean for x in ours], TABLE_4_2[o.policy]))
        rows.append(
            [
                o.policy,
                *(f"{x.mean:.1f} ± {x.half:.1f} ({y})"
                  for x, y in zip(ours, TABLE_4_2[o.policy], strict=True)),
            ]
        )  # fmt: skip
    header = ["policy", "high: queue, s", "high: execution, s", "low: queue, s",
              "low: execution, s"]  # fmt: skip
    return markdown(header, rows), draw_table(pairs)


def draw_table(pairs: Sequence[tuple[str, list[float], Sequence[float]]]) -> plt.Figure:
    """Draw queueing times, simulated beside published."""
    with drawing():
        figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.0))
        for ax, place, name in ((axes[0], 0, "high"), (axes[1], 2, "low")):
            at = np.arange(len(pairs))
            ax.bar(at - 0.18, [p[2][place] for p in pairs], 0.34, color="none", edgecolor=BLACK,
                   hatch="////", label="published")  # fmt: skip
            ax.bar(at + 0.18, [p[1][place] for p in pairs], 0.34, color=GREEN, label="simulated")
            ax.set_xticks(at, [p[0] for p in pairs])
            ax.set_axisbelow(True)
            ax.set(title=f"{name} jobs", ylabel="mean queueing time, s")
            ax.title.set(fontsize=10)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=2, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.92))
    return figure


def figure_of_sprints(n_jobs: int, n_seeds: int, n_experiments: int) -> str:
    """Play the full design against eviction; return latency and energy as a table."""
    full = replace(sprinting(), power=replace(POWER, speedup=FULL_SPEEDUP))
    rows = []
    for k, (when, set_up, policies) in enumerate(
        (("after 65 s", sprinting(), LIMITED), ("at once", full, UNLIMITED))
    ):
        long = compare(set_up, (P, *policies), n_jobs=n_jobs, n_seeds=n_seeds)
        short = _experiments(set_up, (P, *policies), n_experiments)
        for o, e in zip(long[1:], short[1:], strict=True):
            rows.append(
                [
                    when, o.policy, change(o, "low", "mean"), change(e, "low", "mean"),
                    change(o, "high", "mean"), change(o, "high", "p95"),
                    *(f"{100 * share:+.1f} %".replace("-", "−")
                      for share in (o.busy_change.mean, o.total_change.mean,
                                    ENERGY_PUBLISHED[o.policy][k])),
                ]
            )  # fmt: skip
    header = [
        "sprint", "policy", "low, mean", f"low, mean, {EXPERIMENT_JOBS} jobs", "high, mean",
        "high, p95", "energy, busy", "energy, with idle time", "energy, published",
    ]  # fmt: skip
    return markdown(header, rows)


def _experiments(set_up: SetUp, policies: Sequence[Policy], n: int) -> list[Outcome]:
    return compare(set_up, policies, n_jobs=EXPERIMENT_JOBS, n_seeds=n)


def short_experiments(n_experiments: int) -> str:
    """Play runs as short as an experiment where P is not stable; return a table."""
    set_up = two_class_studies()[2]
    rows = []
    for o in _experiments(set_up, TWO, n_experiments):
        cells = [change(o, n, f) for n in ("low", "high") for f in ("mean", "p95")]
        rows.append([o.policy, *cells, f"{o.load.mean:.2f}"])
    header = ["policy", "low, mean", "low, p95", "high, mean", "high, p95", "busy share"]
    return markdown(header, rows)


def other_assumptions(n_jobs: int, n_seeds: int) -> str:
    """Play the reference with tasks that vary; return a table."""
    rows = []
    for text, scv in (("tasks of a job all equal", 0.0), ("tasks vary by 22 %", 0.05),
                      ("tasks vary by 55 %", 0.3)):  # fmt: skip
        found = compare(reference(scv=scv), TWO, n_jobs=n_jobs, n_seeds=n_seeds)
        for o in found[1:]:
            rows.append(
                [text, o.policy,
                 *(change(o, n, f) for n in ("low", "high") for f in ("mean", "p95"))]
            )  # fmt: skip
    return markdown(["assumption", "policy", "low, mean", "low, p95", "high, mean", "high, p95"],
                    rows)  # fmt: skip
