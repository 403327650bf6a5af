"""Results for people: the leaderboard, what the best model says, and what to keep in mind."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from foretell.errors import listing
from foretell.model.saved.model import write_formula

_TOP_SHARES = 6
_TOP_TERMS = 6


def leaderboard_table(results: dict[str, Any]) -> pd.DataFrame:
    """Return one row per technique, best first, errors as fractions."""
    rows = []
    for entry in results["leaderboard"]:
        row = {
            "technique": entry["technique"],
            "status": entry["status"],
            "selection_error": entry["selection_error"],
        }
        for name, values in entry["validation"].items():
            row[f"validation_{name}"] = values["mean"]
            row[f"validation_{name}_spread"] = values["spread"]
        row["training_mape"] = entry["training"]["mape"]["mean"]
        row["n_trials"] = entry["n_trials"]
        row["hyperparameters"] = _settings(entry["hyperparameters"])
        row["reason"] = entry["reason"]
        rows.append(row)
    return pd.DataFrame(rows)


def summary_text(results: dict[str, Any], *, details: bool = False) -> str:
    """Write the leaderboard and the best model; with details, every technique's model."""
    parts = [data_line(results["data"]), "", leaderboard_text(results)]
    shown = [e for e in results["leaderboard"] if e["status"] == "ok"]
    target, most = results["data"]["target"], None if details else _TOP_TERMS
    for entry in shown if details else shown[:1]:
        parts += ["", *_model_lines(entry, target, most)]
    without = [e for e in results["leaderboard"] if e["status"] != "ok"]
    parts += [f"{e['technique']} gave no model: {e['reason']}" for e in without]
    parts += [f"Note: {note}" for note in results["notes"]]
    parts += [f"Warning: {warning}" for warning in results["warnings"]] if details else []
    return "\n".join(parts) + "\n"


def data_line(data: dict[str, Any]) -> str:
    """Describe the table in one line."""
    columns = data["columns"]
    repeats = data["n_rows"] / data["n_configurations"]
    text = (
        f"{data['n_rows']} runs, {len(columns)} columns ({listing(columns, 8)})"
        + (f", {data['n_features']} features" if "n_features" in data else "")
        + f"; {data['n_configurations']} configurations"
    )
    if repeats > 1:
        text += f", {repeats:.3g} repeats each"
    if data["noise"] is not None:
        text += f", noise {percent(data['noise'])}"
    return text


def leaderboard_text(results: dict[str, Any]) -> str:
    """Write the leaderboard as an aligned table."""
    measure = results["campaign"]["score"]
    header = ["", "selection", "validation", "median", "90th pct", "RMSE", "R²", "trials", ""]
    rows = [header]
    for entry in results["leaderboard"]:
        validation = entry["validation"]
        is_best = entry["technique"] == results["best"]
        rows.append(
            [
                entry["technique"],
                _error(entry["selection_error"], measure),
                _with_spread(validation["mape"]),
                percent(validation["median_ape"]["mean"]),
                percent(validation["p90_ape"]["mean"]),
                _number(validation["rmse"]["mean"]),
                _number(validation["r2"]["mean"]),
                str(entry["n_trials"]),
                "← best" if is_best else entry["status"].replace("ok", ""),
            ]
        )
    rows[0][0] = "relative error"
    return align(rows)


def align(rows: list[list[str]]) -> str:
    """Write a table: the first column to the left, the others to the right but for the last mark.

    A last column without a heading holds marks, which stand to the left.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        if not rows[0][-1]:
            cells[-1] = row[-1]
        lines.append("   ".join(cells).rstrip())
    return "\n".join(lines)


def _model_lines(entry: dict[str, Any], target: str, most: int | None) -> list[str]:
    lines = [f"{entry['technique']}({_settings(entry['hyperparameters'])})"]
    if entry["coefficients"] is not None:
        formula = write_formula(target, entry["coefficients"], entry["intercept"], most=most)
        lines.append(f"  {formula}")
    if entry["importances"]:
        shares = list(entry["importances"].items())
        text = ", ".join(f"{name} {percent(share)}" for name, share in shares[:_TOP_SHARES])
        rest = len(shares) - _TOP_SHARES
        lines.append(f"  splits on {text}" + (f" and {rest} more" if rest > 0 else ""))
    lines += [f"  {note}" for note in entry["notes"]]
    return lines


def _settings(params: dict[str, Any] | None) -> str:
    if params is None:
        return ""
    return ", ".join(f"{k}={_value(v)}" for k, v in params.items())


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def percent(share: float | None) -> str:
    """Write a share as a percentage with a sensible number of digits."""
    if share is None or not math.isfinite(share):
        return "–"
    value = 100 * share
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} %"


def _with_spread(values: dict[str, float | None]) -> str:
    spread = values["spread"]
    return percent(values["mean"]) + (f" ± {percent(spread)}" if spread is not None else "")


def _error(error: float | None, measure: str) -> str:
    return percent(error) if measure == "mape" else _number(error)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
