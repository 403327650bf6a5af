"""What a search found, for people: the model, its deployment, the front, and what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foretell.decide.deployment.wording import time_text
from foretell.tune.onefold.found import Found
from foretell.tune.onefold.goal import Goal, ms
from foretell.tune.onefold.inference import Inference
from foretell.tune.onefold.trials import FAILED, KEPT, SPENT, Trial, settings_text
from foretell.wording import counted, number, percent, rough_percent

_MOST_FRONT = 6
_MOST_FAILED = 3


def found_text(found: Found) -> str:
    """Write what was found and why, or why nothing was."""
    lines = _best(found) if found.best is not None else _none(found)
    lines += _front(found)
    lines += [_tried(found)]
    lines += [f"  {trial}" for trial in found.failed[:_MOST_FAILED]]
    return "\n".join([*lines, *found.notes])


def _best(found: Found) -> list[str]:
    best = found.best
    assert best is not None
    lines = [f"Train with {settings_text(best.config)}: {_trained(best)}."]
    if best.inference is not None:
        lines.append(f"Serve it with {served(best.inference, found.goal)}.")
    return lines


def _none(found: Found) -> list[str]:
    if found.closest is None:
        return [f"No trial keeps all limits: {_limits(found.goal)}."]
    closest = found.closest
    lacks = found.goal.violations(closest.accuracy, closest.inference)
    broken = "; ".join(lacks) or closest.why
    return [
        f"No trial keeps all limits: {_limits(found.goal)}.",
        f"The closest: {settings_text(closest.config)}: {_trained(closest)}; {broken}.",
    ]


def _limits(goal: Goal) -> str:
    limits = []
    if goal.accuracy is not None:
        limits.append(f"accuracy at least {percent(goal.accuracy)}")
    if goal.p99_s is not None:
        limits.append(f"p99 at most {ms(goal.p99_s)}")
    return ", ".join(limits) or "there are none"


def _trained(trial: Trial) -> str:
    epochs = sum(rung.epochs for rung in trial.rungs)
    last = trial.rungs[-1]
    return (
        f"{percent(trial.accuracy)} accurate after {number(trial.train_s, 3)} s of training "
        f"({counted(epochs, 'epoch')}, the last on {rough_percent(last.share)} of the data)"
    )


def served(inference: Inference, goal: Goal) -> str:
    """Write how a network is served, and what that gives.

    >>> served(Inference(0.002, 0.005, 900.0, batch=8, threads=1), Goal("ratio", p99_s=0.01))
    'batches up to 8, 1 thread, 1 replica: p99 5 ms (limit 10 ms), mean 2 ms, 900/s (measured)'
    """
    how = [] if inference.batch is None else [f"batches up to {inference.batch}"]
    how += [f"a wait of at most {time_text(inference.wait_s)}"] if inference.wait_s else []
    how += [] if inference.threads is None else [counted(inference.threads, "thread")]
    how += [counted(inference.replicas, "replica")]
    limit = "" if goal.p99_s is None else f" (limit {ms(goal.p99_s)})"
    gives = [f"p99 {ms(inference.p99_s)}{limit}", f"mean {ms(inference.mean_s)}"]
    gives += [] if inference.throughput is None else [f"{number(inference.throughput, 3)}/s"]
    return f"{', '.join(how)}: {', '.join(gives)} ({inference.label})"


def _front(found: Found) -> list[str]:
    front = found.front
    if len(front) < 2:
        return []
    has_p99 = any(trial.inference is not None for trial in front)
    rows = [["trial", "training", "accuracy", *(["p99"] if has_p99 else []), "settings"]]
    for trial in front[:_MOST_FRONT]:
        p99 = [ms(None if trial.inference is None else trial.inference.p99_s)] if has_p99 else []
        spent = f"{number(trial.train_s, 3)} s"
        settings = settings_text(trial.config)
        rows.append([str(trial.number), spent, percent(trial.accuracy), *p99, settings])
    more = len(front) - _MOST_FRONT
    tail = [f"and {more} more"] if more > 0 else []
    return ["Within the limits, and not beaten in all at once:", *_aligned(rows), *tail]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join([*(c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in rows
    ]


def _tried(found: Found) -> str:
    ended = Counter(_ending(trial) for trial in found.trials)
    parts = ", ".join(f"{n} {words}" for words, n in ended.most_common())
    trained_s = sum(trial.train_s for trial in found.trials)
    return (
        f"{counted(len(found.trials), 'trial')}, {number(trained_s, 3)} s of training: {parts}. "
        "Times and accuracies are measured."
    )


def _ending(trial: Trial) -> str:
    if trial.status in (KEPT, FAILED):
        return {KEPT: "within all limits", FAILED: "failed"}[trial.status]
    if trial.status == SPENT:
        return "below the target with all of their budget"
    if not trial.rungs:
        return "over the latency limit before any training"
    if trial.why.startswith("p99"):
        return "over the latency limit"
    return "stopped early"
