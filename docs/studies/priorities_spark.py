"""The measured part of the study of priorities: word counts on a real Spark, beside predictions.

``measured_part`` makes its text and picture from figures of ``benchmarks.spark``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from page import BLUE, ORANGE, STYLE, markdown, percent

CLASSES = ("high", "low")
PICTURE = "Mean and 95 % quantile of responses on a real Spark, measured and predicted"
FIGURES = {"processing_s": "processing", "mean_s": "mean response", "p95_s": "p95 of responses"}
#: The policies in which low jobs do all of their work, and at one speed.
SAME_WORK = ("P", "NP", "DA(0,10)")
#: How far predictions may be off on average.
BARS = {"processing_s": 0.08, "mean_s": 0.15}


def measured_part(
    compared: Path, predicted: Path, *earlier: Path
) -> tuple[str, dict[str, plt.Figure]]:
    """Return the text of the section, and its picture.

    Policies are compared by a run in which jobs took as long under each of them. Predictions are
    judged by one that learned what jobs take right before each policy; earlier runs are told in a
    sentence.
    """
    compared_run, found, *others = (
        json.loads(p.read_text(encoding="utf-8")) for p in (compared, predicted, *earlier)
    )
    text = "\n".join(
        [
            "### Policies side by side\n",
            _setting(compared_run),
            _arrivals(compared_run),
            _policies(compared_run),
            "### Predictions\n",
            _setting(found),
            _speeds(found),
            f"![{PICTURE}](../pictures/priorities-spark.svg)\n",
            _predictions(found),
            _earlier([*others, compared_run]),
            _words(found),
        ]
    )
    return text, {"priorities-spark": _draw(found)}


def _speeds(found: Mapping[str, Any]) -> str:
    """Say how much the speed of the machine differed between policies."""
    times = [r["measured"]["low"]["processing_s"] for n, r in found["policies"].items()
             if n in SAME_WORK]  # fmt: skip
    loads = [r["measured"]["utilization"] for r in found["policies"].values()]
    return (
        "What jobs take is learned for each policy from jobs that ran in the same session right "
        "before, since the speed of this virtual machine changes within minutes: low jobs of the "
        f"same size took {min(times):.2f} to {max(times):.2f} s from policy to policy, and the "
        f"engine was busy for {100 * min(loads):.0f} to {100 * max(loads):.0f} % of the time. So "
        "this run tells how true predictions are, and not which policy is better.\n"
    )


def _setting(found: Mapping[str, Any]) -> str:
    machine, versions = found["machine"], found["versions"]
    when = found["started_at"][:16].replace("T", " ")
    return (
        f"Measured {when} UTC on {machine['n_usable']} cores of {machine['cpu']}, with Spark "
        f"{versions['pyspark']} in local mode and foretell {versions['foretell']}; "
        f"{found['n_jobs']} jobs for each policy, with the same arrivals. The load of the machine "
        f"was {_loads(found)}, our own work included. A sprint made jobs "
        f"{found['speedup']:.2f} times faster. A job that evicted another took "
        f"{found['evict_s']:.2f} s longer, for Spark's workers in Python start anew; predictions "
        "know it as `evict_s`, measured beforehand. DA(0,10) keeps all 5 partitions, "
        f"{_same(found)}.\n"
    )


def _arrivals(found: Mapping[str, Any]) -> str:
    return (
        "The mean of so few jobs depends on chance. So the arrivals are, of 3,000 random ones, "
        "the one under which queues with constant times come nearest to the formulas, chosen "
        "before anything of it was measured. Of high jobs there are "
        f"{found['policies']['P']['measured']['high']['n']}: their p95 says little.\n"
    )


def _same(found: Mapping[str, Any]) -> str:
    if "DA(0,10)" in found["policies"]:
        return "so what differs from NP is noise"
    return "and is NP here; it was not measured again"


def _loads(found: Mapping[str, Any]) -> str:
    loads = [load for pair in found["load_average"] for load in pair]
    return f"{min(loads):.1f} to {max(loads):.1f}"


def _policies(found: Mapping[str, Any]) -> str:
    """Put the policies side by side, relative to eviction."""
    base = found["policies"]["P"]["measured"]
    rows = []
    for name, result in found["policies"].items():
        measured = result["measured"]
        cells = [name]
        for k in CLASSES:
            for figure in ("mean_s", "p95_s"):
                change = measured[k][figure] / base[k][figure] - 1
                note = "" if name == "P" else f" ({signed(change)})"
                cells.append(f"{measured[k][figure]:.2f} s{note}")
        joules = measured["energy"]
        cells += [percent(measured["waste"]), str(measured["evictions"])]
        cells += [f"{joules['busy_j'] / 1000:.1f}", f"{joules['total_j'] / 1000:.1f}"]
        rows.append(cells)
    header = ["policy", "high: mean", "high: p95", "low: mean", "low: p95", "wasted", "evictions",
              "busy kJ (modelled)", "all kJ (modelled)"]  # fmt: skip
    return markdown(header, rows)


def _predictions(found: Mapping[str, Any]) -> str:
    rows = []
    for name, result in found["policies"].items():
        for k in CLASSES:
            measured, predicted = result["measured"][k], result["predicted"][k]
            cells = [name, k]
            for figure in FIGURES:
                error = predicted[figure] / measured[figure] - 1
                cells.append(
                    f"{measured[figure]:.2f} / {predicted[figure]:.2f} s ({signed(error)})"
                )
            played, replayed = (
                f"{result[of][k]:.2f} s ({signed(result[of][k] / measured['mean_s'] - 1)})"
                for of in ("played_mean_s", "replayed_mean_s")
            )
            rows.append([*cells, played, replayed])
    header = ["policy", "class", *(f"{words}: measured / predicted" for words in FIGURES.values()),
              "mean with these arrivals", "and these times"]  # fmt: skip
    return "\n".join([_errors(found), markdown(header, rows)])


def signed(change: float) -> str:
    """Write a relative change.

    >>> signed(-0.123), signed(0.05)
    ('−12 %', '+5 %')
    """
    return f"{100 * change:+.0f} %".replace("-", "−")


def _mean_errors(found: Mapping[str, Any]) -> dict[str, float]:
    return {
        figure: float(
            np.mean([abs(e) for both in found["errors"][figure].values() for e in both.values()])
        )
        for figure in FIGURES
    }


def _replayed_error(found: Mapping[str, Any]) -> float:
    """Return how far a simulation is off that has the arrivals and the times of each job."""
    return float(
        np.mean(
            [
                abs(result["replayed_mean_s"][k] / result["measured"][k]["mean_s"] - 1)
                for result in found["policies"].values()
                for k in CLASSES
            ]
        )
    )


def _earlier(runs: Sequence[Mapping[str, Any]]) -> str:
    told = [
        f"{percent(means['processing_s'])} and {percent(means['mean_s'])} with a load of the "
        f"machine of {_loads(found)}"
        for found in runs
        for means in [_mean_errors(found)]
    ]
    return (
        "Earlier runs, which learned what jobs take once, up to a quarter of an hour before, were "
        f"off by {', by '.join(told)}. In the first two, predictions did not know what an eviction "
        "costs, and other programs ran as well. So the error of a mean response over 80 jobs "
        "differs a lot from run to run, as the times of jobs do.\n"
    )


def _errors(found: Mapping[str, Any]) -> str:
    means = _mean_errors(found)
    above = {
        figure: sum(
            abs(e) > bar for both in found["errors"][figure].values() for e in both.values()
        )
        for figure, bar in BARS.items()
    }
    n = sum(len(both) for both in found["errors"]["mean_s"].values())
    return (
        f"On average, predictions of the processing time are off by "
        f"{percent(means['processing_s'])}, and of the mean response by "
        f"{percent(means['mean_s'])}. The thesis has 7.8 to 11.1 % and 18.7 %. The last columns "
        "tell where an error comes from. One plays the arrivals of the measurement with the "
        "predicted times. The other plays them with the time that each job was measured to take: "
        f"it is off by {percent(_replayed_error(found))} on average, so that what is left of the "
        "error is that of the times. At a load of 80 %, times that are 1 % longer make low jobs "
        "wait about 6 % longer.\n\n"
        f"The bars, {_bar('processing_s')} for the processing time and {_bar('mean_s')} for the "
        f"mean response, are for the average over the {n} cells, and only that. Single cells "
        f"exceed them: {above['processing_s']} of {n} for the processing time, and "
        f"{above['mean_s']} of {n} for the mean response. The arrivals were chosen to be near "
        "the formulas, which favors agreement of the responses; other arrivals may have larger "
        "errors.\n"
    )


def _bar(figure: str) -> str:
    return f"{100 * BARS[figure]:.0f} %"


def _words(found: Mapping[str, Any]) -> str:
    words = found["words"]
    return (
        f"With a fifth of the partitions dropped, the counts of the 1,000 most frequent words are "
        f"off by {percent(words['error'])} on average, and the 95 % bounds cover "
        f"{percent(words['coverage'])} of the true counts ({words['n_jobs']} jobs). The thesis has "
        "an error of 15 %, which is near that of counts that are not scaled.\n"
    )


def _draw(found: Mapping[str, Any]) -> plt.Figure:
    names = list(found["policies"])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
        for axis, k, color in zip(axes, CLASSES, (ORANGE, BLUE), strict=True):
            at = np.arange(len(names))
            for part, label, shift in (("mean_s", "mean", -0.2), ("p95_s", "p95", 0.2)):
                results = found["policies"].values()
                measured = [r["measured"][k][part] for r in results]
                predicted = [r["predicted"][k][part] for r in results]
                alpha = 1.0 if part == "mean_s" else 0.45
                axis.bar(at + shift, measured, 0.38, color=color, alpha=alpha, label=label)
                axis.plot(at + shift, predicted, "k_", markersize=12, markeredgewidth=2,
                          label="predicted" if part == "p95_s" else None)  # fmt: skip
            axis.set_axisbelow(True)
            axis.set_xticks(at, names, rotation=20)
            axis.set_title(f"{k} priority")
            axis.set_ylabel("response in s")
            axis.set_ylim(top=1.45 * axis.get_ylim()[1])
            axis.legend(frameon=False, ncols=3, loc="upper center")
        figure.tight_layout()
    return figure
