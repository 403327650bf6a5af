"""`foretell predict`: predict with a saved model."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.errors import UsageError
from foretell.predictor import TRUST_FAR

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.saved.model import SavedModel

_ROWS_SHOWN = 20


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write all columns to this CSV file."
)
@click.option(
    "--interval",
    type=float,
    default=0.9,
    metavar="SHARE",
    help="Share of runs that the interval is to hold, as measured in rehearsals [default: 0.9].",
)
@click.option("--force", is_flag=True, help="Write over an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print the predictions as JSON.")
def command(
    model: Path, data: Path, output: Path | None, interval: float, force: bool, as_json: bool
) -> None:
    """Predict with a saved model.

    MODEL is a model file, or a directory of `foretell fit`, whose best model is taken.
    DATA is a table with the model's columns, in any order, with or without the target.
    """
    from foretell.model.saved.model import load_model
    from foretell.predictor import FORECAST_COLUMNS

    loaded = load_model(model)
    dataset = loaded.configurations(data)
    frame = dataset.frame
    for name in FORECAST_COLUMNS:
        if name in frame.columns:
            raise UsageError(f"{data} has a column '{name}' already; rename or remove it")
    passports = loaded.forecast(dataset, interval)
    predicted = frame.reset_index(drop=True).join(passports.to_frame())
    if output is not None:
        _write(predicted, output, force=force)
    if as_json:
        click.echo(predicted.to_json(orient="records", double_precision=15))
        return
    click.echo(_table(loaded, predicted, interval))
    click.echo(_summary(loaded, predicted, list(passports.along)))
    click.echo(f"{output} written." if output else "-o FILE writes all columns.")


def _write(predicted: pd.DataFrame, output: Path, *, force: bool) -> None:
    from foretell.files.directory import write_new

    write_new(output, predicted.to_csv(index=False).encode(), force=force)


def _table(model: SavedModel, predicted: pd.DataFrame, interval: float) -> str:
    if _truth(model, predicted) is None:
        figures = {"prediction": model.target}
    else:
        figures = {model.target: "measured", "prediction": "predicted"}
    head = predicted.head(_ROWS_SHOWN)
    shown = head[[*model.columns, *figures]].rename(columns=figures)
    texts = dict.fromkeys(figures.values(), "{:.4g}".format)
    if head["lower"].notna().any():
        ends = zip(head["lower"], head["upper"], strict=True)
        shown[f"{100 * interval:g} % interval"] = [f"{low:.4g} – {high:.4g}" for low, high in ends]
    if (head["trust"] != "inside").any():
        shown["trust"] = [_trust(row) for _, row in head.iterrows()]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    text = shown.to_string(index=False, formatters=texts, line_width=width)
    rest = len(predicted) - len(shown)
    return text + (f"\n… and {rest} more rows" if rest > 0 else "")


def _trust(row: pd.Series[Any]) -> str:
    from foretell.wording import percent

    text = str(row["trust"])
    if row["outside"]:
        text += f": {row['outside']}"
        if row["trust"] == TRUST_FAR:
            text += "; nobody knows the error there"
        elif row["expected_error"] == row["expected_error"]:
            text += f"; error there about {percent(row['expected_error'])}"
    return text


def _summary(model: SavedModel, predicted: pd.DataFrame, along: list[str]) -> str:
    from foretell.wording import percent

    n_outside = int((predicted["outside"] != "").sum())
    rows = "1 row" if len(predicted) == 1 else f"{len(predicted)} rows"
    columns = f" ({', '.join(along)})" if along else ""
    parts = [f"{rows}, {n_outside} outside the data{columns}."]
    truth = _truth(model, predicted)
    if truth is not None:
        from foretell.model.campaigns.validation import score

        scores = score(truth, predicted["prediction"].to_numpy())
        parts.append(
            f"Against the measured {model.target}: MAPE {percent(scores.mape)}, median "
            f"{percent(scores.median_ape)}, 90th percentile {percent(scores.p90_ape)}."
        )
        if predicted["lower"].notna().all():
            held = (predicted["lower"] <= truth) & (truth <= predicted["upper"])
            parts.append(f"The intervals hold {percent(float(held.mean()))} of them.")
    elif (expected := model.scores.get("validation", {}).get("mape")) is not None:
        if model.calibration is None:
            parts.append(f"In validation this model was {percent(expected)} off on average.")
            parts += ["Rows outside the data may be much further off."] * (n_outside > 0)
        else:
            parts.append(
                f"In rehearsals this model was {percent(expected)} off inside the data; "
                "expected_error says what it was at each row's distance."
            )
    return " ".join(parts)


def _truth(model: SavedModel, predicted: pd.DataFrame) -> Any:
    import pandas as pd

    if model.target not in predicted.columns:
        return None
    truth = pd.to_numeric(predicted[model.target], errors="coerce")
    return None if truth.isna().any() else truth.to_numpy(float)
