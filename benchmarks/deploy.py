"""How good advice on serving is: regret on a measured grid, and predictions beside a real server.

    python -m benchmarks.deploy [server] [limits] [grid] [-o examples/serving/measured.json]

*grid*: all batch times of three networks are measured, and the choices by a quarter of them are
judged by all (*regret* does the latter alone, with the times of the file). *server*: latencies of
a real HTTP server on the loopback interface under Poisson load, beside predictions. *limits*: how
often the advice keeps its limit, beside a batch of 1, the largest batch with a wait, and batches
that adapt to the limit. The machine should do nothing else; each part takes two to four minutes.
Runs on the server in which other programs used more than a fifth of a core are repeated some times,
and the quietest counts. Parts that are not run keep the figures of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.batch_server import ROOT, Serving, start_server
from benchmarks.cores_of_others import CoresOfOthers
from foretell.decide.deployment.batch_times import BatchTimes, Point, times_by_threads
from foretell.decide.deployment.points import Points
from foretell.decide.deployment.question import Question, goal_value
from foretell.decide.deployment.scenario import OFFLINE, read_scenario
from foretell.decide.deployment.settings import Choices, Setting
from foretell.deploy.choose import choose, wanted_points
from foretell.deploy.measuring import Stopwatch, measure_points
from foretell.deploy.network import Effort, read_network
from foretell.deploy.play import Player
from foretell.errors import NothingUsableError
from foretell.measure.running.machine import describe_machine, describe_versions

NETWORKS = {
    "LeNet": ("lenet", (1, 28, 28), {}),
    "convolutions": ("convolutions", (1, 28, 28), {}),
    "wide": ("wide", (784,), {"width": 3072}),
}
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32)
THREADS = (1, 2)
#: Samples that come together in the scenario multi-stream.
BURST = 12
EFFORT = Effort(3, 0.1, 20, 0.3)
#: Networks on the real server; LeNet is quicker than a server in Python.
SERVED = ("convolutions", "wide")
LOADS = (0.3, 0.5, 0.8)
CAP, N_REQUESTS, LEAST_REQUESTS = 8, 1_800, 662
N_WINDOWS, N_OF_OTHERS = 6, 1
#: Requests one after the other, and batches of one size that tell its time.
N_ALONE, LEAST_OWN = 240, 5
#: Cores that other programs may use in a run on the server, and how often it is repeated if not.
MOST_OF_OTHERS, MOST_TRIES = 0.2, 5


def network_of(name):
    function, shape, arguments = NETWORKS[name]
    build = f"{ROOT / 'examples' / 'serving' / 'networks.py'}:{function}"
    return read_network(build, shape, arguments=arguments)


def say(*words):
    print(*words, flush=True)


# Regret on a grid


def scenarios(times):
    """Return the questions: rates are shares of what one thread can serve."""
    one = times[1]
    best = max(one.per_s(b) for b in SIZES)
    alone = float(one.mean_s(1).item())
    burst = BURST * alone * 2
    return {
        "single-stream": "single-stream",
        "offline": "offline",
        "multi-stream": f"burst:{BURST}/{1e3 * burst:.4g}ms",
        "server, load 0.3": f"poisson:{0.3 * best:.4g}/s",
        "server, load 0.7": f"poisson:{0.7 * best:.4g}/s",
    }


def measured_grid(name):
    """Measure all batch times of a network."""
    with Stopwatch(network_of(name), 1, EFFORT, None) as stopwatch:
        whole = measure_points(stopwatch, Points(SIZES, THREADS, is_whole=True), lambda _: [])
    return [{**p.to_json(), "levels": list(np.round(p.levels[::4], 4))} for p in whole.points]


class Recorded:
    """Gives batch times that were measured before, one by one, as a stopwatch would."""

    def __init__(self, points):
        self._points = {(p.threads, p.batch): p for p in points}
        self.cache = self

    def get(self, threads, batch):
        return self._points.get((threads, batch))

    point = get


def regrets(name, kept):
    """Choose by few of the measured times, and judge by all.

    The same times serve both, so that what a batch takes a minute later does not count.
    """
    fields = ("threads", "batch", "median_s", "error", "busy_cores", "n_calls")
    points = [Point(**{f: p[f] for f in fields}, levels=tuple(p["levels"])) for p in kept]
    truth = times_by_threads(points)
    judge = Player(truth)
    rows = []
    for label, arrivals in scenarios(truth).items():
        question = Question(read_scenario(arrivals), Choices(SIZES, THREADS, (0.0,)))
        plan = Points([1] if label == "single-stream" else SIZES, THREADS)
        few = measure_points(Recorded(points), plan, lambda times, q=question: wanted(q, times))
        rows.append({"network": name, "scenario": label, "arrivals": arrivals,
                     **judged(question, few, truth, judge)})  # fmt: skip
    return rows


def wanted(question, times):
    return wanted_points(question, times, 0)


def judged(question, measured, truth, judge):
    """Return how much worse the choice is than the best of all settings, by all batch times."""
    times = measured.times
    chosen = choose(question, times, Player(times, n_arrivals=50_000)).chosen

    def value(setting):
        figures = judge(setting, question.scenario, sureness=0.0, is_rough=True)
        if question.scenario.name == OFFLINE:
            return 1 / figures.per_s
        return goal_value(question.goal, figures)

    batches = [1] if question.scenario.name == "single-stream" else SIZES
    if question.scenario.name == "multi-stream":
        batches = [b for b in SIZES if b <= BURST]
    # The fewest cores come first, so that the choice competes with settings on as many.
    rivals = [Setting(b, 0.0, t, chosen.replicas) for b in batches for t in THREADS]
    if question.scenario.name not in ("offline", "single-stream"):
        rivals = [r for r in rivals if r.cores == chosen.cores]
    if question.scenario.rate_per_s:
        rate = question.scenario.rate_per_s / chosen.replicas
        rivals = [r for r in rivals if rate < 0.97 * truth[r.threads].per_s(r.batch)]
    values = {r: value(r) for r in rivals}
    best = min(values, key=lambda r: values[r])
    return {
        "chosen": chosen.to_json(), "best": best.to_json(),
        "regret": value(chosen) / values[best] - 1,
        "n_measured": len(measured.points), "n_grid": measured.n_grid,
    }  # fmt: skip


# Predictions beside a real server


def batch_times(name, cap, threads=1):
    """Measure some batch times, as `foretell deploy` does."""
    sizes = list(range(1, cap + 1))
    with Stopwatch(network_of(name), threads, Effort(), None) as stopwatch:
        plan = Points(sizes, [threads])
        spots = [(threads, s) for s in sizes if s & (s - 1) == 0]
        return measure_points(stopwatch, plan, lambda _: spots).times


def overhead(server, times):
    """Return what the server adds to a batch of one."""
    alone = server.latencies(None, N_ALONE)[40:]
    # The quietest of some stretches, as times of batches are those of quiet rounds.
    quiet = min(np.median(part) for part in np.array_split(alone, 5))
    return max(0.0, float(quiet - times[1].median_s(1).item()))


def quiet_latencies(server, rate, n, seed):
    """Return latencies of a run in which other programs used little, that, and its first request.

    Where they never do, it is the run in which they used least.
    """
    tries = []
    for _ in range(MOST_TRIES):
        first = server.n_sent
        with CoresOfOthers(0.1) as others:
            found = server.latencies(rate, n, seed=seed)
        tries.append((others.cores, first, found))
        if others.cores <= MOST_OF_OTHERS:
            break
    return min(tries, key=lambda each: each[0])


def served(name):
    """Compare latencies at several loads."""
    network = network_of(name)
    times = batch_times(name, 32)
    server = start_server(network.build, network.shape, Serving(CAP), dict(network.arguments))
    rows = []
    try:
        over = overhead(server, times)
        capacity = times[1].per_s(CAP, over)
        player = Player(times, over)
        for k, load in enumerate(LOADS):
            rate = load * capacity
            scenario = read_scenario(f"poisson:{rate:.6g}/s")
            figures = player(Setting(CAP, 0.0, 1), scenario, sureness=0.0, is_rough=False)
            others, first, found = quiet_latencies(server, rate, N_REQUESTS, k)
            rows.append({
                "network": name, "load": load, "per_s": rate, "n": len(found),
                "first": first, "cores_of_others": round(others, 2),
                "mean_s": float(found.mean()), "p99_s": float(np.quantile(found, 0.99)),
                "p99_90_s": list(p99_interval(found)),
                "predicted_mean_s": figures.mean_s, "predicted_p99_s": figures.p99_s,
                "overhead_s": over,
            })  # fmt: skip
            say("  ", row_text(rows[-1]))
    finally:
        sizes, spans = server.close()
    add_own(rows, sizes, spans)
    return rows, [p.to_json() for p in times[1].points]


def add_own(rows, sizes, spans):
    """Predict each run once more, with the batch times of that very run.

    What is then still off is the fault of the simulation; the rest is that batches took more or
    less time than when they were measured.
    """
    ends = np.cumsum(sizes)
    for row in rows:
        first = row.pop("first")
        of_run = (ends > first) & (ends <= first + row["n"])
        own = own_times(sizes[of_run], spans[of_run])
        scenario = read_scenario(f"poisson:{row['per_s']:.6g}/s")
        figures = Player({1: own})(Setting(CAP, 0.0, 1), scenario, sureness=0.0, is_rough=False)
        row |= {"own_mean_s": figures.mean_s, "own_p99_s": figures.p99_s}
        say(
            f"  {row['network']} load {row['load']}, with its own batch times:",
            f"mean {100 * (figures.mean_s / row['mean_s'] - 1):+.1f} %,",
            f"p99 {100 * (figures.p99_s / row['p99_s'] - 1):+.1f} %",
        )


def own_times(sizes, spans):
    """Return the times of batches as a server had them."""
    points = []
    for size in np.unique(sizes):
        own = np.sort(spans[sizes == size])
        if len(own) >= LEAST_OWN or size == 1:
            median = float(np.median(own))
            points.append(Point(1, int(size), median, tuple(own / median), 0.0, 1.0, len(own)))
    return BatchTimes(points)


def p99_interval(latencies):
    """Return the ends of a 90 % interval of the p99, from blocks of requests in their order."""
    random = np.random.default_rng(0)
    blocks = np.array_split(latencies, 25)
    drawn = [
        np.quantile(np.concatenate([blocks[i] for i in random.integers(0, 25, 25)]), 0.99)
        for _ in range(200)
    ]
    return np.quantile(drawn, [0.05, 0.95]).tolist()


def row_text(row):
    mean = row["predicted_mean_s"] / row["mean_s"] - 1
    p99 = row["predicted_p99_s"] / row["p99_s"] - 1
    return (
        f"{row['network']} load {row['load']}: {row['per_s']:.0f}/s, "
        f"mean {1e3 * row['mean_s']:.2f} ms ({100 * mean:+.1f} %), "
        f"p99 {1e3 * row['p99_s']:.2f} ms ({100 * p99:+.1f} %), "
        f"others {row['cores_of_others']} cores"
    )


# How often limits are kept


def limits(name):
    """Ask for advice, follow it, and count the runs in which the limit held; beside other rules."""
    network = network_of(name)
    times = batch_times(name, 32)
    server = start_server(network.build, network.shape, Serving(1), dict(network.arguments))
    try:
        over = overhead(server, times)
    finally:
        server.close()
    alone = float(times[1].mean_s(1).item()) + over
    rate, limit = 0.8 / alone, 4 * alone
    question = Question(
        read_scenario(f"poisson:{rate:.6g}/s"),
        Choices((1, 2, 4, 8, 16, 32), (1,)),
        limit,
        most_replicas=1,
        overhead_s=over,
    )
    try:
        choice = choose(question, times, Player(times, over))
    except NothingUsableError:  # then a limit that can be kept
        question = replace(question, limit_s=8 * alone)
        choice = choose(question, times, Player(times, over))
    limit, chosen = question.limit_s, choice.chosen
    rules = {
        "advice": Serving(chosen.batch, chosen.wait_s),
        "batch 1": Serving(1),
        "batch 32, wait of half the limit": Serving(32, limit / 2),
        "adaptive (as Clipper)": Serving(32, 0.0, 1, limit),
    }
    rows = []
    for rule, serving in rules.items():
        server = start_server(network.build, network.shape, serving, dict(network.arguments))
        n_windows = N_WINDOWS if rule == "advice" else N_OF_OTHERS
        try:
            runs = [quiet_latencies(server, rate, LEAST_REQUESTS, k) for k in range(n_windows)]
        finally:
            sizes, _ = server.close()
        found = [latencies for _, _, latencies in runs]
        p99s = [float(np.quantile(x, 0.99)) for x in found]
        row = {
            "network": name, "rule": rule, "per_s": rate, "limit_s": limit,
            "setting": {"batch": serving.batch, "wait_s": serving.wait_s},
            "n_runs": n_windows, "n_kept": sum(p <= limit for p in p99s), "p99s": p99s,
            "mean_s": float(np.mean(np.concatenate(found))),
            "p99_s": float(np.quantile(np.concatenate(found), 0.99)),
            "mean_batch": float(np.mean(sizes)),
            "cores_of_others": round(max(others for others, _, _ in runs), 2),
            "predicted_p99_s": choice.figures.p99_s if rule == "advice" else None,
            "predicted_mean_s": choice.figures.mean_s if rule == "advice" else None,
        }  # fmt: skip
        say(f"  {name}, {rule}: {row['n_kept']} of {n_windows} runs keep {1e3 * limit:.1f} ms, "
            f"p99 {1e3 * row['p99_s']:.1f} ms, mean {1e3 * row['mean_s']:.1f} ms")  # fmt: skip
        rows.append(row)
    return rows


PARTS = ("server", "limits", "grid")
AGAIN = "regret"  # chooses again by the points of the file, and measures nothing


def run(part, found, keep):
    """Run one part, and put its figures into the dict; keep it after each network."""
    if part in ("grid", AGAIN):
        kept = found["points"] if part == AGAIN else {}
        found["points"], found["regret"] = kept, []
        for name in list(kept) or NETWORKS:
            if name not in kept:
                kept[name] = measured_grid(name)
            found["regret"] += regrets(name, kept[name])
            keep()
        for row in found["regret"]:
            say(f"  {row['network']}, {row['scenario']}: regret {100 * row['regret']:.1f} %,",
                f"{row['n_measured']} of {row['n_grid']} measured")  # fmt: skip
    elif part == "server":
        found["server"], found["server_points"] = [], {}
        for name in SERVED:
            rows, points = served(name)
            found["server"] += rows
            found["server_points"][name] = points
            keep()
    else:
        found["limits"] = []
        for name in SERVED:
            found["limits"] += limits(name)
            keep()


def summary(found):
    """Say what of the bars holds."""
    if "regret" in found:
        regrets = [row["regret"] for row in found["regret"]]
        shares = [row["n_measured"] / row["n_grid"] for row in found["regret"]
                  if row["scenario"] != "single-stream"]  # fmt: skip
        say(f"regret: median {100 * np.median(regrets):.1f} %, worst {100 * max(regrets):.1f} % "
            f"(bar 3 %), with at most {100 * max(shares):.0f} % measured (bar 25 %)")  # fmt: skip
    if "server" in found:
        for figure, bar in (("mean", 8), ("p99", 15)):
            errors = [
                abs(r[f"predicted_{figure}_s"] / r[f"{figure}_s"] - 1) for r in found["server"]
            ]
            say(f"{figure}: median error {100 * np.median(errors):.1f} %, worst "
                f"{100 * max(errors):.1f} % (bar {bar} %)")  # fmt: skip
    if "limits" in found:
        own = [r for r in found["limits"] if r["rule"] == "advice"]
        kept, n = sum(r["n_kept"] for r in own), sum(r["n_runs"] for r in own)
        say(f"limits kept: {kept} of {n} runs (bar 95 %)")


def about(found, part, seconds, load_before):
    """Note when and on what machine a part was measured."""
    found.setdefault("about", {})[part] = {
        "machine": describe_machine(), "versions": describe_versions(),
        "at": time.strftime("%Y-%m-%dT%H:%M", time.gmtime()), "load_before": load_before,
        "seconds": seconds,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, AGAIN, []], default=[])
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    found = {}
    if given.output is not None and given.output.exists():
        found = json.loads(given.output.read_text())
    for part in given.parts or PARTS:
        started, before = time.monotonic(), os.getloadavg()[0]
        say(f"{part}:")

        def keep(part=part, started=started, before=before):
            if part != AGAIN:
                about(found, part, time.monotonic() - started, before)
            if given.output is not None:
                given.output.write_text(json.dumps(found, indent=1) + "\n")

        run(part, found, keep)
    summary(found)


if __name__ == "__main__":
    sys.exit(main())
