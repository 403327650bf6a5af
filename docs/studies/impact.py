"""Which settings of Spark and of its learning methods matter: chapter 5 of the thesis, measured.

python docs/studies/impact.py [--quick]
"""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import Study, drawing, markdown, open_study

import foretell
from foretell import Impact
from foretell.impact.text import (
    ordered_settings,
    range_text,
    setting_header,
    setting_rows,
    spread_line,
    variance_lines,
    workload_header,
    workload_rows,
)
from foretell.report.pictures.drawing import LIGHT
from foretell.report.pictures.impact import draw_heat_map as heat_map
from foretell.wording import rough_percent

SYSTEM = ("cores", "partitions", "shuffle_compression")
HYPER = ("k", "max_depth", "max_iter")
#: What the thesis pays per hour for eight cores: published.
PRICE_OF_A_CORE = 0.46 / 8
#: What Spark does unless told otherwise, on one core, with the larger of both models.
BASELINE = {"cores": 1, "partitions": 8, "shuffle_compression": "true"}


def facts(study: Study, runs: pd.DataFrame) -> str:
    """Say what was measured, when and on what machine."""
    about = json.loads(study.runs.with_name("about.json").read_text(encoding="utf-8"))
    began, ended = (about[name][:16].replace("T", " ") for name in ("started_at", "ended_at"))
    return (
        f"{len(runs)} runs, measured from {began} to {ended} UTC "
        f"on {about['n_cores']} cores of {about['cpu']}; pyspark {about['pyspark']}; "
        f"{about['n_rows']:,} made-up points of {about['n_features']} features, 70 % of them for "
        "training. They took "
        f"{runs['time_s'].sum():.0f} s."
    )


def analyzed(runs: pd.DataFrame) -> Impact:
    """Return the impact of all settings, by method."""
    return foretell.analyze_impact(
        runs, "time_s", quality="quality", by="method", system=SYSTEM, hyper=HYPER
    )


def tunings(runs: pd.DataFrame) -> str:
    """Return what tuning reaches in each method, from Spark's own settings on one core."""
    rows = []
    for method, part in runs.groupby("method"):
        own = part.dropna(axis="columns", how="all").drop(columns="method")
        hyper = [name for name in HYPER if name in own]
        found = foretell.analyze_impact(
            own, "time_s", quality="quality", system=SYSTEM, hyper=hyper,
            baseline={**BASELINE, hyper[0]: own[hyper[0]].max()},
            price_per_hour=PRICE_OF_A_CORE, machines="cores",
        )  # fmt: skip
        start = found.tunings[0]
        for tuning in found.tunings:
            varied = ", ".join(f"{n}={_plain(tuning.settings[n])}" for n in tuning.varied)
            rows.append(
                (
                    str(method), tuning.kind, f"{tuning.value:.2f} s",
                    f"{tuning.lower:.2f}–{tuning.upper:.2f}",
                    f"{100 * (tuning.value / start.value - 1):+.0f} %",
                    f"{100 * (tuning.cost / start.cost - 1):+.0f} %",
                    f"{tuning.quality:.3f}", varied or "–",
                )
            )  # fmt: skip
    header = ("method", "tuning", "time", "95 % interval", "time", "cost", "quality", "varied")
    return markdown(header, rows)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw_heat_map(found: Impact) -> plt.Figure:
    """Draw the range of each setting in each method, as reports do."""
    names, by = ordered_settings(found), found.of().by_workload
    cells = [[impacts.get(name) for impacts in by.values()] for name in names]
    ranges = np.array([[np.nan if own is None else own.median for own in row] for row in cells])
    levels = [["" if own is None else own.level for own in row] for row in cells]
    return heat_map(names, list(by), ranges, levels, LIGHT)


def beside_the_thesis(found: Impact) -> str:
    """Put what the thesis publishes beside what was measured here."""
    by = found.of().by_workload

    def ranges(setting: str) -> str:
        parts = [
            f"{w} {range_text(own)}, {own.level}"
            for w, impacts in by.items()
            if (own := impacts.get(setting)) is not None
        ]
        return "; ".join(parts)

    rows = [
        ("executors and cores dominate", ranges("cores")),
        ("shuffle compression: more than 19 % in GBT and random forests with 100 features and more",
         ranges("shuffle_compression")),
        ("the wait for locality matters on one of six datasets", "one machine: not varied"),
        ("–", f"partitions: {ranges('partitions')}"),
    ]  # fmt: skip
    return markdown(("published, 4 × 8 and 24 × 16 cores", "measured here"), rows)


def main() -> None:
    """Analyze, write."""
    study = open_study("impact", "Which settings of Spark and of its methods matter.")
    runs = pd.read_csv(study.runs)
    found = analyzed(runs)
    shares = [
        (name, *(rough_percent(part.by_input().get(name, np.nan))
                 for part in found.of().shares_by_workload.values()))
        for name in ordered_settings(found)
    ]  # fmt: skip
    with drawing():
        picture = draw_heat_map(found)
    results = (
        f"{facts(study, runs)} Noise of a repeat: {rough_percent(found.of().noise)}.\n\n"
        "## Over all methods\n\n"
        f"{markdown(setting_header(found), setting_rows(found))}\n"
        + " ".join(line for o in found.outcomes for line in variance_lines(o))
        + f" {spread_line(found)}\n\n"
        "## By method\n\nRange of the time, in the median over contexts, with its level:\n\n"
        f"{markdown(workload_header(found), workload_rows(found, found.of()))}\n"
        "![Impact on the time by method](../pictures/impact-spark.svg)\n\n"
        "Shares of the variance of the logarithm of the time, by method:\n\n"
        f"{markdown(('setting', *found.of().shares_by_workload), shares)}\n"
        f"## What tuning reaches\n\n{tunings(runs)}\n"
        f"## Beside the thesis\n\n{beside_the_thesis(found)}"
    )
    study.write(results, {"impact-spark": picture})


if __name__ == "__main__":
    main()
