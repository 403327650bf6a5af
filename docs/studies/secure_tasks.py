"""Secure tasks: what sandboxes and sealed data cost, measured on two workers, simulated on more.

python docs/studies/secure_tasks.py
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from page import BLUE, GREEN, ORANGE, drawing, markdown, open_study

LOOKS = {"tasks": (BLUE, "o"), "sandbox": (GREEN, "s"), "sandbox+sealed": (ORANGE, "^")}
Found = Mapping[str, Any]


def main() -> None:
    """Read what was measured, and write the page."""
    command = "python -m benchmarks.secure_tasks -o {runs}"
    study = open_study("secure-tasks", "Secure tasks.", "measured.json", command)
    found = json.loads(study.runs.read_text(encoding="utf-8"))
    programs = found["programs"]
    results = (
        f"{facts(found)}\n\n## One and two workers, measured\n\n"
        f"{measured_table(programs)}\n{measured_words(programs)}\n\n"
        f"## More workers, simulated\n\n{simulated_table(programs)}\n"
        "![Time against workers](../pictures/secure-tasks-workers.svg)\n\n"
        "Each task takes as long as it was measured on one worker, and all workers have a core of "
        "their own. That the process that submits tasks encrypts for all of them is not in the "
        "simulation, so that many sealed workers would gain less than shown.\n"
    )
    study.write(results, {"secure-tasks-workers": draw(programs)})


def facts(found: Found) -> str:
    """Say when and on what machine this was measured."""
    about = found["about"]
    machine, versions = about["machine"], about["versions"]
    return (
        f"Measured on {about['at']} UTC, {about['repeats']} runs of each in turns (medians are "
        f"shown), on {machine['n_usable']} cores of {machine['cpu']}; foretell "
        f"{versions['foretell']}, Python {versions['python']}, numpy {versions['numpy']}. "
        f"{noise(found['programs'])}"
    )


def noise(programs: list[Found]) -> str:
    """Say how much runs of the same thing differ."""
    ratios = [
        high / low
        for program in programs
        for own in program["variants"].values()
        for low, high in own["range"].values()
    ]
    return (
        f"The slowest run of a row took {statistics.median(ratios):.1f} times as long as its "
        f"fastest (median of all rows; at most {max(ratios):.1f} times), so small differences mean "
        "nothing."
    )


def ms(seconds: float) -> str:
    """Write milliseconds in three figures or more."""
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def change(time_s: float, base_s: float) -> str:
    """Write how much longer something takes than a base."""
    return f"{100 * (time_s / base_s - 1):+.0f} %"


def times_of(program: Found, variant: str) -> tuple[float, float]:
    """Return the measured times of one and of two workers."""
    measured = program["variants"][variant]["measured"]
    return measured["1"], measured["2"]


def measured_table(programs: list[Found]) -> str:
    """Return times on one and two workers, and what isolation adds to tasks without it."""
    rows = []
    for program in programs:
        one, two = times_of(program, "tasks")
        n_tasks = program["variants"]["tasks"]["n_tasks"]
        row = [program["name"], f"{program['block']:,}", str(n_tasks), ms(program["plain_s"])]
        row.append(f"{ms(one)}, {ms(two)}")
        for name in ("sandbox", "sandbox+sealed"):
            own = times_of(program, name)
            added = f"{change(own[0], one)}, {change(own[1], two)}"
            row.append(f"{ms(own[0])}, {ms(own[1])} ({added})")
        rows.append(row)
    times = ("plain, ms", "tasks, ms", "sandbox, ms", "sandbox and sealed, ms")
    return markdown(("program", "block", "tasks", *times), rows)


def measured_words(programs: list[Found]) -> str:
    """Say what the table shows, from its figures."""
    sealed = "sandbox+sealed"
    lines = [
        "Times are those of one and of two workers; in brackets, what isolation adds to the same "
        "number of workers without it. *Plain* is the program without tasks, on one core."
    ]
    by_block = [
        f"{change(times_of(p, sealed)[0], times_of(p, 'tasks')[0])} ({p['name']}, {p['block']})"
        for p in programs
        if p["name"].startswith("Cholesky")
    ]
    lines.append(f"What sealing adds to Cholesky, by size and block: {', '.join(by_block)}.")
    streams = {p["name"].rpartition(", ")[2]: p for p in programs if p["name"].startswith("Stream")}
    if {"barriers", "dependencies"} <= set(streams):
        with_, without = streams["barriers"], streams["dependencies"]
        shown = [f"{change(times_of(with_, v)[1], times_of(without, v)[1])} ({v})" for v in LOOKS]
        lines.append(f"Barriers change the time of Stream on two workers by {', '.join(shown)}.")
    gains = [
        f"{p['name']}, {p['block']:,}: {change(times_of(p, sealed)[1], times_of(p, sealed)[0])}"
        for p in programs
    ]
    lines.append(f"The second worker changes the time of sealed tasks by: {'; '.join(gains)}.")
    return " ".join(lines)


def simulated_table(programs: list[Found]) -> str:
    """Return speed-ups over the plain program."""
    counts = list(programs[0]["variants"]["tasks"]["simulated"])
    rows = []
    for program in programs:
        for name, own in program["variants"].items():
            speed = [f"{program['plain_s'] / own['simulated'][count]:.2g}×" for count in counts]
            rows.append((program["name"], f"{program['block']:,}", name, *speed))
    return markdown(("program", "block", "variant", *(f"{c} workers" for c in counts)), rows)


def draw(programs: list[Found]) -> plt.Figure:
    """Draw the time of each variant against workers, for up to four programs."""
    shown = [p for p in programs if "dependencies" not in p["name"]]
    shown = shown[:: max(1, len(shown) // 4)][:4]
    with drawing():
        figure, grid = plt.subplots(1, len(shown), figsize=(2.6 * len(shown), 3.2), squeeze=False)
        for axes, program in zip(grid[0], shown, strict=True):
            for name, (color, marker) in LOOKS.items():
                own = program["variants"][name]
                measured = {int(k): v for k, v in own["measured"].items()}
                more = {1: measured[1], **{int(k): v for k, v in own["simulated"].items()}}
                axes.plot(
                    list(more), [1e3 * v for v in more.values()], "--", color=color, linewidth=1
                )
                axes.plot(list(measured), [1e3 * v for v in measured.values()], marker, color=color,
                          label=name)  # fmt: skip
            axes.axhline(1e3 * program["plain_s"], color="#777777", linewidth=0.8)
            axes.set(xscale="log", yscale="log", xlabel="workers")
            axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
            axes.minorticks_off()
            axes.set_title(f"{program['name']},\nblock {program['block']:,}", fontsize=9)
        grid[0][0].set_ylabel("time (ms)")
        grid[0][0].legend(fontsize=7)
        figure.tight_layout()
    return figure


if __name__ == "__main__":
    main()
