"""Automatic mode for people: the leaderboard, the law, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import pandas as pd

from foretell.errors import listing
from foretell.model.automatic.explanation import plateau_lines
from foretell.model.campaigns.summary import align, data_line, percent
from foretell.model.passports.questions import BEYOND_QUESTIONS, QUESTIONS

HEADINGS = {
    "inside": "inside",
    "between": "between",
    "1.5x": "1.5× beyond",
    "2x": "2× beyond",
    "4x": "4× beyond",
    "further": "further out",
    "unknown level": "unknown level",
}
_TOP_SHARES = 6
_BEARABLE = 0.25  # mean relative error up to which a prediction is of use


def automatic_leaderboard(results: dict[str, Any]) -> pd.DataFrame:
    """Return one row per model, errors as fractions."""
    return pd.DataFrame(
        [
            {
                "technique": entry["technique"],
                "status": entry["status"],
                **{f"error_{name}".replace(" ", "_"): entry["errors"][name] for name in QUESTIONS},
                "fit_s": results["times"]["fit_s"].get(entry["technique"]),
                "reason": entry["reason"],
            }
            for entry in results["leaderboard"]
        ]
    )


def automatic_summary(results: dict[str, Any]) -> str:
    """Write the data, the leaderboard, the explanation and the notes."""
    explanation = results["explanation"]
    parts = [data_line(results["data"]), "", question_table(results), ""]
    if explanation["formula"]:
        parts.append(
            f"{explanation['formula']}   (explains {percent(explanation['law_explains'])})"
        )
    if explanation["shares"]:
        shares = list(explanation["shares"].items())
        text = ", ".join(f"{name} {percent(share)}" for name, share in shares[:_TOP_SHARES])
        parts.append(f"What matters: {text}.")
    parts += [
        f"The product {a} × {b} explains what neither column does alone."
        for a, b in explanation["totals"]
    ]
    parts += plateau_lines(explanation["plateaus"])
    errors = results["leaderboard"][0]["errors"]
    is_cut = results["search_cut_by_time_limit"]
    parts.append(trust_line(errors, results["reaches"], is_cut=is_cut))
    failed = [e for e in results["leaderboard"] if e["status"] != "ok"]
    parts += [f"{e['technique']} gave no model: {e['reason']}" for e in failed]
    parts += [f"Note: {note}" for note in results["notes"]]
    return "\n".join(parts) + "\n"


def question_table(results: dict[str, Any]) -> str:
    """Write errors side by side: inside, between levels, and beyond the range."""
    asked = [
        q for q in QUESTIONS if any(e["errors"][q] is not None for e in results["leaderboard"])
    ]
    header = ["relative error", *(HEADINGS[q] for q in asked), "fit", ""]
    rows = [header]
    for entry in results["leaderboard"]:
        if entry["status"] != "ok":
            continue
        seconds = results["times"]["fit_s"].get(entry["technique"])
        is_best = entry["technique"] == results["best"]
        mark = "← best" if is_best else "" if entry["votes"] else "no vote"
        cells = [percent(entry["errors"][q]) for q in asked]
        rows.append([entry["technique"], *cells, f"{seconds:.1f} s", mark])
    return align(rows)


def trust_line(
    errors: Mapping[str, float | None],
    reaches: Mapping[str, Sequence[float]],
    *,
    is_cut: bool = False,
) -> str:
    """Say how far outside the data errors were measured and bearable, and along which columns.

    Parameters
    ----------
    errors
        The mean error on each question; None where none was rehearsed.
    reaches
        How far below and above its range each column was rehearsed, as ratios.
    is_cut
        Whether a time limit cut the rehearsals.
    """
    measured = [(q, e) for q in BEYOND_QUESTIONS if (e := errors.get(q)) is not None]
    if not measured and is_cut:
        return "Nothing is known of errors outside the data: the time limit left no rehearsal."
    if not measured:
        return "Nothing is known of errors outside the data: no column has enough values to tell."
    bearable = list(takewhile(lambda rung: rung[1] <= _BEARABLE, measured))
    if not bearable:
        question, error = measured[0]
        return (
            f"Do not trust it outside the data: it was {percent(error)} off at {_times(question)}."
        )
    question, error = bearable[-1]
    text = f"Trust it to about {_times(question)} beyond the data (about {percent(error)} off)"
    worse = measured[len(bearable) :]
    if worse:
        text += f"; not to {_times(worse[0][0])}: it was {percent(worse[0][1])} off there."
    else:
        text += "; not further: no run says anything there."
    return f"{text}{_rehearsed(reaches)}"


def _rehearsed(reaches: Mapping[str, Sequence[float]]) -> str:
    """Say along which columns, for along the others nothing is known."""
    parts = []
    for name, (below, above) in reaches.items():
        ways = [f"{r:.3g}× {way}" for r, way in ((below, "below"), (above, "above")) if r > 1]
        if ways:
            parts.append(f"{name} to {' and '.join(ways)}")
    return f" Rehearsed: {listing(parts, most=4)}; along no other column." if parts else ""


def _times(question: str) -> str:
    return question.replace("x", "×")
