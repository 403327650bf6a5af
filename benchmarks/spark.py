"""Priorities on a real Spark: eviction, waiting, dropping and sprinting, measured and predicted.

    python -m benchmarks.spark [--jobs 80] [--folder DIR] [--parts 1] [-o examples/queue/spark.json]

Two classes of word counts over made-up XML, low to high 9:1, sizes as 1117 to 473, at 80 % load; 5
partitions on 2 slots, so that 20 % dropped saves a wave, as 50 on 20 do. *Measured*: all times,
waste and errors, through the dispatcher and a Spark session in local mode. *Real mechanism,
emulated hardware*: a sprint is a CPU quota that goes from a third to all of two cores. *Modelled*:
energy, from the watts of the thesis. *Predicted*: from the event log of jobs that ran one after the
other in the same session right before, by `foretell queue learn` and the formulas; nothing is
fitted to what they predict. The speed of a virtual machine changes within minutes, so that an older
log would tell how much the machine has changed, and not how true predictions are.

A profile and five policies take two to four minutes each. With a folder, what is done is kept in
it: the same command goes on with the parts that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import foretell
from benchmarks import arrivals as arriving
from benchmarks.arrivals import Arrival
from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.decide.queueing.service.sample import constant
from foretell.measure.running.machine import describe_machine
from foretell.simulate.job_arrivals import JobArrivals
from foretell.simulate.queue import PlayedClass, play_queue

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "queue"
NAMES = ("low", "high")
LOAD, SHARE_HIGH, PARTITIONS, SLOTS = 0.8, 0.1, 5, 2
LOW_MB = 4.5
MEGABYTES = {"low": LOW_MB, "high": LOW_MB * 473 / 1117}
#: Several files of each class, so that jobs are alike and not the same.
N_FILES = 3
TOP, KEPT_TOP = 1_000, 1_500
WATTS = {"base_w": 180.0, "sprint_w": 270.0, "idle_w": 90.0}
QUOTA = {"base_cpus": SLOTS / 3, "sprint_cpus": float(SLOTS)}
N_WARM, N_PROFILED, N_EVICTED, N_BEFORE = 24, 20, 12, 12
PROFILE = "profile"
#: The classes of jobs that run before those that are predicted.
BEFORE = {name: f"{name} before" for name in NAMES}
#: Java compiles quickly rather than well: a session is warm after few jobs.
JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
BARS = {"processing": 0.08, "response": 0.15, "words": 0.05, "coverage": (0.93, 0.97)}


@dataclass(frozen=True)
class Policy:
    """A way to serve the two classes."""

    discipline: str = "non-preemptive"
    drop: float = 0.0
    sprints: bool = False


POLICIES = {
    "P": Policy("repeat"),
    "NP": Policy(),
    "DA(0,10)": Policy(drop=0.1),
    "DA(0,20)": Policy(drop=0.2),
    "DiAS(0,20)": Policy(drop=0.2, sprints=True),
}


class Bench:
    """A folder with posts and the job, and one state folder for each run of the dispatcher."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(EXAMPLES))
        from make_posts import make_posts

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / "word_counts.py", folder)
        for name, megabytes in MEGABYTES.items():
            for i in range(N_FILES):
                make_posts(self.posts(name, i), megabytes, seed=i)

    def done(self, name: str, part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the figures of a part, which is done if it is not yet."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            shutil.rmtree(self.folder / name, ignore_errors=True)  # of one that was cut short
            half = path.with_suffix(".half")
            half.write_text(json.dumps(part(), indent=1), encoding="utf-8")
            half.replace(path)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def missing(self) -> list[str]:
        """List the parts that are not done."""
        return [n for n in (PROFILE, *POLICIES) if not (self.folder / f"{n}.json").exists()]

    def posts(self, name: str, number: int) -> Path:
        return self.folder / f"{name}-{number % N_FILES}.xml"

    def job(self, class_name: str, size: str, number: int) -> dict[str, Any]:
        return {
            "class": class_name, "name": f"{size}-{number}",
            "run": f"{self.folder / 'word_counts.py'}:word_counts",
            "arguments": {"path": str(self.posts(size, number)), "partitions": PARTITIONS,
                          "top": KEPT_TOP},
        }  # fmt: skip

    @contextmanager
    def dispatcher(self, name: str, queue: Mapping[str, Any]) -> Iterator[Dispatcher]:
        """Start a dispatcher and its session, and warm them up with jobs of their own class."""
        settings = {"events": str(self.folder / name / "events"), "environment": JAVA}
        warming = {"name": "warm", "rate_per_h": 1, "service": {"mean_s": 1, "scv": 0}}
        values = {**queue, "class": [warming, *queue["class"]],
                  "run": {"engine": "spark", "settings": settings}}  # fmt: skip
        with Dispatcher(values, state=self.folder / name, spool=None) as dispatcher:
            worker = threading.Thread(target=dispatcher.run)
            worker.start()
            try:
                for i in range(N_WARM):
                    finish(dispatcher, self.job("warm", "low", i))
                yield dispatcher
            finally:
                dispatcher.stop()
                worker.join()

    def runs(self, name: str) -> pd.DataFrame:
        """Read what became of the jobs that counted."""
        table = pd.read_csv(self.folder / name / "runs.csv")
        assert (table["status"] == "ok").all(), table["reason"]
        return table[~table["job_class"].isin(["warm", *BEFORE.values()])]


def finish(dispatcher: Dispatcher, job: Mapping[str, Any]) -> None:
    """Submit a job, and wait until nothing is left."""
    dispatcher.submit(job)
    wait_until_empty(dispatcher)


def wait_until_empty(dispatcher: Dispatcher) -> None:
    while dispatcher.unfinished(1):
        time.sleep(0.005)


def table(policy: Policy, classes: Sequence[Mapping[str, Any]], speedup: float) -> dict[str, Any]:
    """Write the class file of a policy."""
    low, high = (dict(c) for c in classes)
    low["drop"] = policy.drop
    if policy.sprints:
        high["sprint_after_s"] = 0.0
    sprint = {"mechanism": "quota", "speedup": speedup, "settings": QUOTA, **WATTS}
    return {
        "slots": SLOTS, "discipline": policy.discipline, "class": [low, high], "sprint": sprint,
    }  # fmt: skip


def profile(bench: Bench, n_jobs: int) -> dict[str, Any]:
    """Run jobs one after the other; learn the classes from the log, and how fast a sprint is.

    Then evict some: what that costs is how much longer the job takes that did it.
    """
    known = {"rate_per_h": 1, "service": {"mean_s": 1, "scv": 0}}
    names = [*NAMES, "sprinted"]
    classes = [{"name": name, **known} for name in (*names, "evicted", "evicting")]
    classes[2]["sprint_after_s"] = 0.0
    queue = table(Policy("repeat"), classes[:2], 2.0) | {"class": classes}
    started_at = datetime.now(UTC).isoformat()
    with bench.dispatcher(PROFILE, queue) as dispatcher:
        for i in range(N_PROFILED):
            for name in names:
                finish(dispatcher, bench.job(name, "high" if name == "sprinted" else name, i))
        random = np.random.default_rng(14)
        for i in range(N_EVICTED):
            dispatcher.submit(bench.job("evicted", "low", i))
            time.sleep(random.uniform(0.2, 0.8))
            finish(dispatcher, bench.job("evicting", "high", i))
    found = foretell.learn_queue(bench.folder / PROFILE / "events", order=names)
    learned = [c for c in found.values["class"] if c["name"] in NAMES]
    runs = bench.runs(PROFILE)
    times = runs.groupby("job_class")["wall_time_s"].mean()
    speedup = max(1.01, float(times["high"] / times["sprinted"]))
    evicting = runs[runs["job_class"] == "evicting"]["response_s"].mean()
    classes = with_rates(learned, speedup)
    plain = {name: predict(policy, classes, speedup) for name, policy in POLICIES.items()}
    arrivals = choose_arrivals(plain, classes, n_jobs)
    return {
        "started_at": started_at, "n_jobs": n_jobs, "classes": classes, "speedup": speedup,
        "evict_s": max(0.0, float(evicting - times["high"])),
        "arrivals": [[arrival.at_s, arrival.level] for arrival in arrivals],
    }  # fmt: skip


def with_rates(classes: Sequence[Mapping[str, Any]], speedup: float) -> list[dict[str, Any]]:
    """Give both classes the rates that make 80 % load when nothing is dropped."""
    known = [{**c, "rate_per_s": 1e-6} for c in classes]
    streams = foretell.predict_queue(table(Policy(), known, speedup)).streams
    shares = (1 - SHARE_HIGH, SHARE_HIGH)
    mean = sum(share * s.service.mean for share, s in zip(shares, streams, strict=True))
    return [
        {**c, "rate_per_s": share * LOAD / mean} for share, c in zip(shares, classes, strict=True)
    ]


def predict(
    policy: Policy, classes: Sequence[Mapping[str, Any]], speedup: float, evict_s: float = 0.0
) -> dict[str, Any]:
    """Predict processing, response and waste of a policy."""
    queue = table(policy, classes, speedup)
    queue["class"][0]["evict_s"] = evict_s
    found = foretell.predict_queue(queue, discipline=policy.discipline)
    one = found.disciplines[0]
    assert one.figures is not None
    return {
        "waste": one.figures.waste,
        **{
            name: {"processing_s": stream.service.mean, "mean_s": c.mean_s, "p95_s": c.p95_s}
            for name, stream, c in zip(NAMES, found.streams, one.figures.classes, strict=True)
        },
    }


def as_played(name: str, predicted: Mapping[str, Any]) -> arriving.Policy:
    """Return a policy with constant times, as they are predicted."""
    low, high = (predicted[k]["processing_s"] for k in NAMES)
    return arriving.Policy((low, high), is_preemptive=POLICIES[name].discipline == "repeat")


def choose_arrivals(
    predicted: Mapping[str, Mapping[str, Any]], classes: Sequence[Mapping[str, Any]], n_jobs: int
) -> list[Arrival]:
    """Choose arrivals under which queues are about as the formulas say for endless ones."""
    wanted = [
        (as_played(name, predicted[name]), tuple(predicted[name][k]["mean_s"] for k in NAMES))
        for name in ("P", "NP", "DA(0,20)")
    ]
    rate = sum(c["rate_per_s"] for c in classes)
    return arriving.typical(n_jobs, rate, SHARE_HIGH, wanted)


def play(
    bench: Bench, name: str, queue: Mapping[str, Any], arrivals: Sequence[Arrival]
) -> dict[str, Any]:
    """Learn what jobs take now, let jobs arrive, and measure."""
    load = [os.getloadavg()[0]]
    known = {"rate_per_h": 1, "service": {"mean_s": 1, "scv": 0}}
    before = [{"name": title, **known} for title in BEFORE.values()]
    with bench.dispatcher(name, {**queue, "class": [*before, *queue["class"]]}) as dispatcher:
        for i in range(N_BEFORE):
            for size, title in BEFORE.items():
                finish(dispatcher, bench.job(title, size, i))
        learned = foretell.learn_queue(bench.folder / name / "events").values["class"]
        began = time.monotonic()
        for i, arrival in enumerate(arrivals):
            time.sleep(max(0.0, began + arrival.at_s - time.monotonic()))
            size = NAMES[arrival.level]
            dispatcher.submit(bench.job(size, size, i))
        wait_until_empty(dispatcher)
        took_s = time.monotonic() - began
    runs = bench.runs(name)
    busy_s = float(runs["wall_time_s"].sum() + runs["wasted_s"].sum())
    numbers = runs["name"].str.rpartition("-")[2].astype(int)
    by_title = {c["name"]: c for c in learned}
    return {
        "classes": [
            {**by_title[BEFORE[c["name"]]], "name": c["name"], "rate_per_s": c["rate_per_s"]}
            for c in queue["class"]
        ],
        "times_s": runs["wall_time_s"].to_numpy()[np.argsort(numbers)].tolist(),
        **{
            k: {
                "n": int((runs["job_class"] == k).sum()),
                "processing_s": float(of["wall_time_s"].mean()),
                "mean_s": float(of["response_s"].mean()),
                "p95_s": float(np.quantile(of["response_s"], 0.95)),
                "wait_s": float(of["wait_s"].mean()),
            }
            for k in NAMES
            for of in [runs[runs["job_class"] == k]]
        },
        "waste": float(runs["wasted_s"].sum()) / busy_s,
        "evictions": int(runs["n_preempted"].sum()),
        "utilization": busy_s / took_s,
        "energy": energy(busy_s, float(runs["sprint_s"].sum()), took_s),
        "load_average": [*load, os.getloadavg()[0]],
    }  # fmt: skip


def energy(busy_s: float, sprint_s: float, took_s: float) -> dict[str, float]:
    """Model the joules of a run from its measured times."""
    busy_j = WATTS["base_w"] * busy_s + (WATTS["sprint_w"] - WATTS["base_w"]) * sprint_s
    return {"busy_j": busy_j, "total_j": busy_j + WATTS["idle_w"] * max(0.0, took_s - busy_s)}


def word_errors(bench: Bench, name: str) -> dict[str, float]:
    """Compare the counts of low jobs that dropped partitions with the truth."""
    from word_counts import count_words

    true = [dict(count_words(bench.posts("low", i).read_text().splitlines()))
            for i in range(N_FILES)]  # fmt: skip
    errors, covered = [], []
    runs = bench.runs(name)
    for _, run in runs[runs["job_class"] == "low"].iterrows():
        truth = true[int(run["name"].rpartition("-")[2]) % N_FILES]
        result = json.loads((bench.folder / name / "jobs" / run["id"] / "result.json").read_text())
        for word in sorted(truth, key=truth.__getitem__, reverse=True)[:TOP]:
            if found := result.get(word):
                errors.append(abs(found["value"] / truth[word] - 1))
                covered.append(found["low"] <= truth[word] <= found["high"])
    return {"n_jobs": int((runs["job_class"] == "low").sum()), "error": float(np.mean(errors)),
            "coverage": float(np.mean(covered)),
            "found": len(errors) / TOP / int((runs["job_class"] == "low").sum())}  # fmt: skip


def compare(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far predictions are from what was measured, by policy, class and figure."""
    return {
        figure: {
            name: {k: result["predicted"][k][figure] / result["measured"][k][figure] - 1
                   for k in NAMES}
            for name, result in results.items()
        }
        for figure in ("processing_s", "mean_s", "p95_s")
    }  # fmt: skip


def report(found: Mapping[str, Any]) -> Iterator[str]:
    """Write the tables."""
    heads = "".join(f"{head:>22}" for head in ("processing", "mean response", "p95"))
    yield f"{'policy':12}{'class':6}{heads}{'waste':>8}{'kJ':>7}"
    yield f"{'':18}" + 3 * f"{'measured  predicted':>22}"
    for name, result in found["policies"].items():
        for k in NAMES[::-1]:
            measured, predicted = result["measured"], result["predicted"]
            pairs = "".join(
                f"{measured[k][f]:>10.2f} {predicted[k][f]:>9.2f} s"
                for f in ("processing_s", "mean_s", "p95_s")
            )
            tail = f"{100 * measured['waste']:>7.1f}%{measured['energy']['total_j'] / 1000:>7.1f}"
            yield f"{name:12}{k:6}{pairs}{tail if k == 'high' else ''}"
    errors = found["errors"]
    for figure, words, bar in (("processing_s", "processing", BARS["processing"]),
                               ("mean_s", "response", BARS["response"])):  # fmt: skip
        every = [abs(e) for by_class in errors[figure].values() for e in by_class.values()]
        yield (
            f"{words}: mean error {100 * np.mean(every):.1f} %, largest {100 * max(every):.1f} %; "
            f"bar {100 * bar:.0f} %"
        )
    words = found["words"]
    yield (
        f"top {TOP:,} words at 20 % dropped: error {100 * words['error']:.2f} % (bar 5 %), bounds "
        f"cover {100 * words['coverage']:.1f} % (bar 93 to 97 %), {words['n_jobs']} jobs"
    )
    yield f"load of the machine: {found['load_average']}"


def measure(bench: Bench, part: str, n_jobs: int) -> None:
    """Do one part: the profile, or a policy."""
    if part == PROFILE:
        bench.done(PROFILE, lambda: profile(bench, n_jobs))
        return
    known = bench.done(PROFILE, lambda: profile(bench, n_jobs))
    queue = table(POLICIES[part], known["classes"], known["speedup"])
    arrivals = [Arrival(*pair) for pair in known["arrivals"]]
    bench.done(part, lambda: play(bench, part, queue, arrivals))


def figures(bench: Bench) -> dict[str, Any]:
    """Put what was measured beside what is predicted, for the policies that are done."""
    known = json.loads((bench.folder / f"{PROFILE}.json").read_text(encoding="utf-8"))
    arrivals = [Arrival(*pair) for pair in known["arrivals"]]
    results = {}
    for name in [name for name in POLICIES if name not in bench.missing()]:
        policy = POLICIES[name]
        measured = json.loads((bench.folder / f"{name}.json").read_text(encoding="utf-8"))
        classes = measured.pop("classes")
        predicted = predict(policy, classes, known["speedup"], known["evict_s"])
        played = arriving.means(arrivals, as_played(name, predicted))
        replayed = replay(policy, arrivals, measured.pop("times_s"))
        results[name] = {
            "measured": measured, "predicted": predicted,
            "played_mean_s": dict(zip(NAMES, played, strict=True)),
            "replayed_mean_s": dict(zip(NAMES, replayed, strict=True)),
        }  # fmt: skip
    return {
        "started_at": known["started_at"], "machine": describe_machine(),
        "versions": {"foretell": foretell.__version__, "pyspark": version("pyspark")},
        "n_jobs": known["n_jobs"], "load": LOAD, "speedup": known["speedup"],
        "evict_s": known["evict_s"], "classes": known["classes"], "policies": results,
        "errors": compare(results), "words": word_errors(bench, "DA(0,20)"),
        "load_average": [r["measured"]["load_average"] for r in results.values()],
    }  # fmt: skip


def replay(policy: Policy, arrivals: Sequence[Arrival], times_s: Sequence[float]) -> list[float]:
    """Return the mean responses of a simulation with the very arrivals and times measured.

    These times have in them what evictions cost.
    """
    jobs = JobArrivals(
        np.array([a.at_s for a in arrivals]), np.array([a.level for a in arrivals]),
        np.array(times_s),
    )  # fmt: skip
    classes = [PlayedClass(name, 1.0, constant(1.0)) for name in NAMES]
    played = play_queue(classes, policy.discipline, arrivals=jobs, n_jobs=len(arrivals))
    return [float(played.response_s[played.class_of == k].mean()) for k in range(len(NAMES))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=80, help="jobs per policy")
    parser.add_argument("--folder", type=Path, help="keeps what is done; a temporary one if none")
    parser.add_argument("--parts", type=int, default=99, help="how many parts to do now")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for all figures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foretell-bench-spark-") as name:
        bench = Bench(args.folder or Path(name))
        for part in bench.missing()[: args.parts]:
            measure(bench, part, args.jobs)
            print(f"{part} is done", flush=True)
        if "DA(0,20)" in bench.missing():
            return
        found = figures(bench)
    print("\n".join(report(found)))
    if args.output is not None:
        args.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
