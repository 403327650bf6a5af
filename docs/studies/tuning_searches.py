"""The searches of the study on tuning: compared in pairs, beside PipeTune, and in a queue."""

from __future__ import annotations

from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from benchmarks.tune_table import LEAST_PAIRS, Compared, compare, pairs_of, quiet
from page import BLACK, BLUE, GREEN, ORANGE, drawing, markdown

from foretell.wording import rough_percent

Run = dict[str, Any]
#: What each way is, in words.
WORDS = {
    "v1": "v1: all cores per trial, default threads",
    "static 1": "one core per trial, two at a time",
    "static 2x1": "all cores per trial, one thread",
    "v2": "v2: threads as one more hyperparameter",
    "hook cold": "the three lines alone, empty store",
    "hook warm": "the three lines alone, warm store",
    "ours cold": "**ours**, empty store",
    "ours warm": "**ours**, warm store",
    "paper cold": "PipeTune's algorithm, empty store",
    "paper warm": "PipeTune's algorithm, warm store",
}
#: The machine in a series of searches, by how many of its cores another program keeps busy.
ALONE, BESIDE = 0, 1
SCHEDULERS = {"asha": "ASHA", "hyperband": "HyperBand"}
COLORS = {"LeNet": BLUE, "perceptron": ORANGE, "bag of words": GREEN}
MARKERS = {"LeNet": "o", "perceptron": "s", "bag of words": "^"}
#: PipeTune on LeNet and MNIST, 4 nodes: accuracy, seconds of training, seconds of tuning.
PUBLISHED = {
    "arbitrary settings": (0.8447, 445, None),
    "v1": (0.9154, 272, 4575),
    "v2": (0.8176, 187, 4817),
    "PipeTune": (0.9270, 188, 3415),
}
#: How many jobs of a queue are of a kind that the store has not seen: PipeTune's experiment.
UNSEEN = 0.2
LOAD = 0.8


def table_of_ways(results: list[Run]) -> str:
    """Return the times of searches by way, of v1 and of the best static setting."""
    parts = []
    networks = list(dict.fromkeys(row["workload"] for row in results))
    for network, (scheduler, name) in product(networks, SCHEDULERS.items()):
        own = [pair for key, pair in pairs_of(results).items() if key[:2] == (network, scheduler)]
        if own:
            rows = [_cells(row) for row in compare(own)]
            header = ["way", "searches", "time", "of v1", "95 % interval", "of v1, by epoch",
                      "of the best static", "accuracy", "less v1, points (90 %)"]  # fmt: skip
            parts.append(f"{network}, {name}:\n\n{markdown(header, rows)}")
    return "\n".join(parts)


def beside(results: list[Run], n_busy: int) -> list[Run]:
    """Return the searches beside which another program kept so many cores busy."""
    return [row for row in results if row.get("n_busy", ALONE) == n_busy]


def _cells(row: Compared) -> list[str]:
    less = f"{row.points:+.1f} ({row.points_low:+.1f} – {row.points_high:+.1f})"
    is_base = row.way == "v1"
    if row.n < LEAST_PAIRS:
        less = f"{row.points:+.1f}"
    return [
        WORDS[row.way], str(row.n), f"{row.wall_s:.0f} s", f"{row.ratio:.2f}",
        "" if is_base or row.n < LEAST_PAIRS else f"{row.low:.2f} – {row.high:.2f}",
        f"{row.per_epoch:.2f}", f"{row.over_static:.2f}",
        f"{100 * row.accuracy:.1f} %", "" if is_base else less,
    ]  # fmt: skip


def table_of_played(rows: list[Run]) -> str:
    """Return the ratios of searches that were played from measured epochs."""
    pairs = pairs_of(rows)
    by = {
        name: {
            row.way: row
            for row in compare(pair for key, pair in pairs.items() if key[1] == scheduler)
        }
        for scheduler, name in SCHEDULERS.items()
    }
    cells = [
        [WORDS[way], *(text for own in by.values() for text in _ratio_cells(own[way]))]
        for way in next(iter(by.values()))
    ]
    header = ["way"]
    for name in by:
        header += [f"{name}, of v1", "of the best static"]
    return markdown(header, cells)


def _ratio_cells(row: Compared) -> list[str]:
    return [f"{row.ratio:.2f} ({row.low:.2f} – {row.high:.2f})", f"{row.over_static:.2f}"]


