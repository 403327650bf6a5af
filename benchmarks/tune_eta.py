"""How true predictions of searches are: before the first trial, after a tenth, and their intervals.

    python -m benchmarks.tune_eta [--simulated 100] [FILE ...]

Judges recorded searches (`benchmarks.tune_searches`; measured), by default those in
`benchmarks/data/searches.jsonl.gz`, or searches that are made up (simulated), for which the truth
is known. Beside it stands what extrapolating the mean trial says, and what is said with a model of
the search's own epochs, all of them. Nobody has those before; what is still off then is chance:
which configurations are drawn, and which trials go on.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tune_searches import SPACES
from foretell.decide.tuning.epoch_times import EpochTimes, epochs_of
from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.search import Search
from foretell.decide.tuning.space import Space, read_space
from foretell.simulate.search import DrawnTrials
from foretell.tune.draws import Pool, Range90, play_draws, spread_over
from foretell.tune.time_left import TimeLeft

DATA = Path(__file__).parent / "data" / "searches.jsonl.gz"
#: Ray Tune has drawn all trials before the first one runs, Optuna one after another.
RAYS = ("asha", "hyperband")
Record = dict[str, Any]
#: What a prediction rests on: a model of an earlier search, no model, or all epochs of this search.
MODEL, NOTHING, OWN = "a model", "nothing", "its own epochs"


def read_records(paths: Iterable[Path]) -> Iterator[Record]:
    for path in paths:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        yield from map(json.loads, text.splitlines())


def space_of(record: Record) -> Space:
    return read_space({"hyperparameters": SPACES[record["workload"]]})


def search_of(record: Record) -> Search:
    rules = Rules(record["max_epochs"], record["eta"])
    return Search(record["scheduler"], record["trials"], rules, record["slots"],
                  record["start_up_s"], record["study"])  # fmt: skip


def model_of(record: Record) -> EpochTimes:
    """Fit a model to the epochs of the earlier small search, as a user would."""
    from foretell.model.fit import fit_model

    frame = pd.DataFrame(record["before"])
    return epochs_of([fit_model(frame, target="epoch_s", skip=["lr"])], "the model")


def own_model_of(record: Record) -> EpochTimes:
    """Fit a model to all epochs of the search itself."""
    epochs = [e for e in record["events"] if e["event"] == "epoch"]
    return model_of({"before": [{**e["config"], "epoch_s": e["seconds"]} for e in epochs]})


def judge(
    record: Record, model: EpochTimes | None = None, shares: Sequence[float] = (0.1, 0.25, 0.5)
) -> list[dict[str, Any]]:
    """Return what was said of one search at several moments, and what was true."""
    models = {MODEL: model_of(record) if model is None else model, NOTHING: None}
    if model is None:
        models[OWN] = own_model_of(record)
    epoch_s = float(np.mean([e["epoch_s"] for e in record["before"]]))
    mean = record["trials"] * (record["start_up_s"] + record["max_epochs"] * epoch_s)
    rows = []
    for basis, known in models.items():
        if known is not None:
            rows.append(_row(record, basis, 0.0, _before(record, known), mean / record["slots"]))
        for share in shares:
            said, so_far = _after(record, share * record["total_s"], known)
            rows.append(_row(record, basis, share, said, so_far))
    return rows


def _before(record: Record, model: EpochTimes) -> tuple[float, float, float]:
    """Return what is predicted before the first trial.

    As predict_search does it, without what other searches would take.
    """
    search, space = search_of(record), space_of(record)
    played = play_draws(search, Pool.of(space, model, 0), spread_over(space, model, 0), 200, 0)
    time = Range90.of(played.end_s)
    return time.median_s, time.lower_s, time.upper_s


def _after(
    record: Record, now_s: float, model: EpochTimes | None
) -> tuple[tuple[float, float, float], float]:
    """Return the predicted whole time after some seconds, and that of the mean trial."""
    clock = [0.0]
    left = TimeLeft(search_of(record), space=space_of(record), model=model, clock=lambda: clock[0])
    ends = []
    if record["scheduler"] in RAYS:
        first = [e for e in record["events"] if e["event"] == "epoch" and e["epoch"] == 1]
        for event in sorted(first, key=lambda e: (len(e["trial"]), e["trial"])):
            left.planned(event["trial"], event["config"])
    for event in record["events"]:
        if event["at_s"] > now_s:
            break
        clock[0] = event["at_s"]
        if event["event"] == "epoch":
            left.epoch(event["trial"], event["epoch"], event["seconds"],
                       configuration=event["config"], value=event["value"])  # fmt: skip
        else:
            left.ended(event["trial"])
            ends.append(event["at_s"])
    clock[0] = now_s
    median, lower, upper = left.left()
    # With as many slots as trials run at once, the mean trial takes this much of the whole.
    mean = record["trials"] * now_s / len(ends) if ends else np.nan
    return (now_s + median, now_s + lower, now_s + upper), mean


def _row(
    record: Record, basis: str, share: float, said: tuple[float, float, float], mean: float
) -> dict[str, Any]:
    total_s = record["total_s"]
    median, lower, upper = said
    return {
        "library": record["library"], "scheduler": record["scheduler"],
        "workload": record["workload"], "seed": record["seed"], "trials": record["trials"],
        "after": share, "basis": basis,
        "total_s": total_s, "said_s": median, "lower_s": lower, "upper_s": upper,
        "error": abs(median / total_s - 1),
        "bias": median / total_s - 1, "covered": bool(lower <= total_s <= upper),
        "width": (upper - lower) / total_s, "mean_error": abs(mean / total_s - 1),
    }  # fmt: skip


# Made-up searches, of which the truth is known


class KnownTimes:
    """Epoch times by a law; predictions of it are off by a spread."""

    columns = ["hidden", "batch_size"]  # noqa: RUF012 - it is a property of a model

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def mean_s(self, frame: pd.DataFrame) -> np.ndarray:
        return 0.5 * (frame["hidden"] / 128) ** 0.7 * (frame["batch_size"] / 32) ** -0.6

    def quantiles(self, frame: pd.DataFrame, probabilities: Any) -> np.ndarray:
        from scipy.special import ndtri

        means = np.asarray(self.mean_s(frame))[:, None]
        return means * np.exp(self.spread * ndtri(np.array(probabilities)))[None, :]


def made_up(
    scheduler: str, seed: int, spread: float = 0.15, n_trials: int | None = None
) -> tuple[Record, KnownTimes]:
    """Make up a search: a model with an error, trials whose values go along with their times."""
    random = np.random.default_rng([seed, 7])
    slots, drawn = int(random.choice([1, 2, 4])), int(random.choice([24, 48]))
    n_trials = n_trials or drawn
    space = read_space({"hyperparameters": SPACES["mlp"]})
    frame = space.draw(n_trials, random)
    model = KnownTimes(spread)
    logs = np.log(np.asarray(model.mean_s(frame)))
    logs = logs + 0.7 * spread * random.standard_normal()
    logs = logs + 0.7 * spread * random.standard_normal(n_trials)
    along = random.uniform(-0.6, 0.6)
    scores = (logs - logs.mean()) / logs.std()
    quality = along * scores + np.sqrt(1 - along**2) * random.standard_normal(n_trials)
    start_up_s = float(random.choice([0.0, 0.5, 3.0]))
    record: Record = {
        "library": "made up", "scheduler": scheduler, "workload": "mlp", "seed": seed,
        "trials": n_trials, "max_epochs": int(random.choice([9, 27])), "eta": 3, "slots": slots,
        "start_up_s": start_up_s, "study": None,
        "before": [{"epoch_s": float(t)} for t in model.mean_s(frame)],
    }  # fmt: skip
    trials = DrawnTrials(np.exp(logs).tolist(), quality.tolist())
    configs = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    record["events"], record["total_s"] = _played(record, trials, configs, random)
    return record, model


def _played(
    record: Record, trials: DrawnTrials, configs: list[Any], random: np.random.Generator
) -> tuple[list[dict[str, Any]], float]:
    """Run a made-up search epoch by epoch, with noise, apart from the simulator that predicts."""
    scheduler = search_of(record).make(record["seed"])
    free = [0.0] * record["slots"]
    epochs = [0] * len(configs)
    events: list[dict[str, Any]] = []
    busy: list[tuple[float, int]] = []
    while True:
        while free and (trial := scheduler.next_trial()) is not None:
            at_s = free.pop(0) + record["start_up_s"] * np.exp(0.1 * random.standard_normal())
            busy.append((at_s + _epoch(trials, trial, random), trial))
        if not busy:
            return events, max(e["at_s"] for e in events)
        busy.sort()
        at_s, trial = busy.pop(0)
        until = scheduler.until(trial, epochs[trial])
        epochs[trial] += 1
        value = trials.value[trial]
        events.append({"at_s": at_s, "event": "epoch", "trial": str(trial), "value": value,
                       "epoch": epochs[trial], "seconds": trials.epoch_s[trial],
                       "config": configs[trial]})  # fmt: skip
        decision = "go on"
        if epochs[trial] >= until:
            decision = scheduler.reached(trial, epochs[trial], value)
        if decision == "go on":
            busy.append((at_s + _epoch(trials, trial, random), trial))
            continue
        free.append(at_s)
        if decision == "stop":
            events.append({"at_s": at_s, "event": "ended", "trial": str(trial)})


def _epoch(trials: DrawnTrials, trial: int, random: np.random.Generator) -> float:
    return float(trials.epoch_s[trial] * np.exp(0.05 * random.standard_normal()))


def summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return medians by moment and scheduler."""
    frame = pd.DataFrame(rows)
    frame["scheduler"] = frame["library"] + " " + frame["scheduler"]
    return pd.concat([_grouped(frame.assign(scheduler="all")), _grouped(frame)])


def _grouped(frame: pd.DataFrame) -> pd.DataFrame:
    groups = frame.groupby(["after", "basis", "scheduler"])
    return pd.DataFrame(
        {
            "n": groups.size(), "error": groups["error"].median(), "bias": groups["bias"].median(),
            "covered": groups["covered"].mean(), "width": groups["width"].median(),
            "mean trial": groups["mean_error"].median(),
        }
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--simulated", type=int, default=0)
    given = parser.parse_args()
    rows = []
    if given.simulated:
        for seed in range(given.simulated):
            for scheduler in ("random", "hyperband", "asha", "optuna-hyperband"):
                rows += judge(*made_up(scheduler, seed))
    else:
        for record in read_records(given.files or [DATA]):
            rows += judge(record)
    print(summary(rows).to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
