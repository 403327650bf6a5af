"""How good advice on serving is: regret on a measured grid, and predictions beside a real server.

  python -m benchmarks.deploy [server] [limits] [grid] [regret] [-o examples/serving/measured.json]

*server*: latencies of a real HTTP server on the loopback interface under Poisson load, beside
predictions. *limits*: how often the advice keeps its limit, beside a batch of 1, the largest batch
with a wait, and batches that adapt to the limit. *grid*: all batch times of three networks.
*regret*: choices by a quarter of those are judged by all; it measures nothing.

The machine should do nothing else; a part takes up to four minutes for each network
(``--network``). Runs on the server in which other programs or other machines of the host took more
than a tenth of a core are repeated, and the quietest counts. The file is written after each
network, and what it has is not measured again, unless with ``--again``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.batch_server import LARGEST, ROOT, Serving, start_server
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
from foretell.simulate.batching import play_runs

NETWORKS = {
    "LeNet": ("lenet", (1, 28, 28), {}),
    "convolutions": ("convolutions", (1, 28, 28), {"width": 64}),
    "recurrent": ("recurrent", (1, 28, 28), {}),
    "wide": ("wide", (784,), {"width": 3072}),
}
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32)
THREADS = (1, 2)
#: Samples that come together in the scenario multi-stream.
BURST = 12
EFFORT = Effort(3, 0.1, 24, 0.6)
#: Networks on the real server, which answer so slowly that what Python takes for a request is small
#: beside it. The wide one reads its weights from memory, which other machines of the host share.
SERVED = ("convolutions", "recurrent")
LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: Windows of each load and their seconds: a p99 of few requests is off by more than the bar. Batch
#: times are measured right before each window, as the speed of a machine changes from minute to
#: minute.
N_WINDOWS, WINDOW_S, CAP = 4, 10.0, 8
#: How often advice is asked for, right before as many runs; and the runs of other rules. In each
#: run twice as many requests are sent as LoadGen needs at least to tell a p99, so that a single
#: pause of the machine seldom decides it.
N_ADVICES, N_EACH, N_OF_OTHERS, N_REQUESTS = 4, 5, 3, 2 * 662
#: The rate of those runs, of what batches of the cap could serve.
RATE_SHARE = 0.6
#: The limits of those runs, as multiples of one request alone: the first that can be kept counts.
LIMITS = (4, 8, 16, 32)
#: Requests one after the other, some more with pauses between them, at so many per second, and
#: batches of one size that tell its time.
N_ALONE, N_PAUSES, PAUSED_PER_S, LEAST_OWN = 240, 60, 20.0, 5
#: Cores that other programs and the host may take in a run on the server, and how often it is
#: repeated if they take more.
MOST_OF_OTHERS, MOST_TRIES = 0.1, 2
#: Requests of each of five simulated runs: enough for the p99, and done in a second.
N_ARRIVALS = 40_000


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
        self.cache = SimpleNamespace(get=lambda threads, batch: None, add=lambda point: None)

    def point(self, threads, batch):
        return self._points[threads, batch]

    timed = point


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


def batch_times(name, threads=1):
    """Measure some batch times, as `foretell deploy` does."""
    sizes = list(range(1, LARGEST + 1))
    with Stopwatch(network_of(name), threads, Effort(), None) as stopwatch:
        plan = Points(sizes, [threads])
        spots = [(threads, s) for s in sizes if s & (s - 1) == 0]
        return measure_points(stopwatch, plan, lambda _: spots).times


def added_by(server, times):
    """Return what the server adds to a batch of one: always, and after it had nothing to do."""
    alone = float(np.median(server.latencies(None, N_ALONE)[40:]))
    rested = float(np.median(server.latencies(PAUSED_PER_S, N_PAUSES)))
    return max(0.0, alone - times[1].median_s(1).item()), max(0.0, rested - alone)


@dataclass(frozen=True)
class Run:
    """Latencies of one run, the number of its first request, and the cores that others took."""

    latencies: np.ndarray
    first: int
    others: float


def quiet_run(server, rate, n, seed):
    """Return a run in which other programs and the host took little, or the one with the least."""
    tries = []
    for _ in range(MOST_TRIES):
        first = server.n_sent
        with CoresOfOthers(0.1) as others:
            found = server.latencies(rate, n, seed=seed)
        tries.append(Run(found, first, others.cores + others.stolen))
        if tries[-1].others <= MOST_OF_OTHERS:
            break
    return min(tries, key=lambda run: run.others)


def foretold(times, added, rate, seed):
    """Return latencies of requests at a rate, simulated by the times of batches."""
    over, pause = added
    table = times[1].table(CAP, overhead_s=over)
    run = play_runs(table, rate_per_s=rate, pause_s=pause, n_arrivals=N_ARRIVALS, seed=seed)
    return run.latencies_s


def served(name):
    """Compare latencies at several loads."""
    network = network_of(name)
    times = batch_times(name)
    server = start_server(network.build, network.shape, Serving(CAP), dict(network.arguments))
    rows, points = [], []
    try:
        capacity = times[1].per_s(CAP, added_by(server, times)[0])
        for k, load in enumerate(LOADS):
            rate = load * capacity
            runs, said, added = [], [], []
            for seed in range(100 * k, 100 * k + N_WINDOWS):
                times = batch_times(name)
                points += [p.to_json() for p in times[1].points]
                added.append(added_by(server, times))
                said.append(foretold(times, added[-1], rate, seed))
                runs.append(quiet_run(server, rate, round(WINDOW_S * rate), seed))
            found, said = np.concatenate([run.latencies for run in runs]), np.concatenate(said)
            rows.append({
                "network": name, "load": load, "per_s": rate, "n": len(found),
                "firsts": [run.first for run in runs],
                "cores_of_others": round(float(np.mean([run.others for run in runs])), 2),
                "mean_s": float(found.mean()), "p99_s": float(np.quantile(found, 0.99)),
                "p99_90_s": list(p99_interval(found)),
                "predicted_mean_s": float(said.mean()),
                "predicted_p99_s": float(np.quantile(said, 0.99)),
                "overhead_s": float(np.mean([over for over, _ in added])),
                "pause_s": float(np.mean([pause for _, pause in added])),
            })  # fmt: skip
            say("  ", row_text(rows[-1]))
    finally:
        sizes, spans = server.close()
    add_own(rows, sizes, spans)
    return rows, points


def add_own(rows, sizes, spans):
    """Predict each run once more, with the batch times of that very run.

    What is then still off is the fault of the simulation; the rest is that batches took more or
    less time than when they were measured.
    """
    ends = np.cumsum(sizes)
    for row in rows:
        firsts = np.array(row.pop("firsts"))[:, None]
        of_run = ((ends > firsts) & (ends <= firsts + row["n"] // N_WINDOWS)).any(axis=0)
        own = own_times(sizes[of_run], spans[of_run])
        scenario = read_scenario(f"poisson:{row['per_s']:.6g}/s")
        player = Player({1: own}, n_arrivals=N_ARRIVALS)
        figures = player(Setting(CAP, 0.0, 1), scenario, sureness=0.0, is_rough=False)
        row |= {
            "own_mean_s": figures.mean_s, "own_p99_s": figures.p99_s,
            "own_points": [[p.batch, p.median_s, p.n_calls] for p in own.points],
        }  # fmt: skip
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


def advised(question, times):
    """Return the advice, for the tightest of some limits that can be kept if there is none yet."""
    player = Player(times, question.overhead_s, question.pause_s, n_arrivals=N_ARRIVALS)
    if question.limit_s is not None:
        return question, choose(question, times, player)
    alone = float(times[1].mean_s(1).item()) + question.overhead_s
    for factor in LIMITS:
        asked = replace(question, limit_s=factor * alone)
        with contextlib.suppress(NothingUsableError):
            return asked, choose(asked, times, player)
    raise AssertionError("a limit of 32 times one batch cannot be kept")


def runs_of(network, serving, rate, seeds):
    """Serve one run for each seed; return them and the sizes of all batches."""
    server = start_server(network.build, network.shape, serving, dict(network.arguments))
    try:
        return [quiet_run(server, rate, N_REQUESTS, seed) for seed in seeds], server.close()[0]
    finally:
        server.process.kill()


def limits(name):
    """Ask for advice, follow it, and count the runs in which the limit held; beside other rules."""
    network = network_of(name)
    times = batch_times(name)
    server = start_server(network.build, network.shape, Serving(1), dict(network.arguments))
    try:
        over, pause = added_by(server, times)
    finally:
        server.close()
    rate = RATE_SHARE * times[1].per_s(CAP, over)
    question = Question(
        read_scenario(f"poisson:{rate:.6g}/s"),
        Choices((1, 2, 4, 8, 16, 32), (1,)),
        most_replicas=1,
        overhead_s=over,
        pause_s=pause,
    )
    question, choice = advised(question, times)
    rows = []
    for k in range(N_ADVICES):
        if k:
            try:
                question, choice = advised(question, batch_times(name))
            except NothingUsableError as error:  # then nothing is promised, and nothing broken
                say(f"  {name}, advice: {error}")
                continue
        serving = Serving(choice.chosen.batch, choice.chosen.wait_s)
        seeds = range(N_EACH * k, N_EACH * (k + 1))
        runs, sizes = runs_of(network, serving, rate, seeds)
        rows.append({
            **limit_row(name, "advice", question, serving, runs, sizes),
            "predicted_p99_s": choice.figures.p99_s, "predicted_mean_s": choice.figures.mean_s,
        })  # fmt: skip
    others = {
        "batch 1": Serving(1),
        "batch 32, wait of half the limit": Serving(32, question.limit_s / 2),
        "adaptive (as Clipper)": Serving(32, 0.0, 1, question.limit_s),
    }
    for rule, serving in others.items():
        runs, sizes = runs_of(network, serving, rate, range(N_OF_OTHERS))
        rows.append(limit_row(name, rule, question, serving, runs, sizes))
    return rows


def limit_row(name, rule, question, serving, runs, sizes):
    """Return how often a rule kept the limit, and how."""
    found = [run.latencies for run in runs]
    p99s = [float(np.quantile(x, 0.99)) for x in found]
    row = {
        "network": name, "rule": rule, "per_s": question.scenario.rate_per_s,
        "limit_s": question.limit_s,
        "setting": {"batch": serving.batch, "wait_s": serving.wait_s},
        "n_requests": N_REQUESTS, "n_runs": len(runs),
        "n_kept": sum(p <= question.limit_s for p in p99s), "p99s": p99s,
        "mean_s": float(np.mean(np.concatenate(found))),
        "p99_s": float(np.quantile(np.concatenate(found), 0.99)),
        "mean_batch": float(np.mean(sizes)),
        "cores_of_others": round(float(np.mean([run.others for run in runs])), 2),
    }  # fmt: skip
    say(f"  {name}, {rule}, {serving.batch}, {1e3 * serving.wait_s:.1f} ms: {row['n_kept']} of "
        f"{len(runs)} runs keep {1e3 * question.limit_s:.1f} ms, p99 {1e3 * row['p99_s']:.1f} ms, "
        f"mean {1e3 * row['mean_s']:.1f} ms")  # fmt: skip
    return row


PARTS = ("server", "limits", "grid")
JUDGED = "regret"


def measure(part, name, found):
    """Measure one part of one network, and put its figures into the dict."""
    if part == "grid":
        found.setdefault("points", {})[name] = measured_grid(name)
    elif part == "server":
        rows, points = served(name)
        found.setdefault("server_points", {})[name] = points
        replace_rows(found, part, name, rows)
    else:
        replace_rows(found, part, name, limits(name))


def replace_rows(found, part, name, rows):
    """Put rows of a network in place of those it had."""
    found[part] = [row for row in found.get(part, []) if row["network"] != name] + rows


def summary(found):
    """Say what of the bars holds."""
    if "regret" in found:
        for row in found["regret"]:
            say(f"{row['network']}, {row['scenario']}: regret {100 * row['regret']:.1f} %,",
                f"{row['n_measured']} of {row['n_grid']} measured")  # fmt: skip
        worse = [row["regret"] for row in found["regret"]]
        shares = [row["n_measured"] / row["n_grid"] for row in found["regret"]
                  if row["scenario"] != "single-stream"]  # fmt: skip
        say(f"regret: median {100 * np.median(worse):.1f} %, worst {100 * max(worse):.1f} % "
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


def about(seconds, load_before):
    """Note when and on what machine something was measured."""
    return {
        "machine": describe_machine(), "versions": describe_versions(),
        "at": time.strftime("%Y-%m-%dT%H:%M", time.gmtime()), "load_before": load_before,
        "seconds": seconds,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, JUDGED, []], default=[])
    parser.add_argument("--network", action="append", choices=list(NETWORKS))
    parser.add_argument("--again", action="store_true", help="also what the file has")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    found = {}
    if given.output is not None and given.output.exists():
        found = json.loads(given.output.read_text())

    def keep():
        if given.output is not None:
            given.output.write_text(json.dumps(found, indent=1) + "\n")

    for part in given.parts or [*PARTS, JUDGED]:
        if part == JUDGED:
            for name, points in found["points"].items():
                replace_rows(found, JUDGED, name, regrets(name, points))
            keep()
            continue
        known = found.setdefault("about", {}).setdefault(part, {})
        for name in NETWORKS if part == "grid" else SERVED:
            if name not in (given.network or NETWORKS) or (name in known and not given.again):
                continue
            say(f"{part}, {name}:")
            started, before = time.monotonic(), os.getloadavg()[0]
            measure(part, name, found)
            known[name] = about(time.monotonic() - started, before)
            keep()
    summary(found)


if __name__ == "__main__":
    sys.exit(main())