def table_beside_paper(results: list[Run]) -> str:
    """Return PipeTune's table for LeNet beside ours."""
    own = [row for row in results if row["workload"] == "LeNet"]
    rows = [
        [name, f"{100 * accuracy:.2f} %", f"{trained} s", "–" if tuned is None else f"{tuned:,} s",
         "–" if tuned is None else f"{tuned / PUBLISHED['v1'][2]:.2f}", "published"]
        for name, (accuracy, trained, tuned) in PUBLISHED.items()
    ]  # fmt: skip
    v1 = {(r["scheduler"], r["seed"]): r["wall_s"] for r in own if r["way"] == "v1"}
    for way in ("v1", "v2", "paper cold", "paper warm", "ours cold", "ours warm"):
        of = [r for r in own if r["way"] == way and (r["scheduler"], r["seed"]) in v1]
        if of:
            logs = [np.log(r["wall_s"] / v1[r["scheduler"], r["seed"]]) for r in of]
            rows.append([
                WORDS[way], f"{100 * np.mean([r['accuracy'] for r in of]):.2f} %",
                f"{np.mean([r['best_trained_s'] for r in of]):.1f} s",
                f"{np.mean([r['wall_s'] for r in of]):.0f} s", f"{np.exp(np.mean(logs)):.2f}",
                "measured",
            ])  # fmt: skip
    header = ["LeNet on MNIST", "accuracy", "training of the best trial", "tuning", "of v1",
              "source"]  # fmt: skip
    return markdown(header, rows)


def played_tenants(rows: list[Run], n_jobs: int) -> str:
    """Return response times where played searches arrive at one machine."""
    complete = list(pairs_of(rows).values())
    ways = {"v1": ("v1", "v1"), "v2": ("v2", "v2"), "ours": ("ours cold", "ours warm")}
    random = np.random.default_rng(0)
    drawn = random.integers(len(complete), size=n_jobs)
    is_unseen = random.random(n_jobs) < UNSEEN
    mean_s = np.mean([p["v1"]["wall_s"] for p in complete])
    gaps = random.exponential(mean_s / LOAD, n_jobs)
    base, cells = None, []
    for name, (cold, warm) in ways.items():
        service = np.array([
            complete[i][cold if new else warm]["wall_s"]
            for i, new in zip(drawn, is_unseen, strict=True)
        ])  # fmt: skip
        response = float(np.mean(responses(gaps, service)))
        base = base or response
        cells.append([name, f"{service.mean():.0f} s", f"{response:.0f} s",
                     f"{100 * (response / base - 1):+.0f} %"])  # fmt: skip
    table = markdown(["way", "mean search", "mean response", "against v1"], cells)
    return (
        f"*Simulated*, with the played searches: {n_jobs:,} of them arrive at random (exponential "
        "gaps), one runs at a time, and under v1 the machine is busy for "
        f"{rough_percent(LOAD)} of the time. {rough_percent(UNSEEN)} of the searches are of a kind "
        f"that the store has not seen.\n\n{table}\n"
        "*Published* by PipeTune for 4 nodes: responses are 30 % shorter than with v1.\n"
    )


def responses(gaps: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Return how long each job of a queue takes from its arrival to its end, first come first.

    >>> responses(np.array([1.0, 1.0, 9.0]), np.array([3.0, 3.0, 3.0]))
    array([3., 5., 3.])
    """
    free, now, found = 0.0, 0.0, []
    for gap, needed in zip(gaps, service, strict=True):
        now += gap
        free = max(free, now) + needed
        found.append(free - now)
    return np.array(found)


def draw_ways(results: list[Run], played: list[Run]) -> plt.Figure:
    """Draw each measured search as a mark, hollow if it was disturbed, and the mean of played ones.

    A mark is the time of a search over that of v1 with the same trials.
    """
    with drawing():
        figure, panels = plt.subplots(1, len(SCHEDULERS), figsize=(9, 4), sharex=True, sharey=True)
        ways = [way for way in WORDS if way != "v1"]
        for axes, (scheduler, name) in zip(panels, SCHEDULERS.items(), strict=True):
            for (network, kind, *_), pair in pairs_of(results).items():
                for way in set(pair) & set(ways) if kind == scheduler else ():
                    fill = "full" if len(quiet([pair[way], pair["v1"]])) == 2 else "none"
                    axes.plot(pair[way]["wall_s"] / pair["v1"]["wall_s"], ways.index(way),
                              MARKERS[network], color=COLORS[network], fillstyle=fill)  # fmt: skip
            own = [pair for key, pair in pairs_of(played).items() if key[1] == scheduler]
            for row in compare(own)[1:]:
                axes.plot(row.ratio, ways.index(row.way), "x", color=BLACK, markersize=7)
            axes.axvline(1.0, color="#999999", linewidth=1, linestyle="--")
            axes.set_yticks(range(len(ways)), ways)
            axes.set(title=name, xlabel="time of the search, of v1", xscale="log")
            axes.set_xticks([0.5, 0.7, 1, 1.4, 2, 3, 5], ["0.5", "0.7", "1", "1.4", "2", "3", "5"])
            axes.minorticks_off()
            axes.title.set(fontsize=10)
        panels[0].invert_yaxis()
        for network in dict.fromkeys(row["workload"] for row in results):
            panels[-1].plot([], [], MARKERS[network], color=COLORS[network],
                            label=f"{network}, measured")  # fmt: skip
        panels[-1].plot([], [], "o", color="#777777", fillstyle="none", label="disturbed by others")
        panels[-1].plot([], [], "x", color=BLACK, markersize=7, label="LeNet, simulated")
        figure.legend(loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure
