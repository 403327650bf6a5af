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
THESIS = (
    "Published, on a Xeon E3-1275 with 4 cores and 8 threads, with real SGX enclaves; each "
    "percentage is over the same program without an enclave, and the base differs: in its "
    "motivation the original is sequential, in its microbenchmarks it is OmpSs. The sizes on this "
    "page are below those of the thesis, so tasks are shorter and isolation weighs more: compare "
    "directions rather than figures. What more workers change is that of sealed tasks."
)


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
        "Figures say how many times as fast as the plain program on one core: 2× takes half of its "
        "time, and 0.5× twice its time. Each task takes as long as it was measured on one worker, "
        "and all workers have a core of their own. That the process that submits tasks encrypts "
        "for all of them is not in the simulation, so that many sealed workers would gain less "
        "than shown.\n\n"
        f"## Beside the thesis\n\n{THESIS}\n\n{claims_table(programs)}"
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


def is_clear(one: Found, other: Found, variant: str) -> bool:
    """Whether all runs of one program on two workers were faster than all of another, or slower."""
    (low, high), (other_low, other_high) = (
        program["variants"][variant]["range"]["2"] for program in (one, other)
    )
    return bool(high < other_low or other_high < low)


def barriers_row(streams: list[Found]) -> tuple[str, str, str]:
    """Return what barriers cost on two workers, and whether that is more than runs differ."""
    told, clear = [], []
    for variant, words in (("tasks", "on two workers"), ("sandbox+sealed", "when sealed")):
        added = times_of(streams[1], variant)[1] / times_of(streams[0], variant)[1] - 1
        noise = ""
        if is_clear(streams[0], streams[1], variant):
            clear.append(added)
        else:
            noise = ", which is within the noise"
        told.append(f"{100 * added:+.0f} % {words}{noise}")
    agrees = "agrees" if min(clear, default=0.0) > 0 else "differs"
    return ("Stream: dependencies beat barriers", agrees if clear else "cannot be told",
            f"barriers take {told[0]}, and {told[1]}")  # fmt: skip


def claims_table(programs: list[Found]) -> str:
    """Return what the thesis says, and whether these figures agree."""
    sealed = "sandbox+sealed"
    by_name = {(p["name"], p["block"]): p for p in programs}
    added = {key: times_of(p, sealed)[0] / times_of(p, "tasks")[0] - 1
             for key, p in by_name.items()}  # fmt: skip
    small, large = (by_name["Cholesky 1024", block] for block in (128, 256))
    dot = next(p for p in programs if p["name"].startswith("dot"))
    lenet = next(p for p in programs if p["name"].startswith("LeNet"))
    streams = [next(p for p in programs if p["name"].endswith(end))
               for end in ("dependencies", "barriers")]  # fmt: skip
    most = max(added, key=lambda key: added[key])

    def gain(program: Found, workers: int) -> float:
        own = program["variants"][sealed]
        more = own["measured"] if workers == 2 else own["simulated"]
        return float(more[str(workers)] / own["measured"]["1"] - 1)

    def verdict(is_so: bool) -> str:
        return "agrees" if is_so else "differs"

    low, high = (100 * end(added.values()) for end in (min, max))
    rows = [
        ("overhead of enclaves 113 % to 854 % (845 % elsewhere in the text)",
         verdict(min(added.values()) > 1.0 and max(added.values()) < 9.0),
         f"{low:+.0f} % to {high:+,.0f} % of sealed tasks on one worker"),
        ("the most for Cholesky with a large graph of small tasks",
         verdict(most[0].startswith("Cholesky")),
         f"the most for {most[0]}"),
        ("overhead falls with the size of tasks",
         verdict(added["Cholesky 1024", 128] > added["Cholesky 1024", 256]),
         f"Cholesky: {change(times_of(small, sealed)[0], times_of(small, 'tasks')[0])} "
         "with blocks of 128, "
         f"{change(times_of(large, sealed)[0], times_of(large, 'tasks')[0])} with 256"),
        ("4 workers −64 % on Cholesky",
         verdict(abs(gain(small, 4) + 0.64) < 0.15),
         f"{100 * gain(small, 2):+.0f} % by 2 (measured), {100 * gain(small, 4):+.0f} % by 4 "
         "(simulated), blocks of 128"),
        ("dot product: best with 2 workers (−28 %), worse with 4 and 8",
         verdict(gain(dot, 4) > gain(dot, 2)),
         f"{100 * gain(dot, 2):+.0f} % by 2 (measured), {100 * gain(dot, 4):+.0f} % by 4 and "
         f"{100 * gain(dot, 8):+.0f} % by 8 (simulated, where workers do not share memory "
         "bandwidth, so this cannot be seen)"),
        barriers_row(streams),
        ("LeNet −94 % with 4 workers (the summary says this of object detection)",
         verdict(gain(lenet, 4) < -0.85),
         f"{100 * gain(lenet, 2):+.0f} % by 2 (measured), {100 * gain(lenet, 4):+.0f} % by 4 "
         "(simulated); 4 workers that share the work alone cannot take more than 75 % off"),
        ("energy −92 % for LeNet", "not measured", "no meter of energy here"),
    ]  # fmt: skip
    return markdown(("published", "these figures", "here"), rows)


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
