"""Serving small networks: batch times, choices by few of them, and a real server beside.

python docs/studies/serving.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from page import BLACK, BLUE, DOCS, EXAMPLES, GREEN, ORANGE, STUDIES, Study, drawing, markdown

from foretell.decide.deployment.batch_times import BatchTimes, Point
from foretell.decide.deployment.points import Points
from foretell.decide.deployment.scenario import read_scenario
from foretell.decide.deployment.settings import Setting
from foretell.deploy.play import Player

COLORS = {"LeNet": GREEN, "convolutions": BLUE, "recurrent": BLACK, "wide": ORANGE}
BARS = {"mean": 0.08, "p99": 0.15}
Found = Mapping[str, Any]


def open_serving() -> Study:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Serving small networks.")
    parser.add_argument("--runs", type=Path, default=EXAMPLES / "serving" / "measured.json")
    parser.add_argument("--page", type=Path, default=STUDIES / "serving.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "pictures")
    parser.add_argument("--quick", action="store_true", help="play few requests only")
    given = parser.parse_args()
    if not given.runs.exists():
        command = f"python -m benchmarks.deploy -o {given.runs}"
        sys.stderr.write(f"There is no {given.runs}; the page stays as it is. Measure: {command}\n")
        raise SystemExit(0)  # `make studies` goes on with the others
    return Study(given.runs, given.page, given.pictures, given.quick)


def main() -> None:
    """Read what was measured, play, write."""
    study = open_serving()
    found = json.loads(study.runs.read_text(encoding="utf-8"))
    times = {name: times_of(points) for name, points in found["points"].items()}
    n_arrivals = 2_000 if study.is_quick else 100_000
    results = (
        f"{facts(found)}\n\n"
        f"## Times of batches\n\n{table_of_times(times)}\n"
        "![Times of batches](../pictures/serving-times.svg)\n\n"
        f"{few_points(times)}\n\n"
        f"## Choices by few points\n\n{table_of_regret(found)}\n{regret_words(found)}\n\n"
    )
    pictures = {"serving-times": draw_times(times)}
    if "server" in found:
        results += (
            f"## A real server beside its prediction\n\n{table_of_loads(found)}\n"
            "![Latency of a real server against its load](../pictures/serving-loads.svg)\n\n"
            f"{load_words(found)}\n\n"
        )
        pictures["serving-loads"] = draw_loads(found)
    if "limits" in found:
        results += (
            f"## Limits, and other rules\n\n{table_of_limits(found)}\n{limit_words(found)}\n\n"
        )
    results += (
        f"## What a wait is good for\n\n{table_of_waits(times, n_arrivals)}\n"
        f"## Beside the thesis\n\n{published(times)}"
    )
    study.write(results, pictures)


def times_of(points: list[dict[str, Any]]) -> dict[int, BatchTimes]:
    """Return the model of all measured batch times, by threads."""
    fields = ("threads", "batch", "median_s", "error", "busy_cores", "n_calls")
    known = [Point(**{f: p[f] for f in fields}, levels=tuple(p["levels"])) for p in points]
    return {
        threads: BatchTimes([p for p in known if p.threads == threads])
        for threads in sorted({p.threads for p in known})
    }


def facts(found: Found) -> str:
    """Say when and on what machine this was measured."""
    about = [one for part in found["about"].values() for one in part.values()]
    machine, versions = about[0]["machine"], about[0]["versions"]
    began, ended = (f(one["at"] for one in about).replace("T", " ") for f in (min, max))
    when = began if began == ended else f"{began} to {ended}"
    minutes = sum(one["seconds"] for one in about) / 60
    return (
        f"*Measured* {when} UTC in {minutes:.0f} minutes on {machine['n_usable']} cores of "
        f"{machine['cpu']}, with PyTorch {versions['torch']} and foretell {versions['foretell']}."
    )


def ms(seconds: float) -> str:
    """Write a time in milliseconds."""
    return f"{1e3 * seconds:.3g}"


def table_of_times(times: Mapping[str, Mapping[int, BatchTimes]]) -> str:
    """Return some batch times, and the line through all of them."""
    rows = []
    for name, by_threads in times.items():
        for threads, own in by_threads.items():
            best = max(own.batches, key=own.per_s)
            rows.append([
                name, str(threads), *(ms(float(own.median_s(b).item())) for b in (1, 8, 32)),
                f"{ms(own.fixed_s)} + {ms(own.each_s)} b", f"{100 * own.curvature:.0f} %",
                f"{best} ({own.per_s(best):.0f}/s)",
            ])  # fmt: skip
    header = ["network", "threads", "batch 1, ms", "batch 8, ms", "batch 32, ms",
              "line, ms (modelled)", "off the line", "best batch"]  # fmt: skip
    return markdown(header, rows)


def few_points(times: Mapping[str, Mapping[int, BatchTimes]]) -> str:
    """Say how far off the model of three points is from all points."""
    errors = []
    for by_threads in times.values():
        for own in by_threads.values():
            plan = Points(own.batches, [1])
            few = [plan.next() for _ in range(3)]
            sizes = {spot[1] for spot in few if spot is not None}
            model = BatchTimes([p for p in own.points if p.batch in sizes])
            rest = [b for b in own.batches if b not in sizes]
            errors += list(np.abs(model.median_s(rest) / own.median_s(rest) - 1))
    return (
        "A line and its correction through three points of each curve (the ends and one in the "
        f"middle) are off by {100 * np.median(errors):.1f} % in the median of the other points, "
        f"and by {100 * np.quantile(errors, 0.9):.0f} % in a tenth of them. That is why `foretell "
        "deploy` measures more points where it was surprised."
    )


def draw_times(times: Mapping[str, Mapping[int, BatchTimes]]) -> plt.Figure:
    """Draw samples per second against the batch size."""
    with drawing():
        figure, panels = plt.subplots(1, len(times), figsize=(10, 3.2))
        for axes, (name, by_threads) in zip(np.atleast_1d(panels), times.items(), strict=True):
            for threads, own in by_threads.items():
                sizes = np.array(own.batches)
                axes.plot(
                    sizes, [own.per_s(b) for b in own.batches], "o-" if threads == 1 else "s--",
                    color=COLORS[name], fillstyle="none", label=f"{threads} thread"
                    + ("" if threads == 1 else "s"),
                )  # fmt: skip
            axes.set(xlabel="batch size", title=name, ylim=(0, None))
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.title.set(fontsize=10)
            axes.legend(frameon=False, fontsize=8)
        np.atleast_1d(panels)[0].set_ylabel("samples per second")
        figure.tight_layout()
    return figure


def table_of_regret(found: Found) -> str:
    """Return the choices, and how much worse than the best they are."""
    rows = []
    for row in found["regret"]:
        chosen, best = row["chosen"], row["best"]
        rows.append([
            row["network"], row["scenario"],
            f"{row['n_measured']} of {row['n_grid']}",
            f"{chosen['batch']}, {chosen['threads']}, {chosen['replicas']}",
            f"{best['batch']}, {best['threads']}, {best['replicas']}",
            f"{100 * row['regret']:.1f} %",
        ])  # fmt: skip
    header = ["network", "scenario", "measured", "chosen: batch, threads, replicas", "best",
              "regret"]  # fmt: skip
    return markdown(header, rows)


def regret_words(found: Found) -> str:
    """Sum up the regret."""
    values = [row["regret"] for row in found["regret"]]
    shares = [r["n_measured"] / r["n_grid"] for r in found["regret"]
              if r["scenario"] != "single-stream"]  # fmt: skip
    kept = sum(v <= 0.03 for v in values)
    return (
        f"The regret is the p99 (*offline*: the time per sample) of the choice over that of the "
        f"best setting on as many cores, both by all measured batch times. It is "
        f"{100 * np.median(values):.1f} % in the median, and at most 3 % in {kept} of "
        f"{len(values)} choices; the worst is {100 * max(values):.1f} %. At most "
        f"{100 * max(shares):.0f} % of the batch times were used (*single-stream* has one per "
        "number of threads). Both sides use the same times, so that what a batch takes a minute "
        "later does not count."
    )


def table_of_loads(found: Found) -> str:
    """Return measured and predicted latencies."""
    rows = []
    for row in found["server"]:
        low, high = row["p99_90_s"]
        rows.append([
            row["network"], f"{row['load']:g}", f"{row['per_s']:.0f}", f"{row['n']:,}",
            f"{ms(row['mean_s'])}", f"{ms(row['predicted_mean_s'])} ({error(row, 'mean')})",
            f"{ms(row['p99_s'])} ({ms(low)}–{ms(high)})",
            f"{ms(row['predicted_p99_s'])} ({error(row, 'p99')})",
            f"{error(row, 'mean', 'own')}, {error(row, 'p99', 'own')}",
            f"{row['cores_of_others']:.2f}",
        ])  # fmt: skip
    header = ["network", "load", "per s", "requests", "mean, ms, measured", "simulated",
              "p99, ms, measured (90 %)", "simulated",
              "both with the batch times of the run", "cores of others"]  # fmt: skip
    return markdown(header, rows)


def error(row: Found, figure: str, kind: str = "predicted") -> str:
    """Write how far a prediction is off."""
    return f"{100 * (row[f'{kind}_{figure}_s'] / row[f'{figure}_s'] - 1):+.1f} %"


def load_words(found: Found) -> str:
    """Sum up the errors of predictions."""
    parts = []
    for figure, bar in BARS.items():
        errors = [abs(r[f"predicted_{figure}_s"] / r[f"{figure}_s"] - 1) for r in found["server"]]
        parts.append(
            f"The {figure} is off by {100 * np.median(errors):.1f} % in the median and "
            f"{100 * max(errors):.1f} % at worst, and within {100 * bar:.0f} % at "
            f"{sum(e <= bar for e in errors)} of {len(errors)} points."
        )
    own = {
        figure: [abs(r[f"own_{figure}_s"] / r[f"{figure}_s"] - 1) for r in found["server"]]
        for figure in BARS
    }
    parts.append(
        "The last column but one is the same simulation with the batch times of the run itself: it "
        f"is off by {100 * np.median(own['mean']):.1f} % (mean) and "
        f"{100 * np.median(own['p99']):.1f} % (p99) in the median. The "
        "difference between the two is what batches took more or less than right before the run."
    )
    names = dict.fromkeys(row["network"] for row in found["server"])
    added = "; ".join(
        f"{name} {ms(_mean_of(found, name, 'overhead_s'))} ms, and "
        f"{ms(_mean_of(found, name, 'pause_s'))} ms more after a pause"
        for name in names
    )
    return (
        f"{' '.join(parts)} What the server itself adds to a batch was measured before each "
        "window, with requests one after the other, and what it takes longer after a pause with "
        f"20 requests per second: {added}."
    )


def _mean_of(found: Found, network: str, figure: str) -> float:
    return float(np.mean([r[figure] for r in found["server"] if r["network"] == network]))


def draw_loads(found: Found) -> plt.Figure:
    """Draw measured latencies as marks with intervals, and simulated ones as lines."""
    names = list(dict.fromkeys(row["network"] for row in found["server"]))
    with drawing():
        figure, panels = plt.subplots(1, len(names), figsize=(8, 3.4))
        for axes, name in zip(np.atleast_1d(panels), names, strict=True):
            rows = [row for row in found["server"] if row["network"] == name]
            loads = [row["load"] for row in rows]
            for figure_name, color, marker in (("p99", ORANGE, "s"), ("mean", BLUE, "o")):
                values = 1e3 * np.array([row[f"{figure_name}_s"] for row in rows])
                own = 1e3 * np.array([row[f"predicted_{figure_name}_s"] for row in rows])
                axes.plot(loads, own, "-", color=color, label=f"{figure_name}, simulated")
                if figure_name == "p99":
                    ends = 1e3 * np.array([row["p99_90_s"] for row in rows]).T
                    axes.vlines(loads, ends[0], ends[1], color=color, linewidth=1)
                axes.plot(loads, values, marker, color=color, fillstyle="none",
                          label=f"{figure_name}, measured")  # fmt: skip
            axes.set(xlabel="load", title=name, ylim=(0, None))
            axes.title.set(fontsize=10)
        np.atleast_1d(panels)[0].set_ylabel("latency, ms")
        np.atleast_1d(panels)[0].legend(frameon=False, fontsize=8)
        figure.tight_layout()
    return figure


def table_of_limits(found: Found) -> str:
    """Return how often each rule kept the limit."""
    rows = []
    for row in found["limits"]:
        setting = row["setting"]
        rule = row["rule"]
        if rule == "advice":
            rule += f": batch {setting['batch']}, wait {ms(setting['wait_s'])} ms"
        rows.append([
            row["network"], f"{row['per_s']:.0f}/s, {ms(row['limit_s'])} ms", rule,
            f"{row['n_kept']} of {row['n_runs']}", ms(row["p99_s"]), ms(row["mean_s"]),
            f"{row['mean_batch']:.1f}", f"{row['cores_of_others']:.2f}",
        ])  # fmt: skip
    header = ["network", "rate, limit of the p99", "rule", "runs that keep it", "p99, ms",
              "mean, ms", "mean batch", "cores of others"]  # fmt: skip
    return markdown(header, rows)


def limit_words(found: Found) -> str:
    """Sum up how often limits were kept."""
    own = [row for row in found["limits"] if row["rule"] == "advice"]
    kept, n = sum(row["n_kept"] for row in own), sum(row["n_runs"] for row in own)
    (n_requests,), (n_each,) = ({row[key] for row in own} for key in ("n_requests", "n_runs"))
    return (
        f"All of it is *measured*. The advice kept its limit in {kept} of {n} runs of "
        f"{n_requests:,} requests each; MLPerf's LoadGen needs at least 662 to tell a p99. It was "
        f"asked for again before every {n_each} runs, with batch times measured anew. The rate is "
        "60 % of what batches of 8 could serve."
    )


def table_of_waits(times: Mapping[str, Mapping[int, BatchTimes]], n_arrivals: int) -> str:
    """Return what waiting for others changes, simulated."""
    name = "wide"
    own = times[name]
    rate = 0.4 * own[1].per_s(8)
    player = Player(own, n_arrivals=n_arrivals)
    rows = []
    for wait_s in (0.0, 0.005, 0.01, 0.02):
        figures = player(
            Setting(16, wait_s, 1), read_scenario(f"poisson:{rate:.6g}/s"), sureness=0.0,
            is_rough=False,
        )  # fmt: skip
        rows.append([
            ms(wait_s), ms(figures.mean_s), ms(figures.p99_s), f"{figures.mean_batch:.1f}",
            f"{100 * figures.busy:.0f} %", ms(figures.core_s),
        ])  # fmt: skip
    header = ["longest wait, ms", "mean, ms", "p99, ms", "mean batch", "busy",
              "core time per sample, ms"]  # fmt: skip
    return (
        f"*Simulated* from the measured times of *{name}*: batches up to 16, one thread, "
        f"{rate:.0f} requests per second.\n\n{markdown(header, rows)}\n"
        "A server that takes all that wait has larger batches by itself when load is high. A wait "
        "makes latencies longer, and saves core time: `--minimize energy` chooses it.\n\n"
    )


def published(times: Mapping[str, Mapping[int, BatchTimes]]) -> str:
    """Put the figures of the thesis beside ours."""
    changes = []
    for by_threads in times.values():
        best = {t: max(own.batches, key=own.per_s) for t, own in by_threads.items()}
        rate = {t: own.per_s(best[t]) for t, own in by_threads.items()}
        core = {t: own.busy_cores(best[t]) / rate[t] for t, own in by_threads.items()}
        changes.append((rate[2] / rate[1] - 1, core[2] / core[1] - 1))
    ours = "; ".join(
        f"{name} {100 * rate:+.0f} %, {100 * core:+.0f} %"
        for name, (rate, core) in zip(times, changes, strict=True)
    )
    gains = "; ".join(
        f"{name} {max(own.per_s(b) for own in by.values() for b in own.batches) / by[1].per_s(1):.1f} ×"  # noqa: E501
        for name, by in times.items()
    )
    rows = [
        ["twice the cores: throughput, energy per sample", "+9 %, +33 % (4 instead of 2 cores)",
         f"{ours} (2 instead of 1 thread; core time stands for energy)"],
        ["the best batch and threads against one sample on one core: throughput", "not given",
         gains],
        ["predictions of inference (EdgeTune emulates devices): error", "at most 20 %",
         "see the table of the real server"],
        ["what inference in the objective saves (image classification)",
         "18 % of time, 53 % of energy", "not measured here"],
    ]  # fmt: skip
    return (
        markdown(["figure", "thesis (*published*)", "here (*measured*)"], rows)
        + "\nIts networks (ResNet, M5, an RNN) ran on devices of the edge with 4 cores; ours are "
        "small ones on two cores of a server, so that the figures are beside one another, and not "
        "comparable. The thesis calls *server* what MLPerf calls *multi-stream*, and the other way "
        "round; the names here are those of MLPerf.\n"
    )


if __name__ == "__main__":
    main()
