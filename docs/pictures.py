"""Draw the pictures of the documentation from example data and made-up laws; write them as SVG.

    python docs/pictures.py [FOLDER]

The folder is ``docs/pictures`` unless named. The models are fitted anew.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import foretell

DOCS = Path(__file__).resolve().parent
DATA = DOCS.parent / "examples" / "xz"
TREES = {"data": {"target": "time_s"}, "techniques": {"XGBoost": {}}}
STYLE = {
    "figure.facecolor": "white",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "font.size": 10,
    "legend.framealpha": 1.0,
    "svg.fonttype": "none",  # text stays text: small, and found by a search
    "svg.hashsalt": "foretell",  # the same picture gives the same file
}
#: What the pictures share: told apart by color, and by line or marker as well.
BLUE, ORANGE, BLACK, GRAY = "#1f5fa8", "#c8560a", "#111111", "#bbbbbb"
QUESTIONS = {
    "inside": ("known values", "o", BLUE),
    "between": ("between levels", "s", ORANGE),
    "1.5x": ("1.5× beyond", "v", "#2a7f3f"),
    "2x": ("2× beyond", "^", "#8a2a6b"),
    "4x": ("4× beyond", "D", BLACK),
}
CURVE = {"content": "log", "level": 6, "threads": 2}
LARGEST_MIB = 256


def draw_curve(model: foretell.SavedModel, trees: foretell.SavedModel) -> plt.Figure:
    """Draw times against size, within the data and beyond, with runs measured later."""
    runs, later = (_matching(pd.read_csv(DATA / f)) for f in ("runs.csv", "new_measured.csv"))
    size = np.geomspace(runs["size_mib"].min(), LARGEST_MIB, 120)
    rows = pd.DataFrame({"size_mib": size, **CURVE})
    forecast = model.forecast(rows)
    figure, axes = plt.subplots(figsize=(7, 4.2))
    axes.axvspan(runs["size_mib"].max(), LARGEST_MIB, color="#f0f0f0", label="outside the data")
    axes.fill_between(
        size, forecast.lower, forecast.upper, color=BLUE, alpha=0.2, label="90 % interval"
    )
    axes.plot(size, forecast.value, color=BLUE, label="automatic mode")
    axes.plot(size, trees.predict(rows), color=ORANGE, linestyle="--", label="boosted trees")
    axes.plot(runs["size_mib"], runs["time_s"], ".", color=BLACK, label="measured")
    axes.plot(
        later["size_mib"], later["time_s"], "X", color=BLACK, markersize=8, label="measured later"
    )
    _log_axis(axes.xaxis, [1, 2, 4, 8, 16, 32, 64, 128, 256])
    _log_axis(axes.yaxis, [0.3, 1, 3, 10, 30, 100])
    axes.set(xlabel="size of the file, MiB", ylabel="time, s", xlim=(size[0] * 0.9, LARGEST_MIB))
    axes.set_title("xz on log files, level 6, 2 threads", loc="left", fontsize=10)
    axes.legend(loc="upper left")
    return figure


def draw_errors(results: dict[str, Any]) -> plt.Figure:
    """Draw the error of each model on each question."""
    board = [entry for entry in results["leaderboard"] if entry["status"] == "ok"]
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for question, (label, marker, color) in QUESTIONS.items():
        errors = [entry["errors"][question] for entry in board]
        if any(error is not None for error in errors):
            values = [np.nan if error is None else 100 * error for error in errors]
            axes.plot(
                values, range(len(board)), marker, color=color, label=label, fillstyle="none",
                markeredgewidth=1.8, markersize=8,
            )  # fmt: skip
    names = [
        entry["technique"] + ("" if entry["votes"] or not i else " (no vote)")
        for i, entry in enumerate(board)
    ]
    axes.set_yticks(range(len(board)), names)
    axes.invert_yaxis()
    _log_axis(axes.xaxis, [1, 3, 10, 30, 100, 300, 1000])
    axes.set(xlabel="mean relative error in rehearsals, %")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=5, frameon=False)
    return figure


def draw_intervals(model: foretell.SavedModel) -> plt.Figure:
    """Draw predictions with intervals beside what was measured later."""
    later = pd.read_csv(DATA / "new_measured.csv").sort_values("time_s", ignore_index=True)
    forecast = model.forecast(later)
    rows = np.arange(len(later))
    figure, axes = plt.subplots(figsize=(7, 4.2))
    axes.hlines(rows, forecast.lower, forecast.upper, color=BLUE, linewidth=7, alpha=0.3,
                label="90 % interval")  # fmt: skip
    is_inside = forecast.trust == "inside"
    for chosen, fill, label in (
        (is_inside, "full", "predicted, inside"),
        (~is_inside, "none", "predicted, outside"),
    ):
        axes.plot(forecast.value[chosen], rows[chosen], "o", color=BLUE, fillstyle=fill,
                  markersize=8, markeredgewidth=1.8, label=label)  # fmt: skip
    axes.plot(later["time_s"], rows, "X", color=BLACK, markersize=7, label="measured")
    names = [
        f"{r.content} {r.size_mib:g} MiB, level {r.level}, {r.threads} thread{'s'[: r.threads - 1]}"
        for r in later.itertuples()
    ]
    axes.set_yticks(rows, names)
    _log_axis(axes.xaxis, [1, 2, 5, 10, 20])
    axes.set(xlabel="time, s")
    axes.legend(loc="lower right")
    return figure


def draw_hard_cases() -> plt.Figure:
    """Draw four made-up jobs that are easy to get wrong: a sum, a cliff, a plateau, options."""
    figure, ((sum_, cliff), (plateau, options)) = plt.subplots(2, 2, figsize=(10, 7.6))
    _draw_case(
        sum_, "A sum of terms: work divided among nodes, and an overhead for each node",
        {"nodes": [1, 2, 3, 4, 6, 8, 10, 12, 14, 16], "gb": [25, 50, 100, 200]},
        lambda v: 22 * v["gb"] / v["nodes"] + 3 * np.log2(v["nodes"] + 1) + 0.4 * v["nodes"] + 5,
        "nodes", 64, {"gb": 50},
    )  # fmt: skip
    _draw_case(
        cliff, "A cliff: 180 GB that must fit into the memory of all nodes",
        {"nodes": [4, 6, 8, 10, 12, 16, 20, 24], "memory_gb": [8, 16, 32]},
        lambda v: (4 + 900 / v["nodes"]) * np.where(v["nodes"] * v["memory_gb"] < 180, 3.0, 1.0),
        "nodes", 48, {"memory_gb": 16},
    )  # fmt: skip
    _draw_case(
        plateau, "A plateau: from 12 threads on, the disk decides",
        {"threads": [1, 2, 4, 6, 8, 12, 16, 20, 24], "gb": [1, 2, 4, 8]},
        lambda v: v["gb"] * np.maximum(24 / v["threads"], 2.0) + 0.5,
        "threads", 96, {"gb": 4},
    )  # fmt: skip
    _draw_options(options)
    figure.tight_layout()
    return figure


def _draw_case(
    axes: plt.Axes,
    title: str,
    design: dict[str, list[float]],
    law: Callable[[pd.DataFrame], Any],
    column: str,
    furthest: float,
    at: dict[str, float],
) -> None:
    """Draw runs of a law along a column, what automatic mode makes of them, and the truth."""
    runs = pd.MultiIndex.from_product(design.values(), names=design).to_frame(index=False)
    noise = np.random.default_rng(0).lognormal(0, 0.03, len(runs))
    measured = runs.assign(time_s=law(runs) * noise)
    fit, trees = foretell.fit_model(measured, target="time_s"), foretell.fit_model(TREES, measured)
    largest = max(design[column])
    values = np.unique(np.geomspace(min(design[column]), furthest, 60).round())
    rows = pd.DataFrame({column: values, **at})
    forecast = fit.forecast(rows)
    shown = (runs[list(at)] == pd.Series(at)).all(axis=1)
    axes.axvspan(largest, furthest, color="#f0f0f0")
    axes.fill_between(values, forecast.lower, forecast.upper, color=BLUE, alpha=0.2)
    axes.plot(values, law(rows), color=BLACK, linestyle=":", label="the law")
    axes.plot(values, trees.predict(rows), color=ORANGE, linestyle="--", label="boosted trees")
    axes.plot(values, forecast.value, color=BLUE, label="automatic mode, 90 % interval")
    axes.plot(runs[column][shown], measured["time_s"][shown], ".", color=BLACK, label="runs")
    axes.set(xscale="log", yscale="log", xlabel=column, ylabel="time, s")
    axes.set_xlim(values[0] * 0.9, furthest)
    axes.set_xticks([v for v in (1, 2, 4, 8, 16, 32, 64) if values[0] <= v <= furthest])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_title(title, loc="left", fontsize=9)
    axes.legend(fontsize=8)


def _draw_options(axes: plt.Axes) -> None:
    """Draw predictions of a program with twelve on-off options that depend on each other."""
    random = np.random.default_rng(1)
    every = pd.DataFrame(random.integers(0, 2, (400, 12)), columns=[f"o{i}" for i in range(12)])
    every = every.drop_duplicates(ignore_index=True)
    o = every.to_numpy().T
    true_s = 2 + 30 * o[0] * (1 - o[1]) + 9 * o[0] * o[2] + 5 * o[3] * (1 - o[0]) + 0.2 * o[4]
    time_s = true_s * random.lognormal(0, 0.005, len(every))
    runs, rest = every[:90].assign(time_s=time_s[:90]), every[90:]
    fit, trees = foretell.fit_model(runs, target="time_s"), foretell.fit_model(TREES, runs)
    axes.plot([1, 50], [1, 50], color=GRAY)
    axes.plot(true_s[90:], trees.predict(rest), "+", color=ORANGE, label="boosted trees")
    axes.plot(true_s[90:], fit.predict(rest), "o", color=BLUE, fillstyle="none", markersize=4,
              label="automatic mode")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="time, s", ylabel="predicted, s")
    axes.set_title("Options that depend on each other: predictions from 90 runs",
                   loc="left", fontsize=9)  # fmt: skip
    axes.legend(fontsize=8)


def _matching(table: pd.DataFrame) -> pd.DataFrame:
    is_on_curve = np.all([table[name] == value for name, value in CURVE.items()], axis=0)
    return table[is_on_curve].sort_values("size_mib")


def _log_axis(axis: Any, ticks: list[float]) -> None:
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_minor_locator(mpl.ticker.NullLocator())


def write_picture(figure: plt.Figure, path: Path) -> None:
    """Write a picture as SVG: the same one gives the same file."""
    with mpl.rc_context(STYLE):  # names inside the file, and text, are decided when it is saved
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    lines = [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_cluster_pictures(folder: Path) -> None:
    """Write two pictures of the report of a simulated cluster."""
    from foretell.cluster.simulate import simulate_cluster, simulate_weights
    from foretell.report.placement import write_simulation

    cluster = DOCS.parent / "examples" / "cluster" / "cluster.toml"
    given = {"policy": "kube,geometric:H=0,geometric:H=0.4,geometric:H=1", "n_seeds": 10}
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "saving.md"
        sweep = simulate_weights(cluster, **given)
        write_simulation(simulate_cluster(cluster, **given), sweep, page)
        for name in ("weights", "front"):
            drawn = page.with_name("saving-pictures") / f"{name}.svg"
            (folder / f"cluster-{name}.svg").write_bytes(drawn.read_bytes())


def write_queue_pictures(folder: Path) -> None:
    """Write two pictures of the report of a queue, that of the how-to."""
    from foretell.report.queueing import write_queue_report

    page = (DOCS / "how-to" / "queue.md").read_text(encoding="utf-8")
    file = page.partition("<!-- file: priorities.toml -->\n```toml\n")[2].partition("```")[0]
    with tempfile.TemporaryDirectory() as place:
        classes, report = Path(place) / "priorities.toml", Path(place) / "report.md"
        classes.write_text(file, encoding="utf-8")
        write_queue_report(foretell.choose_drops(classes), report)
        for name in ("load", "shares"):
            drawn = report.with_name("report-pictures") / f"queue-{name}.svg"
            (folder / f"queue-{name}.svg").write_bytes(drawn.read_bytes())


def write_impact_picture(path: Path) -> None:
    """Write the heat map of the report of an impact, that of the how-to."""
    from foretell.report.impact import write_impact_report

    found = foretell.analyze_impact(DATA / "runs.csv", "time_s", by="content")
    with tempfile.TemporaryDirectory() as place:
        write_impact_report(found, Path(place) / "impact.md")
        path.write_bytes((Path(place) / "impact-pictures" / "impact-1.svg").read_bytes())


def write_report_curve(path: Path) -> None:
    """Take a picture from a report: time against size, with the runs measured later."""
    with tempfile.TemporaryDirectory() as place:
        models, report = Path(place) / "models", Path(place) / "report.md"
        foretell.fit_model(DATA / "runs.csv", target="time_s", output=models)
        later = DATA / "new_measured.csv"
        foretell.write_report(models, report, data=later, at={**CURVE, "size_mib": 8})
        path.write_bytes((Path(place) / "report-pictures" / "curve-1.svg").read_bytes())


def main() -> None:
    """Fit, draw and write."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures"
    folder.mkdir(exist_ok=True)
    automatic = foretell.fit_model(DATA / "runs.csv", target="time_s", n_jobs=2)
    trees = foretell.fit_model(TREES, DATA / "runs.csv", n_jobs=2)
    with mpl.rc_context(STYLE):
        pictures = {
            "beyond-the-data": draw_curve(automatic.best, trees.best),
            "error-by-question": draw_errors(automatic.results),
            "intervals": draw_intervals(automatic.best),
            "hard-cases": draw_hard_cases(),
        }
        for name, figure in pictures.items():
            write_picture(figure, folder / f"{name}.svg")
    write_report_curve(folder / "report-curve.svg")
    write_cluster_pictures(folder)
    write_queue_pictures(folder)
    write_impact_picture(folder / "impact-heat-map.svg")


if __name__ == "__main__":
    main()
