"""A deployment for people: what to set, what it comes to, and why others lose."""

from __future__ import annotations

from collections.abc import Callable

from foretell.decide.deployment.batch_times import BatchTimes
from foretell.decide.deployment.question import ENERGY, MOST_REPLICAS, goal_value
from foretell.decide.deployment.scenario import MULTI_STREAM, OFFLINE, SERVER
from foretell.decide.deployment.settings import Assessed, Setting
from foretell.decide.deployment.wording import rate_text, threads_text, time_text
from foretell.deploy.answer import Deployment
from foretell.errors import Option
from foretell.simulate.batching import N_ARRIVALS, N_RUNS
from foretell.wording import counted, number, rough_percent

_MOST_SHOWN = 7


def deployment_text(found: Deployment, write: Callable[[Option], str] = str) -> str:
    """Write the answer, with options as the reader writes them."""
    lines = [headline(found), *limits_lines(found), energy_line(found, write)]
    rows = other_rows(found)
    if rows:
        lines += ["Instead:", *_aligned(rows)]
    lines += ["Time of a batch:", *_aligned(time_rows(found)), source_line(found)]
    return "\n".join([*lines, *found.measured.notes])


def headline(found: Deployment) -> str:
    """Say what to set and what it comes to."""
    figures, name = found.figures, found.question.scenario.name
    if name == OFFLINE:
        told = f"{rate_text(figures.per_s)}, {time_text(figures.mean_s)} a batch"
        return f"{_setting_text(found, found.setting)}: {told}."
    low, high = found.choice.p99_s
    p99 = f"p99 {time_text(figures.p99_s)} ({_between(low, high)})"
    told = f"{p99}, mean {time_text(figures.mean_s)}"
    if name in (SERVER, MULTI_STREAM):
        told += f", {rough_percent(figures.busy)} busy"
    else:
        told += f", {rate_text(figures.per_s)}"
    return f"{_setting_text(found, found.setting)}: {told}."


def _setting_text(found: Deployment, setting: Setting) -> str:
    name = found.question.scenario.name
    threads = threads_text(setting.threads)
    if name == SERVER:
        parts = [
            f"Batch up to {setting.batch}" if setting.batch > 1 else "No batches",
            "no wait" if setting.wait_s == 0 else f"wait at most {time_text(setting.wait_s)}",
            threads,
            counted(setting.replicas, "replica"),
        ]
        return ", ".join(parts)
    batch = f"Batches of {setting.batch}" if setting.batch > 1 else "One sample at a time"
    parts = [batch, threads]
    if name == MULTI_STREAM:
        parts.append(counted(setting.replicas, "replica"))
    return ", ".join(parts)


def _between(low: float, high: float) -> str:
    first, last = time_text(low), time_text(high)
    if first.split()[-1] == last.split()[-1]:
        first = first.split()[0]
    return f"{first}–{last}"


def limits_lines(found: Deployment) -> list[str]:
    """Say how much load it bears, and what it serves."""
    holds, scenario = found.choice.holds_to_per_s, found.question.scenario
    if holds is None:
        return []
    replicas = found.setting.replicas
    mean = number(found.figures.mean_batch, 2)
    batch = "" if mean == "1" else f" Batches have {mean} samples on average."
    if found.question.limit_s is None:
        return [f"It keeps up with {rate_text(holds)}.{batch}"]
    limit = time_text(found.question.limit_s)
    return [
        f"It keeps a p99 of {limit} to {rate_text(holds)}; from there {replicas + 1} replicas."
        f"{batch}"
        if holds > scenario.rate_per_s
        else f"It keeps a p99 of {limit}, and bears no more than {rate_text(holds)}.{batch}"
    ]


def energy_line(found: Deployment, write: Callable[[Option], str]) -> str:
    """Say how much energy a sample takes, and where that figure comes from."""
    used = f"{time_text(found.figures.core_s)} of a core per sample"
    joules = found.joules
    if joules is None or found.power is None:
        given = write(Option("power", "20W,65W"))
        return f"Energy: {used}; in joules with the power of this machine: {given}."
    power = found.power
    return (
        f"Energy: {number(joules, 3)} J per sample, modelled: {used}, {power.idle_w:g} W idle to "
        f"{power.busy_w:g} W busy ({power.source})."
    )


def other_rows(found: Deployment) -> list[tuple[str, ...]]:
    """Return settings that differ in one respect, with what speaks against each."""
    shown = _telling(found)
    return [(_difference(found, one), _against(found, one)) for one in shown]


def _telling(found: Deployment) -> list[Assessed]:
    """Return, for each other value of one setting, the best with it."""
    chosen, goal = found.setting, found.question.goal
    groups: dict[tuple[str, float], list[Assessed]] = {}
    for one in found.choice.assessed:
        s = one.setting
        if s.threads != chosen.threads:
            groups.setdefault(("threads", s.threads), []).append(one)
        elif s.wait_s != chosen.wait_s and s.batch == chosen.batch:
            groups.setdefault(("wait", s.wait_s), []).append(one)
        elif s.batch != chosen.batch and s.wait_s == chosen.wait_s:
            groups.setdefault(("batch", s.batch), []).append(one)

    def rank(one: Assessed) -> tuple[bool, float]:
        value = float("inf") if one.figures is None else goal_value(goal, one.figures)
        return not one.is_kept, value

    if _counts_samples(found):
        best = [max(own, key=lambda a: a.figures.per_s if a.figures else 0.0)
                for own in groups.values()]  # fmt: skip
    else:
        best = [min(own, key=rank) for own in groups.values()]
    batches = [a for a in best if a.setting.threads == chosen.threads and
               a.setting.batch != chosen.batch]  # fmt: skip
    # The ends, and the neighbors of what was chosen, tell most.
    near = sorted(batches, key=lambda a: abs(a.setting.batch - chosen.batch))[:2]
    ends = [batches[0], batches[-1]] if batches else []
    waits = [a for a in best if a.setting.wait_s != chosen.wait_s
             and a.setting.threads == chosen.threads]  # fmt: skip
    threads = [a for a in best if a.setting.threads != chosen.threads]
    shown = {id(a): a for a in [*threads, *waits[:1], *waits[-1:], *ends, *near]}
    order = {id(a): k for k, a in enumerate(best)}
    return sorted(shown.values(), key=lambda a: order[id(a)])[:_MOST_SHOWN]


