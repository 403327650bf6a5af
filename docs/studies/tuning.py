"""Hyperparameter searches that end sooner: chapters 6 and 7 of the thesis, measured on two cores.

python docs/studies/tuning.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from page import DOCS, EXAMPLES, STUDIES, Study, markdown

sys.path.insert(0, str(DOCS.parent))
from benchmarks.tune_table import compare, pairs_of
from tuning_eta import DATA, MOMENTS, judged, picture_of_eta, table_of_eta, table_of_sizes
from tuning_searches import (
    draw_ways,
    others_text,
    played_tenants,
    table_beside_paper,
    table_of_networks,
    table_of_ways,
)

from foretell.wording import rough_percent

#: The bars of the comparison with Ray Tune: the largest ratio of wall times.
BARS = {"ours cold": 0.90, "ours warm": 0.75}
STATIC_BAR, BUDGET_BAR = 1.05, 0.8
ETA_BARS = {0.0: 0.15, 0.1: 0.08}


def open_tuning() -> tuple[Study, argparse.Namespace]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Hyperparameter searches that end sooner.")
    folder = EXAMPLES / "tune"
    parser.add_argument("--runs", type=Path, default=folder / "searches.jsonl")
    parser.add_argument("--budgets", type=Path, default=folder / "budgets.json")
    parser.add_argument("--recorded", type=Path, default=DATA)
    parser.add_argument("--page", type=Path, default=STUDIES / "tuning.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "pictures")
    parser.add_argument("--quick", action="store_true", help="play few searches only")
    given = parser.parse_args()
    for path, module in ((given.runs, "tune --results"), (given.budgets, "tune_budgets --output")):
        if not path.exists():
            raise SystemExit(f"there is no {path}; measure first: python -m benchmarks.{module}")
    return Study(given.runs, given.page, given.pictures, given.quick), given


def main() -> None:
    """Read what was measured, simulate, write."""
    study, given = open_tuning()
    lines = study.runs.read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in lines]
    about = json.loads(study.runs.with_suffix(".json").read_text(encoding="utf-8"))
    budgets = json.loads(given.budgets.read_text(encoding="utf-8"))
    eta = judged(given.recorded, most=2 if study.is_quick else None)
    n_jobs = 500 if study.is_quick else 20_000
    text = (
        f"{facts(results, about)}\n\n"
        f"## What holds\n\n{table_of_bars(results, about, budgets, eta)}\n"
        f"## Searches that end sooner\n\n{table_of_ways(results)}\n"
        "![Time of searches against those of Ray Tune](../pictures/tuning-ways.svg)\n\n"
        f"By network, both schedulers together:\n\n{table_of_networks(results)}\n"
        f"## Beside PipeTune\n\n{table_beside_paper(results)}\n"
        f"## Many searches on one machine\n\n{played_tenants(results, n_jobs)}\n"
        f"## How long a search takes\n\n{table_of_eta(eta)}\n"
        "![Predicted time of searches against the true one](../pictures/tuning-eta.svg)\n\n"
        f"{table_of_sizes(is_quick=study.is_quick)}\n"
        f"## Budgets of epochs and of data\n\n{table_of_budgets(budgets)}"
    )
    study.write(text, {"tuning-ways": draw_ways(results), "tuning-eta": picture_of_eta(eta)})


def facts(results: list[dict[str, Any]], about: Mapping[str, Any]) -> str:
    """Say what was measured, when and on what machine."""
    machine, versions = about["machine"], about["versions"]
    seeds = sorted({row["seed"] for row in results})
    return (
        f"{len(results)} searches of {results[0]['n_trials']} trials, seeds {seeds[0]} to "
        f"{seeds[-1]}, *measured* until {about['ended_at'].replace('T', ' ')} UTC in "
        f"{about['measured_s'] / 60:.0f} minutes on {machine['n_usable']} cores of "
        f"{machine['cpu']}, with Ray {versions['ray']}, PyTorch {versions['torch']} and foretell "
        f"{versions['foretell']}. {others_text(results)}"
    )


#: What was asked for, the bar, what was found, and whether it holds.
Bar = tuple[str, str, str, bool]


def table_of_bars(
    results: list[dict[str, Any]], about: Mapping[str, Any], budgets: list[Any], eta: pd.DataFrame
) -> str:
    """Return what was asked for, what was found, and whether it holds."""
    most = max(about["overhead_ms"].values())
    ratio, low, high = budget_ratio(budgets, "multi")
    bars = [
        *bars_of_searches(results),
        ("the hook, per epoch", "≤ 5 ms", f"{most:.1f} ms", most <= 5),
        *bars_of_eta(eta),
        ("time to the target, epochs and data together, of epochs alone", f"≤ {BUDGET_BAR:.2f}",
         f"{ratio:.2f} ({low:.2f} – {high:.2f})", ratio <= BUDGET_BAR),
    ]  # fmt: skip
    rows = [[*bar[:3], "yes" if bar[3] else "**no**"] for bar in bars]
    return markdown(["what", "bar", "found", "holds"], rows)


def bars_of_searches(results: list[dict[str, Any]]) -> Iterator[Bar]:
    """Compare times and accuracies of both schedulers together with the bars."""
    by_way = {row.way: row for row in compare(pairs_of(results).values())}
    for way, bar in BARS.items():
        if way not in by_way:
            continue
        own = by_way[way]
        ratio = f"{own.ratio:.2f} ({own.low:.2f} – {own.high:.2f})"
        points = f"{own.points:+.2f} ({own.points_low:+.2f} – {own.points_high:+.2f})"
        yield f"time of a search, {way}, of v1", f"≤ {bar:.2f}", ratio, own.ratio <= bar
        yield (f"{way}, of the best static setting in hindsight", f"≤ {STATIC_BAR:.2f}",
               f"{own.over_static:.2f}", own.over_static <= STATIC_BAR)  # fmt: skip
        yield f"accuracy, {way} less v1", "within 0.5 points", points, own.is_equal


def bars_of_eta(rows: pd.DataFrame) -> Iterator[Bar]:
    """Compare predictions of times with the bars."""
    for share, bar in ETA_BARS.items():
        own = rows[(rows["after"] == share) & rows["model"]]
        error, held = own["error"].median(), own["covered"].mean()
        mean, told = own["mean_error"].median(), rough_percent(error)
        when = MOMENTS[share]
        yield (f"error of the predicted time, {when}", f"≤ {rough_percent(bar)}", told,
               error <= bar)  # fmt: skip
        yield (f"90 % intervals that hold, {when}", "80 to 97 %", rough_percent(held),
               0.8 <= held <= 0.97)  # fmt: skip
        yield (f"error less than that of the mean trial, {when}", f"< {rough_percent(mean)}", told,
               error < mean)  # fmt: skip


def budget_ratio(runs: list[dict[str, Any]], kind: str) -> tuple[float, float, float]:
    """Return how long searches with a budget take, of those with the budget of epochs."""
    from benchmarks.tune_budgets import interval

    key = ("network", "target", "seed")
    base = {tuple(r[k] for k in key): r for r in runs if r["budget"] == "epochs"}
    logs = np.array([
        np.log(r["search_s"] / base[tuple(r[k] for k in key)]["search_s"])
        for r in runs if r["budget"] == kind
    ])  # fmt: skip
    return float(np.exp(logs.mean())), *interval(logs)


def table_of_budgets(runs: list[dict[str, Any]]) -> str:
    """Return how long it takes to reach an accuracy with each budget."""
    rows = []
    cases = list(dict.fromkeys((r["network"], r["target"]) for r in runs))
    for network, target in cases:
        own = [r for r in runs if (r["network"], r["target"]) == (network, target)]
        for kind in ("multi", "data"):
            of = [r for r in own if r["budget"] == kind]
            if not of:
                continue
            ratio, low, high = budget_ratio(own, kind)
            base = [r for r in own if r["budget"] == "epochs"]
            rows.append([
                network, rough_percent(target), kind,
                f"{np.median([r['search_s'] for r in of]):.2f} s",
                f"{np.median([r['search_s'] for r in base]):.2f} s",
                f"{ratio:.2f} ({low:.2f} – {high:.2f})",
                f"{sum(r['is_reached'] for r in of)} of {len(of)}",
            ])  # fmt: skip
    header = ["network", "target", "budget", "time", "with epochs alone", "of epochs alone",
              "reached"]  # fmt: skip
    return (
        "*Measured*: the time until the first trial reaches its target, in the median of "
        f"{len({r['seed'] for r in runs})} seeds, on one thread.\n\n{markdown(header, rows)}\n"
        "*Published* by EdgeTune for ResNet, M5 and an RNN: with the budget of data alone, no "
        "trial is above 40 % after 100 trials, where the target is 80 %.\n"
    )


if __name__ == "__main__":
    main()
