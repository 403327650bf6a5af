"""Profiles and predictions of co-runs for people: when each job ends, and what they wait for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from foretell.decide.corun.jobs import CPU, DISK
from foretell.errors import listing
from foretell.wording import counted, number, rough_percent

if TYPE_CHECKING:
    from foretell.corun.predict import JobEnd, Together
    from foretell.corun.profile import Profile

_MIB = 2.0**20
_MOST_LINES = 8
_SAME = 0.01  # relative difference that is not worth a word


def time_text(seconds: float) -> str:
    """Write a time in the unit that suits it.

    >>> time_text(4.26), time_text(41.2), time_text(85.0), time_text(4000.0)
    ('4.3 s', '41 s', '1 m 25 s', '1 h 7 m')
    """
    if not math.isfinite(seconds):
        return "no end"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} m"


def profile_text(profile: Profile) -> str:
    """Write what a job needs, phase by phase."""
    needs = profile.needs(profile.facts.n_usable)
    length = "without end, stopped" if profile.is_endless else "alone"
    lines = [
        f"{profile.name}: {time_text(profile.wall_s)} {length}, up to "
        f"{number(profile.memory_bytes / _MIB, 3)} MiB of memory; "
        f"{counted(len(profile.trace), 'sample')}, {counted(len(needs.phases), 'phase')}"
    ]
    rows = [("from", "takes", "cores", "threads", "disk busy")]
    now = 0.0
    for phase in needs.phases:
        rows.append(
            (
                time_text(now), time_text(phase.seconds), f"{phase.needs[CPU]:.2f}",
                f"{phase.threads:.1f}", rough_percent(phase.needs[DISK]),
            )
        )  # fmt: skip
        now += phase.seconds
    lines += ["".join(f"{cell:>11}" for cell in row) for row in rows]
    if profile.bandwidth > 0:
        lines.append(
            f"memory bandwidth: {number(profile.bandwidth / 1e9, 3)} GB/s per busy core, inferred "
            "from a bubble"
        )
    return "\n".join(lines)


def together_text(found: Together) -> str:
    """Write when each job ends, what they wait for, and what else could be done."""
    width = max(4, *(len(job.name) for job in found.jobs))
    header = f"{'job':{width}}{'starts':>10}{'ends':>10}{'90 % interval':>22}{'alone':>10}"
    lines = [f"{header}{'slower':>9}{'in turn':>10}"]
    for job in found.jobs:
        interval = _interval(job) if found.calibration is not None else "–"
        slower = "–" if math.isinf(job.end_s) else f"{job.slowdown:.2f}×"
        lines.append(
            f"{job.name:{width}}{time_text(job.start_s):>10}{time_text(job.end_s):>10}"
            f"{interval:>22}{time_text(job.alone_s):>10}{slower:>9}{time_text(job.in_turn_s):>10}"
        )
    lines += [*_layout_lines(found), *_contended_lines(found), _turn_line(found)]
    return "\n".join(filter(None, lines))


def _layout_lines(found: Together) -> list[str]:
    """Say which CPUs jobs are pinned to, as ``taskset`` takes them."""
    places = [
        f"taskset -c {','.join(map(str, job.cpus))} for {job.name}"
        for job in found.jobs
        if job.cpus
    ]
    return [f"This layout is: {', '.join(places)}."] if places else []


def _interval(job: JobEnd) -> str:
    if math.isinf(job.end_s):
        return "–"
    return f"{time_text(job.lower_s)} – {time_text(job.upper_s)}"


def _contended_lines(found: Together) -> list[str]:
    if not found.contended:
        return [] if len(found.jobs) == 1 else ["They do not get in each other's way."]
    lines = []
    for resource, start, end, names in found.contended[:_MOST_LINES]:
        who = ", ".join(names)
        verb = "waits" if len(names) == 1 else "wait"
        lines.append(f"{who} {verb} for {resource} from {time_text(start)} to {time_text(end)}.")
    if len(found.contended) > _MOST_LINES:
        lines.append(f"... and {len(found.contended) - _MOST_LINES} more such times.")
    return lines


def _turn_line(found: Together) -> str:
    """Say whether running one after the other would be better, and by what."""
    with_end = [job for job in found.jobs if math.isfinite(job.end_s)]
    if len(with_end) < 2:
        return "One job alone has nothing to wait for." if len(found.jobs) == 1 else ""
    last, in_turn = found.last_end_s, max(job.in_turn_s for job in with_end)
    mean = sum(job.end_s for job in with_end) / len(with_end)
    mean_in_turn = sum(job.in_turn_s for job in with_end) / len(with_end)
    endless = [job.name for job in found.jobs if not math.isfinite(job.end_s)]
    without = f" without {listing(endless)}" if endless else ""
    text = (
        f"Together all is done at {time_text(last)}, one after the other{without} at "
        f"{time_text(in_turn)}"
    )
    if last < (1 - _SAME) * in_turn:
        sooner = f"; together saves {time_text(in_turn - last)}"
        if mean_in_turn < (1 - _SAME) * mean:
            return (
                f"{text}{sooner}, but one after the other jobs end {time_text(mean - mean_in_turn)}"
                " sooner on average."
            )
        return f"{text}{sooner}."
    if mean_in_turn < (1 - _SAME) * mean:
        return (
            f"{text}: that is better, as jobs end {time_text(mean - mean_in_turn)} sooner on "
            "average."
        )
    return f"{text}: it makes no difference."
