"""How true forecasts of task graphs are: blocks and numbers of workers that were never run.

    python -m benchmarks.task_forecasts measure FOLDER [PROGRAM...] [--rounds 5]
    python -m benchmarks.task_forecasts judge FOLDER [PROGRAM...]

*measure* runs programs on one worker and on two, for which the machine must do nothing else, and
keeps their traces. Runs that other programs disturbed are repeated, and what disturbed each is
kept. *judge* fits models on some of them, and foresees the others. Traces of all four programs were
looked at when the runtime was modelled: only their blocks are unseen.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import foretell
from benchmarks.task_programs import PROGRAMS
from foretell.corun.running.whole_machine import machine_times
from foretell.dataset import description_path
from foretell.simulate.graph import Overhead
from foretell.tasks import foresee
from foretell.tasks.forecast.program import read_program
from foretell.tasks.forecast.times import measure_overhead

#: Which rounds models learn from: the first is the one in which everything is loaded.
LEARNED = (1, 2, 3)
#: Runs beside more load of others, or from which more was stolen, are repeated so many times.
MOST_LOAD, MOST_STEAL, MOST_REPEATS = 0.1, 0.05, 3
#: The kernel counts in ticks of 10 ms, one or two of which a short run may get too many.
TICKS_S = 0.02


def measure(names, n_rounds, folder):
    """Run programs in turns, so that a slower moment of the machine meets all alike."""
    folder.mkdir(parents=True, exist_ok=True)
    times, disturbed, submit_s = {}, {}, {}
    for k in range(n_rounds):
        for name in names:
            program, seen, unseen = PROGRAMS[name]
            for block, workers in product(sorted({*seen, *unseen}), (1, 2)):
                key = f"{name}-{block}-{workers}"
                graph, others = undisturbed(program, block, workers)
                times.setdefault(key, []).append(graph.time_s)
                disturbed.setdefault(key, []).append(others)
                graph.trace(folder / f"{key}-{k}.csv")
    for name in names:
        program, seen, unseen = PROGRAMS[name]
        for block in (*seen, *unseen):
            own = read_program(program, fix={"block": block})
            submit_s[f"{name}-{block}"] = own.built({"block": block}, n_builds=3).submit_s
    about = {"times": times, "disturbed": disturbed, "overhead": vars(measure_overhead()),
             "submit_s": submit_s}  # fmt: skip
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def undisturbed(program, block, workers):
    """Run a program until others leave it alone, a few times at most; return the best run.

    What others did comes with it: their load in cores, and the share of time that was stolen.
    """
    runs = []
    for _ in range(1 + MOST_REPEATS):
        # What earlier rounds left is none of this run's business.
        gc.collect()
        gc.freeze()
        before, own_s, started = machine_times(), time.process_time(), time.perf_counter()
        graph = program(block, workers)
        took_s = time.perf_counter() - started
        now, own_s = machine_times(), time.process_time() - own_s
        load = max(now["busy_s"] - before["busy_s"] - own_s, 0.0) / took_s
        steal = (now["steal_s"] - before["steal_s"]) / took_s
        runs.append((graph, {"other_load": load, "steal": steal}))
        if load <= MOST_LOAD + TICKS_S / took_s and steal <= MOST_STEAL:
            break
    return min(runs, key=lambda run: run[1]["other_load"] + run[1]["steal"])


def joined(paths, path):
    """Put traces together into one."""
    frames = [pd.read_csv(one).assign(run=k + 1) for k, one in enumerate(paths)]
    pd.concat(frames).to_csv(path, index=False)
    description = json.loads(description_path(paths[0]).read_text(encoding="utf-8"))
    description["table"] = path.name
    description_path(path).write_text(json.dumps(description), encoding="utf-8")


def models_of(name, folder, output):
    """Fit models on the blocks that may be seen with both numbers of workers, or all with one."""
    _, seen, unseen = PROGRAMS[name]
    known = {"blocks": product(seen, (1, 2)), "workers": product((*seen, *unseen), (1,))}
    models = {}
    for key, settings in known.items():
        path = output / f"{key}.csv"
        joined([folder / f"{name}-{b}-{w}-{k}.csv" for b, w in settings for k in LEARNED], path)
        fitted = foretell.fit_model(path, target="cpu_time_s", output=output / key)
        models[key] = (fitted.best, path)
    return models


def judge(name, folder):
    """Compare forecasts with the medians of all rounds."""
    program, seen, unseen = PROGRAMS[name]
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    overhead = Overhead(**about["overhead"])
    build_s = {b: about["submit_s"][f"{name}-{b}"] for b in (*seen, *unseen)}
    times = {(b, w): about["times"][f"{name}-{b}-{w}"] for b in (*seen, *unseen) for w in (1, 2)}
    measured = {key: statistics.median(own) for key, own in times.items()}

    def foreseen(key, block):
        model, runs = models[key]
        return foresee(program, model=model, runs=runs, workers=2, fix={"block": block},
                       overhead_s=overhead.of_program(build_s[block])).best  # fmt: skip

    with tempfile.TemporaryDirectory() as output:
        models = models_of(name, folder, Path(output))
        by_block = {b: foreseen("blocks", b) for b in (*seen, *unseen)}
        by_workers = {b: foreseen("workers", b) for b in (*seen, *unseen)}
    off = {b: cell.makespan_s / measured[b, 2] - 1 for b, cell in by_block.items()}
    off_workers = {b: cell.makespan_s / measured[b, 2] - 1 for b, cell in by_workers.items()}
    is_inside = [by_block[b].lower_s <= measured[b, 2] <= by_block[b].upper_s for b in unseen]
    chosen = min(by_block, key=lambda b: by_block[b].makespan_s)
    two = [time_s for (_, workers), time_s in measured.items() if workers == 2]
    return {
        "measured on two workers, s": {b: measured[b, 2] for b in sorted(off)},
        "off on blocks never run": {b: off[b] for b in unseen},
        "off on workers never run": dict(sorted(off_workers.items())),
        "mean error on blocks": float(np.mean([abs(off[b]) for b in unseen])),
        "mean error on workers": float(np.mean(np.abs(list(off_workers.values())))),
        "inside the 90 % interval": float(np.mean(is_inside)),
        "chosen block": chosen,
        "regret": measured[chosen, 2] / min(two) - 1,
        "noise floor: rounds of one setting differ by": noise_of(
            own for (_, w), own in times.items() if w == 2
        ),
        "rounds that others disturbed": share_disturbed(
            one
            for b in (*seen, *unseen)
            for w in (1, 2)
            for one in about["disturbed"][f"{name}-{b}-{w}"]
        ),
    }


def noise_of(settings):
    """Return how far a round is from the median of its setting, as a share; the median of all."""
    off = [abs(one / statistics.median(own) - 1) for own in settings for one in own]
    return float(np.median([one for one in off if one > 0]))


def share_disturbed(rounds):
    """Return the share of rounds that were disturbed however often they were repeated."""
    return statistics.mean(
        one["other_load"] > MOST_LOAD or one["steal"] > MOST_STEAL for one in rounds
    )


def show(name, found):
    print(f"\n{name}")
    for key, value in found.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{k}: {v:.3g}" for k, v in value.items())
            print(f"  {key}: {inner}")
        else:
            print(f"  {key}: {value:.3g}" if isinstance(value, float) else f"  {key}: {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "judge"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.rounds <= max(LEARNED):
        parser.error(f"--rounds must be at least {max(LEARNED) + 1}: models learn from {LEARNED}")
    if given.what == "measure":
        measure(given.programs, given.rounds, given.folder)
        return
    for name in given.programs:
        show(name, judge(name, given.folder))


if __name__ == "__main__":
    main()