def _counts_samples(found: Deployment) -> bool:
    """Whether the most samples per second are the best."""
    return found.question.scenario.name == OFFLINE and found.question.goal != ENERGY


def _difference(found: Deployment, one: Assessed) -> str:
    setting, chosen = one.setting, found.setting
    if setting.threads != chosen.threads:
        told = f"{threads_text(setting.threads)}, batch {setting.batch}"
        if _is_hopeless(one):
            return told
        return f"{told}, {counted(setting.replicas, 'replica')}" if setting.replicas > 1 else told
    if setting.wait_s != chosen.wait_s:
        return f"wait {time_text(setting.wait_s)}"
    return f"batch {setting.batch}"


def _is_hopeless(one: Assessed) -> bool:
    """Whether it was tried with as many replicas as there may be, and does not keep the limit."""
    return not one.is_kept and one.setting.replicas >= MOST_REPLICAS


def _against(found: Deployment, one: Assessed) -> str:
    """Say why a setting was not chosen."""
    if _is_hopeless(one):
        return "no number of replicas keeps the limit"
    if one.trouble:
        return one.trouble
    figures, chosen = one.figures, _own(found)
    assert figures is not None
    is_crowded = found.question.scenario.name in (SERVER, MULTI_STREAM)
    if one.setting.cores != found.setting.cores and is_crowded:
        return f"{one.setting.cores} cores instead of {found.setting.cores}, p99 up to " + (
            time_text(figures.p99_s)
        )
    if chosen is None or chosen.figures is None:
        return f"p99 up to {time_text(figures.p99_s)}"
    if _counts_samples(found):
        change = figures.per_s / chosen.figures.per_s - 1
        return f"{100 * change:+.0f} %, at least {rate_text(figures.per_s)}"
    goal = found.question.goal
    change = goal_value(goal, figures) / goal_value(goal, chosen.figures) - 1
    if abs(change) < 0.01:
        return f"the same {goal} within 1 %, {_busy(found, one)}"
    return f"{goal} {100 * change:+.0f} %, {_busy(found, one)}"


def _busy(found: Deployment, one: Assessed) -> str:
    assert one.figures is not None
    if found.question.scenario.name == SERVER:
        return f"{rough_percent(one.figures.busy)} busy"
    if found.question.scenario.name == OFFLINE:
        return f"at least {rate_text(one.figures.per_s)}"
    return f"mean {time_text(one.figures.mean_s)}"


def _own(found: Deployment) -> Assessed | None:
    own = (a for a in found.choice.assessed if a.setting == found.setting)
    return next(own, None)


def time_rows(found: Deployment) -> list[tuple[str, ...]]:
    """Return measured times and the line through them, by threads."""
    return [
        (threads_text(threads), measured_text(times), line_text(times) + _pause_text(found, times))
        for threads, times in found.measured.times.items()
    ]


def _pause_text(found: Deployment, times: BatchTimes) -> str:
    """Write what a pause adds, where batches come after one and it is more than a little."""
    scenario, given_s = found.question.scenario.name, found.question.pause_s
    pause_s = times.pause_s if given_s is None else given_s
    if scenario not in (SERVER, MULTI_STREAM) or pause_s < 0.1 * times.points[0].median_s:
        return ""
    return f"; {time_text(pause_s)} more after a pause"


def measured_text(times: BatchTimes) -> str:
    """Write some of the measured times."""
    points = sorted(times.points, key=lambda p: p.batch)
    if len(points) > 4:
        points = [points[0], points[len(points) // 3], points[2 * len(points) // 3], points[-1]]
    return ", ".join(f"{p.batch}: {time_text(p.median_s)}" for p in points)


def line_text(times: BatchTimes) -> str:
    """Write the model of batch times."""
    if len(times.points) == 1:
        return ""
    bend = f", bent by {rough_percent(times.curvature)}" if len(times.points) > 2 else ""
    return f"about {time_text(times.fixed_s)} + {time_text(times.each_s)} per sample{bend}"


def source_line(found: Deployment) -> str:
    """Say what was measured, modelled and simulated."""
    measured = found.measured
    n = len(measured.points)
    cached = f", {measured.n_cached} of them before" if measured.n_cached else ""
    seconds = f" in {time_text(measured.seconds)}" if measured.n_cached < n else ""
    told = f"{n} of {measured.n_grid} batch times measured{seconds}{cached}"
    told += ", the others modelled" if n < measured.n_grid else ""
    if found.question.scenario.name != SERVER:
        return f"{told}."
    return f"{told}; latencies simulated ({N_RUNS} × {N_ARRIVALS:,} requests, seed {found.seed})."


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
