"""An impact for people: a line for each setting, then variance, workloads and tuning."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from foretell.decide.impact.question import HIGHER, LOWER
from foretell.decide.impact.ranges import MODELLED, NOISE, SettingImpact
from foretell.decide.impact.tunings import BASELINE, Tuning
from foretell.impact.result import Impact, OutcomeImpact
from foretell.sensitivity.shares import VarianceShares
from foretell.spaces.quantities import duration
from foretell.wording import counted, number, plain, rough_percent, short, with_unit

_MOST_PAIRS, _MOST_FRONT, _MOST_ROWS = 4, 8, 30
_METHODS = {
    "anova": "exact ANOVA of the runs, measured",
    "grid": "all combinations of measured levels, modelled",
    "sobol": "sampled combinations of measured levels, modelled",
    "mixed": "exact ANOVA where a workload has a full grid, modelled elsewhere",
}


def impact_text(found: Impact) -> str:
    """Write everything that was found, the answer first."""
    lines = [runs_line(found), better_line(found), "", *setting_lines(found)]
    lines += [line for o in found.outcomes for line in variance_lines(o)]
    if found.of().by_workload:
        lines += ["", *workload_lines(found)]
    if found.spreads:
        lines += ["", spread_line(found)]
    if found.tunings:
        lines += ["", *tuning_lines(found)]
    if len(found.front) > 1:
        lines += ["", *front_lines(found)]
    if found.notes:
        lines += ["", *found.notes]
    return "\n".join(lines)


def runs_line(found: Impact) -> str:
    """Say what was looked at."""
    if found.is_of_model:
        return f"{plain(found.source)}: predictions of {plain(found.asked.target)}, no runs"
    least, most = found.repeats
    repeats = (
        f"{least} to {most} runs of each" if least != most else f"{counted(most, 'run')} of each"
    )
    some = f", {len(found.workloads)} workloads" if found.of().by_workload else ""
    noise = found.of().noise
    spread = "" if noise is None else f"; noise {rough_percent(noise)}"
    runs, of = counted(found.n_runs, "run"), counted(found.n_configurations, "configuration")
    return f"{runs}, {of}{some}, {repeats}{spread}"


def better_line(found: Impact) -> str:
    """Say which is better of each result, and from which ranges on an impact counts."""
    parts = []
    for outcome in found.outcomes:
        side = LOWER if outcome.is_lower_better else HIGHER
        high, medium = (rough_percent(level) for level in outcome.levels)
        parts.append(
            f"{side} {plain(outcome.name)} is better (impact high from {high} on, medium from "
            f"{medium})"
        )
    line = "; ".join(parts)
    return f"{line[0].upper()}{line[1:]}."


def setting_lines(found: Impact) -> list[str]:
    """Write the impact of each setting, those with the largest range first."""
    return aligned([setting_header(found), *setting_rows(found)])


def setting_header(found: Impact) -> tuple[str, ...]:
    """Name the columns of the table of settings."""
    header = ["setting"]
    for outcome in found.outcomes:
        header += [plain(outcome.name), "range", "up to", "share"]
    return tuple(header)


def setting_rows(found: Impact) -> list[tuple[str, ...]]:
    """Write one row for each setting."""
    rows = []
    for name in ordered_settings(found):
        cells = [short(name, 28)]
        for outcome in found.outcomes:
            cells += _cells(outcome, name)
        rows.append(tuple(cells))
    return rows


def ordered_settings(found: Impact) -> list[str]:
    """List the settings, those with the largest impact on the target first."""
    impacts = found.of().impacts

    def key(name: str) -> tuple[bool, float]:
        own = impacts[name]
        return (own is None or own.level == NOISE, -(own.median if own is not None else 0.0))

    return sorted(found.settings, key=key)


def _cells(outcome: OutcomeImpact, name: str) -> list[str]:
    own = outcome.impacts[name]
    shares = {} if outcome.shares is None else outcome.shares.by_input()
    share = rough_percent(shares[name]) if name in shares else "–"
    if own is None:
        return ["–", "–", "–", share]
    return [own.level, range_text(own), rough_percent(own.largest), share]


def range_text(own: SettingImpact) -> str:
    """Write a range with its interval.

    >>> range_text(SettingImpact(0.38, 0.5, 0.34, 0.41, "high", 3, "repeats"))
    '38 % (34–41)'
    """
    mark = _mark(own)
    if not math.isfinite(own.lower):
        return f"{rough_percent(own.median)}{mark}"
    low, high = (_figure(end) for end in (own.lower, own.upper))
    return f"{rough_percent(own.median)} ({low}–{high}){mark}"


def _figure(share: float) -> str:
    return rough_percent(share).removesuffix(" %")


def variance_lines(outcome: OutcomeImpact) -> Iterator[str]:
    """Say what settings explain together, what noise does, and where shares come from."""
    if outcome.shares is not None:
        yield _shares_line(outcome.name, outcome.shares, outcome.far)
    each = [outcome.impacts, *outcome.by_workload.values()]
    if any(o is not None and o.label == MODELLED for impacts in each for o in impacts.values()):
        yield "Ranges marked ~ are modelled: predictions at measured configurations."


def _shares_line(name: str, shares: VarianceShares, share_far: float | None) -> str:
    together = sorted(shares.pairs.items(), key=lambda item: -item[1])
    shown = [
        f"{plain(a)} × {plain(b)} {rough_percent(share)}"
        for (a, b), share in together[:_MOST_PAIRS]
        if share >= 0.01
    ]
    told = f"interactions: {', '.join(shown)}" if shown else "no interactions of 1 % or more"
    noise = "" if shares.noise is None else f"; noise {rough_percent(shares.noise)}"
    far = ""
    if share_far is not None:
        far = f"; {rough_percent(share_far)} of the combinations lie far outside the data"
    return (
        f"Variance of {plain(name)}: {told}{noise} "
        f"({_METHODS.get(shares.method, shares.method)}{far})."
    )


def workload_lines(found: Impact) -> Iterator[str]:
    """Write the impact on the target in each workload."""
    outcome = found.of()
    yield f"Impact on {plain(outcome.name)} by {', '.join(map(plain, found.asked.by))}:"
    yield from aligned([workload_header(found), *workload_rows(found, outcome)])


def workload_header(found: Impact) -> tuple[str, ...]:
    """Name the columns of the table of workloads."""
    return ("setting", *(short(name, 20) for name in found.workloads))


def workload_rows(found: Impact, outcome: OutcomeImpact) -> list[tuple[str, ...]]:
    """Write one row for each setting, with its level and range in each workload."""
    return [
        (
            short(name, 28),
            *(_short_cell(outcome.by_workload[w].get(name)) for w in found.workloads),
        )
        for name in ordered_settings(found)
    ]


def _short_cell(own: SettingImpact | None) -> str:
    if own is None:
        return "–"
    return f"{own.level} {rough_percent(own.median)}{_mark(own)}"


def _mark(found: SettingImpact | Tuning) -> str:
    return " ~" if found.label == MODELLED else ""


def spread_line(found: Impact) -> str:
    """Say within which grouping results are alike."""
    parts = [
        f"{number(s.decades, 2)} within one {plain(s.column)}"
        if s.column is not None
        else f"{number(s.decades, 2)} over all runs"
        for s in found.spreads
    ]
    target = plain(found.asked.target)
    return f"Spread of {target} in powers of ten (interquartile): {', '.join(parts)}."


def tuning_lines(found: Impact) -> Iterator[str]:
    """Say what each way of tuning reaches."""
    yield "What tuning reaches (settings of high impact vary, the others stay at their baseline):"
    yield from aligned([tuning_header(found), *tuning_rows(found)])
    if any(tuning.label == MODELLED for tuning in found.tunings):
        yield "Figures marked ~ are modelled."
    yield from choice_lines(found)


def choice_lines(found: Impact) -> Iterator[str]:
    """Say what the quality of a choice may be."""
    if found.asked.quality is None:
        return
    quality, is_known = plain(found.asked.quality), [t.quality is not None for t in found.tunings]
    if any(is_known):
        allowed = rough_percent(found.outcomes[1].levels[1])
        is_noisy = found.outcomes[1].noise is not None and found.tunings[0].label != MODELLED
        yield (
            f"Chosen among those whose {quality} is at most {allowed} worse than that of the "
            f"baseline{', or may be, as noise goes' if is_noisy else ''}."
        )
    for tuning in found.tunings:
        if tuning.passed_over is not None:
            place = f"{plain(tuning.workload)}, " if len(found.workloads) > 1 else ""
            own = {n: v for n, v in tuning.passed_over.items() if n in tuning.varied}
            better = f"{settings_text(own)} would be better, but for its {quality}"
            yield f"{place}{tuning.kind}: {better}."
    if not all(is_known):
        yield f"Where {quality} has a dash, it is not known and did not count."


def tuning_header(found: Impact) -> tuple[str, ...]:
    """Name the columns of the table of tunings."""
    header = ["workload"] if len(found.workloads) > 1 else []
    header += ["tuning", plain(found.asked.target), "95 % interval", "change"]
    header += [plain(found.asked.quality)] if found.asked.quality is not None else []
    header += ["cost"] if _has_costs(found) else []
    return (*header, "with")


def _has_costs(found: Impact) -> bool:
    return any(tuning.cost is not None for tuning in found.tunings)


def tuning_rows(found: Impact) -> list[tuple[str, ...]]:
    """Write one row for each way of tuning in each workload."""
    rows, start = [], {}
    for tuning in found.tunings:
        if tuning.kind == BASELINE:
            start[tuning.workload] = tuning
        rows.append(_tuning_row(found, tuning, start[tuning.workload]))
    return rows


def _tuning_row(found: Impact, tuning: Tuning, start: Tuning) -> tuple[str, ...]:
    target = found.asked.target
    cells = [short(tuning.workload, 20)] if len(found.workloads) > 1 else []
    cells += [tuning.kind, value_text(tuning.value, target) + _mark(tuning)]
    is_known = math.isfinite(tuning.lower)
    cells.append(f"{number(tuning.lower, 3)}–{number(tuning.upper, 3)}" if is_known else "–")
    change = tuning.value / start.value - 1
    cells.append("–" if tuning.kind == BASELINE else f"{100 * change:+.0f} %")
    if found.asked.quality is not None:
        cells.append("–" if tuning.quality is None else number(tuning.quality, 3))
    if _has_costs(found):
        cells.append("–" if tuning.cost is None else number(tuning.cost, 3))
    shown = tuning.settings if tuning.kind == BASELINE else {
        n: v for n, v in tuning.settings.items() if n in tuning.varied
    }  # fmt: skip
    if tuning.kind != BASELINE and not tuning.varied:
        cells.append("nothing of high impact to vary")
    else:
        cells.append(settings_text(shown))
    return tuple(cells)


def settings_text(settings: dict[str, object] | object) -> str:
    """Write settings as a list."""
    assert isinstance(settings, dict)
    return ", ".join(
        f"{plain(n)}={number(v, 4) if isinstance(v, float) else plain(v)}"
        for n, v in settings.items()
    )


def value_text(value: float, name: str) -> str:
    """Write a value of a column with its unit; a time in the units that matter."""
    return duration(value) if name.endswith("_s") else with_unit(number(value, 3), name)


def front_lines(found: Impact) -> Iterator[str]:
    """List configurations that no other beats."""
    yield (
        f"{len(found.front)} configurations that no other of their workload beats at once in "
        f"{front_words(found)}:"
    )
    rows = front_rows(found)
    yield from aligned([front_header(found), *rows[:_MOST_FRONT]])
    if len(rows) > _MOST_FRONT:
        yield f"… and {len(rows) - _MOST_FRONT} more"


def front_words(found: Impact) -> str:
    """Name what configurations are compared by."""
    words = [plain(found.asked.target)]
    words += [plain(found.asked.quality)] if found.asked.quality is not None else []
    words += ["cost"] if found.front[0].cost is not None else []
    return " and ".join(words)


def front_header(found: Impact) -> tuple[str, ...]:
    """Name the columns of the table of the front."""
    header = ["workload"] if len(found.workloads) > 1 else []
    header.append(plain(found.asked.target))
    header += [plain(found.asked.quality)] if found.asked.quality is not None else []
    header += ["cost"] if found.front[0].cost is not None else []
    return (*header, "with")


def front_rows(found: Impact) -> list[tuple[str, ...]]:
    """Write one row for each configuration of the front."""
    rows = []
    for point in found.front:
        cells = [short(point.workload, 20)] if len(found.workloads) > 1 else []
        cells.append(value_text(point.target, found.asked.target))
        cells += [number(point.quality, 3)] if found.asked.quality is not None else []
        cells += [number(point.cost, 3)] if point.cost is not None else []
        rows.append((*cells, settings_text(point.settings)))
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows in columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
