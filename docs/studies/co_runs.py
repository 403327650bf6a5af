"""Jobs that share a machine: twelve programs measured alone and together, and every model on them.

python docs/studies/co_runs.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import BLACK, BLUE, DOCS, EXAMPLES, ORANGE, STUDIES, Study, drawing, markdown, percent

sys.path.insert(0, str(DOCS.parent))
from benchmarks.corun import IDLE, grouped, uncontended_noise

from foretell.corun.calibration import PAIR, RUNNING
from foretell.corun.machine import read_machine
from foretell.corun.models.baselines import Fluid
from foretell.corun.models.cases import Case
from foretell.corun.models.gru.model import GruModel
from foretell.corun.models.gru.network import CROSSING, RULES
from foretell.corun.models.gru.sequences import N_METRICS
from foretell.corun.models.gru.train import GruOptions
from foretell.corun.models.score import CoRunScores, score_co_runs
from foretell.corun.models.validation import (
    BASELINES,
    QUESTIONS,
    UNSEEN,
    calibrated,
    covered,
    improvement,
    mape,
    out_of_sample,
)
from foretell.traces import read_trace
from foretell.wording import counted

WRITERS = frozenset({"tar", "write"})
_PICTURED = "two-phases"
_HORIZONS = (1, 2, 3)
_PRIORITY = ", and measured jobs ran before them (`priority`)"


def open_co_runs() -> Study:
    """Read the command line; ``--runs`` is the table in the folder of a measurement."""
    parser = argparse.ArgumentParser(description="Twelve programs alone and together.")
    parser.add_argument("--runs", type=Path, default=EXAMPLES / "corun" / "measured" / "runs.csv")
    parser.add_argument("--page", type=Path, default=STUDIES / "co-runs.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "pictures")
    parser.add_argument("--quick", action="store_true", help="train nothing for minutes")
    given = parser.parse_args()
    return Study(given.runs, given.page, given.pictures, given.quick)


def facts(study: Study, runs: pd.DataFrame, scores: CoRunScores, how: str = "") -> str:
    """Say what was measured, when and on what machine."""
    about = json.loads(study.runs.with_name("about.json").read_text(encoding="utf-8"))
    data = scores.measurement
    kinds = runs.drop_duplicates("key")["kind"].value_counts()
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    disturbed = runs.drop_duplicates("key").groupby("status").size().to_dict()
    return (
        f"*Measured* from {about['began']} to {about['ended']} UTC on {about['n_usable']} cores of "
        f"{about['cpu']} with {about['memory_bytes'] / 2**30:.1f} GiB of memory, a virtual "
        f"machine: {runs['key'].nunique()} runs ({counts}), of which {disturbed.get('ok', 0)} went "
        f"well and {disturbed.get('disturbed', 0)} were disturbed by others even when repeated, "
        f"and are left out. Others kept {runs['other_load'].mean():.2f} cores busy meanwhile{how}; "
        f"while jobs waited, others used {runs['disturbed'].mean():.3f} cores on average. The host "
        "gave "
        f"{runs['steal'].mean():.3f} cores to other virtual machines. Repeats of a program alone "
        f"differ by {percent(data.noise)} from their median on average: no model can be better."
    )


def programs(runs: pd.DataFrame, scores: CoRunScores) -> str:
    """Return what each program needs alone."""
    rows = []
    for name, profile in sorted(scores.measurement.profiles.items()):
        needs = profile.needs(scores.measurement.capacity.n_cores)
        own = runs[(runs["kind"] == "pair") & (runs["program"] == name) & (runs["status"] == "ok")]
        slowest = own.loc[own["slowdown"].idxmax()]
        rows.append(
            (
                name, f"{profile.wall_s:.2f} s", f"{needs.mean('CPU time'):.2f}",
                f"{100 * needs.mean('disk'):.0f} %", f"{profile.memory_bytes / 2**20:.0f} MiB",
                str(len(needs.phases)), f"{own['slowdown'].mean():.2f}",
                f"{slowest['slowdown']:.2f} beside {slowest['beside']}",
            )
        )  # fmt: skip
    header = (
        "program", "alone", "cores", "disk busy", "memory", "phases", "mean slowdown in pairs",
        "largest",
    )  # fmt: skip
    return markdown(header, rows)


def draw_matrix(runs: pd.DataFrame) -> plt.Figure:
    """Draw the slowdown of each program (row) beside each other one (column)."""
    pairs = runs[(runs["kind"] == "pair") & (runs["status"] == "ok")]
    table = pairs.pivot_table(index="program", columns="beside", values="slowdown", aggfunc="mean")
    names = sorted(set(table.index) | set(table.columns))
    table = table.reindex(index=names, columns=names)
    figure, axes = plt.subplots(figsize=(7.2, 5.6))
    shown = axes.imshow(table, cmap="Oranges", vmin=1.0, vmax=max(2.0, float(table.max().max())))
    for i in range(len(names)):
        for j in range(len(names)):
            value = table.iloc[i, j]
            if np.isfinite(value):
                color = "white" if value > 1.75 else BLACK
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="beside", ylabel="program")
    axes.grid(visible=False)
    figure.colorbar(shown, label="times longer than alone, measured")
    figure.tight_layout()
    return figure


def draw_predicted(scores: CoRunScores) -> plt.Figure:
    """Draw predicted against measured times of programs that were left out."""
    figure, panes = plt.subplots(1, 2, figsize=(7.2, 3.5), sharex=True, sharey=True)
    best = {q: scores.predictions[name][q] for q, name in scores.best_baselines.items()}
    shown = {"best baseline of each question": best, "foretell": scores.used}
    for axes, (title, predictions) in zip(panes, shown.items(), strict=True):
        for question, marker, color in (
            ("pairs, unseen", "o", BLUE), ("triples", "^", ORANGE), ("shifted", "s", "#2a7f3f"),
            ("pinned", "D", BLACK),
        ):  # fmt: skip
            found = predictions[question]
            axes.plot(
                [p.measured_s for p in found], [p.predicted_s for p in found], marker, color=color,
                fillstyle="none", markersize=4, label=question,
            )  # fmt: skip
        ends = axes.get_xlim()
        axes.plot(ends, ends, color="#777777", linewidth=0.8)
        axes.set(xlabel="measured, s", title=title)
        axes.title.set(fontsize=10)
    panes[0].set(ylabel="predicted, s")
    panes[1].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    return figure


def draw_traces(study: Study, cases: list[Case]) -> plt.Figure | None:
    """Draw CPU time over time of one pair, as measured and as the model has it."""
    wanted = [c for c in cases if c.kind == PAIR and _PICTURED in c.programs]
    if not wanted:
        return None
    case = max(wanted, key=lambda c: (max(c.walls_s) * (len(set(c.programs)) > 1), c.key))
    trace = read_trace(study.runs.parent / "traces" / f"{case.key}.trace")
    figure, panes = plt.subplots(2, 1, figsize=(7.2, 3.8), sharex=True)
    for k, (axes, name) in enumerate(zip(panes, case.programs, strict=True)):
        total = np.maximum.accumulate(trace.columns[f"{k + 1}.cpu_time_s"])
        used = np.gradient(total, trace.times_s)
        axes.plot(trace.times_s, used, color=BLUE, linewidth=1.2, label="measured")
        times, cores = _modelled(case, k)
        axes.step(times, cores, where="post", color=ORANGE, linewidth=1.2, label="fluid model")
        axes.set(ylabel=f"{name}\ncores", ylim=(0, 2.1))
    panes[1].set(xlabel="time, s")
    panes[0].legend(fontsize=8, frameon=False, loc="upper right")
    figure.tight_layout()
    return figure


def _modelled(case: Case, k: int) -> tuple[list[float], list[float]]:
    times, cores, done = [0.0], [0.0], 0.0
    phases = case.jobs[k].job.phases
    for stretch in case.fluid.stretches:
        left, need = done, phases[-1].needs["CPU time"]
        for phase in phases:
            if left < phase.seconds * (1 - 1e-6):
                need = phase.needs["CPU time"]
                break
            left -= phase.seconds
        times.append(stretch.start_s)
        cores.append(need * stretch.speeds[k])
        done += stretch.speeds[k] * (stretch.end_s - stretch.start_s)
    return [*times[1:], case.fluid.stretches[-1].end_s], [*cores[1:], 0.0]


def errors(scores: CoRunScores) -> str:
    """Return the errors of all models, and what those in use gain."""
    used = set(scores.chosen.values())
    rows = [
        (f"**{name}**" if name in used else name, *(percent(e) for e in own.values()))
        for name, own in scores.errors().items()
    ]
    text = markdown(("model", *QUESTIONS), rows)
    return (
        f"{text}\n{_gains_and_covers(scores)} Pairs that want no more than there is, so that they "
        f"cannot slow each other, take {percent(uncontended_noise(scores.measurement))} more or "
        f"less than alone.\n\n{left_out(scores)}\n{without_writers(scores)}"
    )


def _gains_and_covers(scores: CoRunScores) -> str:
    used = set(scores.chosen.values())
    gains = "; ".join(
        f"{q} {-100 * g:+.0f} % ({-100 * high:+.0f} to {-100 * low:+.0f}) against *"
        f"{scores.best_baselines[q]}*"
        for q, (g, low, high) in scores.gains().items()
    )
    covers = ", ".join(f"{q} {100 * c:.0f} %" for q, c in scores.coverage().items())
    return (
        f"Error of *{' and '.join(sorted(used))}* against the best baseline of each "
        f"question, with 95 % intervals of a paired bootstrap over co-runs: {gains}.\n\n"
        f"Intervals of 90 % cover: {covers}. Each interval was made without the runs of the "
        "program it is tested on."
    )


def on_an_idle_machine() -> str:
    """Return the errors of all models on the second measurement."""
    machine = read_machine(IDLE / "this.machine")
    scores = score_co_runs(IDLE, machine=machine)
    runs = pd.read_csv(IDLE / "runs.csv")
    study = Study(IDLE / "runs.csv", STUDIES / "co-runs.md", DOCS / "pictures")
    without = score_co_runs(IDLE, machine=machine.model_copy(update={"wake_s": 0.0}))
    rows = [(name, *(percent(e) for e in own.values())) for name, own in scores.errors().items()]
    alike = percent(uncontended_noise(scores.measurement))
    earlier = "; ".join(
        f"{q} {percent(a)} instead of {percent(b)}"
        for q, a, b in zip(
            QUESTIONS, scores.errors()[Fluid.name].values(), without.errors()[Fluid.name].values(),
            strict=True,
        )
    )  # fmt: skip
    return (
        f"{facts(study, runs, scores)}\n\n{markdown(('model', *QUESTIONS), rows)}\n"
        f"{_gains_and_covers(scores)}\n\nThe speed of this virtual machine changes by a tenth from "
        "minute to minute: programs that want no more than there is, so that they cannot slow each "
        f"other, take {alike} more or less than alone on average. No model can know that. A writer "
        "to the disk wakes up thousands of times a second, and waits each time where others keep "
        f"all cores busy: {1e6 * machine.wake_s:.0f} µs by `foretell corun machine`. With that, "
        f"errors are {earlier}.\n\n{grouping(scores)}"
    )


def left_out(scores: CoRunScores) -> str:
    """Say which co-runs were disturbed and are left out, and what the errors are with them."""
    data = scores.measurement
    lost = [case for case in data.disturbed if case.kind != RUNNING]
    if not lost:
        return "No co-run is left out.\n"
    with_all = out_of_sample(Fluid, (*data.cases, *data.disturbed))
    kinds = pd.Series([case.kind for case in lost]).value_counts().items()
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds)
    rows = [
        ("as judged here", *(percent(mape(p)) for p in scores.predictions[Fluid.name].values())),
        ("with those left out", *(percent(mape(p)) for p in with_all.values())),
    ]
    return (
        f"With the {counted(len(lost), 'co-run')} that others disturbed ({counts}), and that no "
        "model is judged by, the errors of *fluid* are:\n\n"
        f"{markdown(('co-runs', *QUESTIONS), rows)}"
    )


def without_writers(scores: CoRunScores) -> str:
    """Say how good the fluid model is without the programs that write to the disk."""
    cases = [c for c in scores.measurement.cases if not WRITERS & {*c.programs}]
    fluid = out_of_sample(Fluid, cases)
    others = [out_of_sample(model, cases) for model in BASELINES]
    best = {q: min((other[q] for other in others), key=mape) for q in QUESTIONS}
    gains = [improvement(fluid[q], best[q]) for q in QUESTIONS]
    shares = [covered(fluid[q], kind) if q in UNSEEN else None for q, kind in QUESTIONS.items()]
    changes = (
        f"{-100 * g:+.0f} % ({-100 * high:+.0f} to {-100 * low:+.0f})" for g, low, high in gains
    )
    rows = [
        ("error of *fluid*", *(percent(mape(fluid[q])) for q in QUESTIONS)),
        ("against the best baseline", *changes),
        ("90 % intervals cover", *("–" if s is None else f"{100 * s:.0f} %" for s in shares)),
    ]
    return f"Co-runs without {_writers()}:\n\n{markdown(('', *QUESTIONS), rows)}"


def _writers() -> str:
    return " or ".join(f"`{name}`" for name in sorted(WRITERS))


def biases(scores: CoRunScores) -> str:
    """Return how much longer programs take in pairs than the fluid model says."""
    ratios: dict[str, list[float]] = {}
    for case in (case for case in scores.measurement.cases if case.kind == PAIR):
        for k, name in enumerate(case.programs):
            modelled = case.fluid.ends_s[k] - case.jobs[k].start_s
            ratios.setdefault(name, []).append(case.walls_s[k] / modelled)
    means = sorted(((float(np.mean(r)), name) for name, r in ratios.items()), reverse=True)
    texts = ", ".join(f"`{name}` {100 * (mean - 1):+.0f} %" for mean, name in means)
    return f"Measured times in pairs against those of the fluid model, on average: {texts}.\n"


def grouping(scores: CoRunScores) -> str:
    """Compare groups that the model chooses with the best in the measured matrix."""
    ratios, in_turn = grouped(scores.measurement)
    if not ratios:
        return "There are too few pairs to group programs.\n"
    return (
        f"{len(ratios)} times six of the programs were put on one machine in pairs or alone, one "
        "after the other. By the *measured* times, the groups that the model chooses take "
        f"{100 * (np.mean(ratios) - 1):.1f} % longer than the best groups on average "
        f"(at most {100 * (max(ratios) - 1):.1f} %); running all programs one after the other "
        f"takes {100 * (np.mean(in_turn) - 1):.0f} % longer.\n"
    )


def ablations(scores: CoRunScores) -> str:
    """Return what the sequence-to-sequence model loses without its parts."""
    cases = scores.measurement.cases
    names = sorted(scores.measurement.profiles)
    held = set(names[::4])
    train = [c for c in cases if c.kind == PAIR and not held & set(c.programs)]
    test = [c for c in cases if c.kind == PAIR and held & set(c.programs)]
    rows = []
    for label, has_completion in (("with completion", True), ("without completion", False)):
        model = GruModel(GruOptions(has_completion=has_completion))
        model.fit(train)
        for rule in RULES:
            found = [_error(test, model, rule, k) for k in _HORIZONS]
            rows.append((label, rule, *(percent(e) for e in found)))
    one_each = [GruModel(GruOptions(metric=k)) for k in range(N_METRICS)]
    for model in one_each:
        model.fit(train)
    averaged = percent(_averaged(test, one_each))
    rows.append(("one network per metric, averaged", CROSSING, "–", averaged, "–"))
    header = ("inputs", "rule", *(f"horizon k = {k}" for k in _HORIZONS))
    return (
        f"Pairs with {', '.join(sorted(held))}, which the network never saw:\n\n"
        f"{markdown(header, rows)}"
    )


def _error(test: list[Case], model: GruModel, rule: str, horizon: int) -> float:
    found = [
        abs(p / m - 1)
        for case in test
        for p, m in zip(model.predict_by(case, rule, horizon), case.walls_s, strict=True)
    ]
    return float(np.mean(found))


def _averaged(test: list[Case], models: list[GruModel]) -> float:
    found = []
    for case in test:
        times = np.mean([model.predict(case) for model in models], axis=0)
        found += [abs(p / m - 1) for p, m in zip(times, case.walls_s, strict=True)]
    return float(np.mean(found))


def write_card(scores: CoRunScores) -> None:
    """Write into the data card which co-runs are left out, and what that does to errors."""
    path = EXAMPLES / "corun" / "README.md"
    begin, end = "<!-- begin: left out -->\n", "<!-- end: left out -->"
    head, _, rest = path.read_text(encoding="utf-8").partition(begin)
    tail = rest.partition(end)[2]
    path.write_text(f"{head}{begin}{left_out(scores)}\n{end}{tail}", encoding="utf-8")


def write_calibration(scores: CoRunScores) -> None:
    """Write the errors that foretell brings along, for intervals without a fit of one's own."""
    idle = score_co_runs(IDLE, machine=read_machine(IDLE / "this.machine"))
    both = [one.predictions[Fluid.name] for one in (scores, idle)]
    n_runs = sum(len({c.key for c in one.measurement.cases}) for one in (scores, idle))
    found = calibrated(
        {question: [p for one in both for p in one[question]] for question in QUESTIONS},
        f"{n_runs} co-runs of {len(scores.measurement.profiles)} programs, measured on 2 cores of "
        "two machines in foretell's own study",
    )
    path = DOCS.parent / "src" / "foretell" / "corun" / "calibration.json"
    text = json.dumps({"source": found.source, "errors": dict(found.errors)}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Judge all models, draw, write."""
    study = open_co_runs()
    runs = pd.read_csv(study.runs)
    machine = read_machine(study.runs.with_name("this.machine"))
    gru = None if study.is_quick else GruOptions()
    scores = score_co_runs(
        study.runs.parent, machine=machine, gru=gru, ablations=not study.is_quick
    )
    with drawing():
        pictures = {
            "co-runs-matrix": draw_matrix(runs),
            "co-runs-predicted": draw_predicted(scores),
        }
        traces = draw_traces(study, list(scores.measurement.cases))
        if traces is not None:
            pictures["co-runs-traces"] = traces
    results = (
        f"{facts(study, runs, scores, _PRIORITY)}\n\n"
        f"## The programs alone\n\n{programs(runs, scores)}\n"
        "## How programs slow each other\n\n"
        "![Slowdowns of pairs, measured](../pictures/co-runs-matrix.svg)\n\n"
        f"## How far off each model is\n\n{errors(scores)}\n"
        "![Predicted and measured times](../pictures/co-runs-predicted.svg)\n\n"
        "![CPU time of a pair over time](../pictures/co-runs-traces.svg)\n\n"
        f"## Measured against modelled, by program\n\n{biases(scores)}\n"
        f"## Groups\n\n{grouping(scores)}"
    )
    results += f"\n## On an idle machine\n\n{on_an_idle_machine()}"
    if not study.is_quick:
        results += f"\n## The sequence-to-sequence model\n\n{ablations(scores)}"
    study.write(results, pictures)
    if study.page.parent == STUDIES:
        write_calibration(scores)
        write_card(scores)


if __name__ == "__main__":
    main()
