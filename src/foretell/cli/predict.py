"""`foretell predict`: predict with a saved model."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_notes, echo_unchanged
from foretell.errors import listing
from foretell.predictor import (
    TRUST_FAR,
    TRUST_INSIDE,
    TRUST_INVALID,
    TRUST_MISSING,
    TRUST_NEAR,
    TRUST_UNKNOWN,
)
from foretell.wording import counted, percent

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from foretell.model.saved.model import Configurations, SavedModel
    from foretell.predictor import Forecast

_ROWS_SHOWN = 20


@click.command()
@option.model_argument
@option.path_argument("data")
@option.output("Write all columns to this CSV file.")
@click.option(
    "--interval",
    type=float,
    default=0.9,
    metavar="SHARE",
    help="Share of runs that the interval is to hold, as measured in rehearsals [default: 0.9].",
)
@option.force
@option.json("Print the predictions as JSON.")
def command(
    model: Path, data: Path, output: Path | None, interval: float, force: bool, as_json: bool
) -> None:
    """Predict with a saved model.

    MODEL is a model file, or a directory of `foretell fit`, whose best model is used.
    DATA is a table with the model's columns, in any order, with or without the target; or a
    prediction file of aMLLibrary (.ini), which names the table. Rows with a value that is missing
    or cannot be used get no prediction.
    """
    from foretell.dataset import read_text_once
    from foretell.files.directory import write_new
    from foretell.model.campaigns.sources import table_to_predict
    from foretell.model.saved.model import load_model
    from foretell.model.saved.usable_rows import cells_as_given, forecast_usable_rows

    loaded = load_model(model)
    source = read_text_once(table_to_predict(data, loaded.target))
    dataset = loaded.configurations(source)
    passports = forecast_usable_rows(dataset, interval)
    predicted = passports.beside(cells_as_given(source, dataset), dataset.name)
    if output is not None:
        write_new(output, predicted.to_csv(index=False).encode(), force=force)
    echo_notes(_notes(dataset, passports))
    if as_json:
        numbers = passports.beside(dataset.frame, dataset.name)
        echo_unchanged(numbers.to_json(orient="records", double_precision=15) + "\n")
        return
    echo(_table(loaded, predicted, interval))
    echo(_summary(model, dataset, predicted, passports, interval))
    echo(f"{output} written." if output else "-o FILE writes all columns.")


def _notes(dataset: Configurations, passports: Forecast) -> list[str]:
    notes = [
        f"column '{name}' is not in the output: it holds {what}"
        for name, what in dataset.unreadable.items()
    ]
    import numpy as np

    n_without = int(np.isin(passports.trust, (TRUST_MISSING, TRUST_INVALID)).sum())
    if n_without:
        told = [fault.text(dataset.row_numbers) for fault in dataset.faults]
        n_too_far = n_without - int((~dataset.is_usable).sum())
        told += [f"{counted(n_too_far, 'row')} too far outside the data"] if n_too_far else []
        notes.append(
            f"no prediction for {n_without} of {len(passports.value)} rows: {listing(told)}"
        )
    notes += _new_levels_only(dataset, passports, len(passports.value) - n_without)
    return notes


def _new_levels_only(dataset: Configurations, passports: Forecast, n_predicted: int) -> list[str]:
    """Note what is missing if no row has a level that was measured."""
    categories = dataset.model.categories
    is_new = [passports.along.get(name, 0) == n_predicted for name in categories]
    if not n_predicted or not is_new or not all(is_new):
        return []
    measured = "; ".join(f"{name}: {listing(known, 6)}" for name, known in categories.items())
    return [
        f"every level in the table is new (measured were {measured}), so predictions are those "
        "of a level like the others on average; correct the names, or measure runs with the "
        "new levels and fit again"
    ]


def _table(model: SavedModel, predicted: pd.DataFrame, interval: float) -> str:
    if _measured(model, predicted) is None:
        figures = {"prediction": model.target}
    else:
        figures = {model.target: "measured", "prediction": "predicted"}
    head = predicted.head(_ROWS_SHOWN)
    settings = [name for name in head.columns if name in model.columns]
    shown = head[[*settings, *figures]].rename(columns=figures)
    texts = dict.fromkeys(figures.values(), _number)
    if head["lower"].notna().any():
        ends = zip(head["lower"], head["upper"], strict=True)
        shown[f"{100 * interval:g} % interval"] = [
            f"{low:.4g} – {high:.4g}" if low == low else "" for low, high in ends
        ]
    if (head["trust"] != TRUST_INSIDE).any():
        told = [_trust(row) for _, row in head.iterrows()]
        longest = max(map(len, told))
        shown["trust".ljust(longest)] = [text.ljust(longest) for text in told]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    text = shown.to_string(index=False, formatters=texts, line_width=width, na_rep="")
    text = "\n".join(line.rstrip() for line in text.splitlines())
    rest = len(predicted) - len(shown)
    return text + (f"\n… and {counted(rest, 'more row')}" if rest > 0 else "")


def _number(value: Any) -> str:
    try:
        return "" if value != value else f"{float(value):.4g}"
    except (TypeError, ValueError):  # a measured value that is not a number is shown as it is
        return str(value)


def _trust(row: pd.Series[Any]) -> str:
    text = str(row["trust"])
    if row["outside"]:
        text += f": {row['outside']}"
        if row["trust"] == TRUST_FAR:
            text += "; the error there is unknown"
        elif row["expected_error"] == row["expected_error"]:
            text += f"; error there about {percent(row['expected_error'])}"
    return text


def _summary(
    path: Path,
    dataset: Configurations,
    predicted: pd.DataFrame,
    passports: Forecast,
    interval: float,
) -> str:
    model = dataset.model
    is_outside = predicted["trust"].isin([TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN])
    n_outside = int(is_outside.sum())
    columns = f" ({', '.join(passports.along)})" if passports.along else ""
    parts = [f"{counted(len(predicted), 'row')}, {n_outside} outside the data{columns}."]
    measured = _measured(model, predicted)
    if measured is not None:
        parts += _comparison(path, dataset, passports, measured.to_numpy(float), interval)
    elif (expected := model.scores.get("validation", {}).get("mape")) is not None:
        if model.calibration is None:
            parts.append(f"In validation this model was {percent(expected)} off on average.")
            parts += ["Rows outside the data may be much further off."] * (n_outside > 0)
        else:
            parts.append(
                f"In rehearsals this model was {percent(expected)} off at known values; "
                "expected_error says how far at each row's distance."
            )
    return " ".join(parts)


def _comparison(
    path: Path,
    dataset: Configurations,
    passports: Forecast,
    truth: NDArray[np.float64],
    interval: float,
) -> list[str]:
    """Compare predictions with what was measured, where both are known."""
    import numpy as np

    from foretell.model.campaigns.validation.scores import score
    from foretell.model.evidence import seen_rows
    from foretell.model.scoring import coverage_by_trust, trust_text

    is_known = np.isfinite(passports.value) & np.isfinite(truth) & (truth > 0)
    if not is_known.any():
        return []
    known, truth = passports.take(is_known), truth[is_known]
    scores = score(truth, known.value)
    some = "" if is_known.all() else f" of {len(truth)} rows"
    parts = [
        f"Against the measured {dataset.model.target}{some}: MAPE {percent(scores.mape)}, median "
        f"{percent(scores.median_ape)}, 90th percentile {percent(scores.p90_ape)}."
    ]
    rows = dataset.take(is_known)
    seen = seen_rows(path, rows, truth)
    parts += [str(seen)] if seen is not None and seen.n_seen else []
    by_trust = coverage_by_trust(known, truth)
    held = [of.n_held for of in by_trust if of.n_held is not None]
    if held:
        table = f"\n\n{trust_text(by_trust, interval)}\n" if len(by_trust) > 1 else ""
        parts.append(f"The intervals hold {percent(sum(held) / len(truth))} of them.{table}")
    return parts


def _measured(model: SavedModel, predicted: pd.DataFrame) -> pd.Series[Any] | None:
    """Return the measured target, where the table has one; NaN in rows without it."""
    import pandas as pd

    if model.target not in predicted.columns:
        return None
    measured = pd.to_numeric(predicted[model.target], errors="coerce")
    return None if measured.isna().all() else measured
