"""Export of models that have a formula, for use without foretell: as JSON, Python or SQL.

Names of columns and levels come from tables that may be hostile, so each writer quotes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from foretell.errors import ModelError, listing
from foretell.files.complaints import shown
from foretell.model.directory import BEST
from foretell.model.features.feature import FLAG, Factor, Feature
from foretell.model.features.feature import Column as TableColumn
from foretell.model.saved.model import SavedModel, load_model
from foretell.model.techniques import TECHNIQUES
from foretell.model.techniques.laws._formula import (
    AtLeast,
    Clip,
    Column,
    Expression,
    Formulated,
    Function,
    Level,
    Number,
    Product,
    Sum,
    add,
    linear,
    multiply,
    raised,
)
from foretell.model.techniques.linear._least_squares import LinearRegressor
from foretell.spaces.levels import trained_levels

_MOST_STEPS = 32  # fits give two; a hostile file may give thousands, one nested in the other
_TRUTHS = ("True", "False", "true", "false", "TRUE", "FALSE")


def export_model(model: SavedModel, form: str) -> str:
    """Return an evaluator of a model as ``json``, ``python`` or ``sql``; ModelError if none."""
    try:
        expression = model_expression(model)
    except (ValueError, ArithmeticError) as error:
        raise ModelError(f"this model cannot be exported: {error}. Fit it again.") from None
    if expression is None:
        raise ModelError(
            f"this model of {model.target} was fitted by {model.technique} and has no formula to "
            f"export. Techniques that have one: {listing(formula_techniques())}."
        )
    return FORMS[form](model, expression)


def model_expression(model: SavedModel) -> Expression | None:
    """Return the prediction of a model as a formula of the table's columns, when it is one."""
    fitted = model.fitted
    known = {c.name: c for c in model.feature_map.columns}
    features = [model.feature_map.features[i] for i in fitted.columns]
    columns = [_feature(feature, known) for feature in features]
    scaling = fitted.scaling
    if scaling is not None:
        moves = zip(columns, scaling.x_mean.tolist(), scaling.x_deviation.tolist(), strict=True)
        columns = [
            multiply([Number(1 / deviation), add([of, Number(-mean)])])
            for of, mean, deviation in moves
        ]
    found, in_units = fitted.regressor.coefficients(), fitted.coefficients()
    if found is not None and in_units is not None:
        slopes = np.where(model.terms_that_matter(in_units[0]), found[0], 0.0)
        prediction = linear(slopes.tolist(), columns, found[1])
    elif isinstance(fitted.regressor, Formulated):
        prediction = fitted.regressor.expression(columns)
    else:
        return None
    if scaling is not None:
        scaled = multiply([Number(scaling.y_deviation), prediction])
        prediction = add([scaled, Number(scaling.y_mean)])
    return prediction if fitted.floor is None else raised(prediction, fitted.floor)


def formula_text(model: SavedModel) -> str | None:
    """Return the model as a line to read, in the units of the table, when it is a formula."""
    regressor = model.fitted.regressor
    if not isinstance(regressor, Formulated) or model.fitted.scaling is not None:
        return model.formula
    features = [model.feature_map.features[i] for i in model.fitted.columns]
    labels = [
        f"{f.factors[0].column}={f.factors[0].level}"
        if len(f.factors) == 1 and f.is_indicator
        else f.name
        for f in features
    ]
    return regressor.formula(labels, model.target)


def formula_techniques() -> list[str]:
    """List the techniques whose models are formulas."""
    regressors = {name: TECHNIQUES.get(name).regressor for name in TECHNIQUES.names()}
    return [n for n, r in regressors.items() if issubclass(r, LinearRegressor | Formulated)]


def models_with_formula(directory: Path) -> list[Path]:
    """List the model files of a results directory that can be exported."""
    found = []
    for path in sorted(directory.glob("*.foretell")):
        with suppress(ModelError, ValueError, ArithmeticError):
            if path.name != BEST and model_expression(load_model(path)) is not None:
                found.append(path)
    return found


def _feature(feature: Feature, columns: Mapping[str, TableColumn]) -> Expression:
    product = multiply(_factor(factor, columns[factor.column]) for factor in feature.factors)
    return product if feature.threshold is None else AtLeast(product, feature.threshold)


def _factor(factor: Factor, column: TableColumn) -> Expression:
    if factor.level is not None:
        return _level(column, factor.level)
    if len(factor.steps) > _MOST_STEPS:
        raise ValueError(f"column {shown(column.name)} goes through {len(factor.steps)} steps")
    of: Expression = Column(column.name, is_flag=column.kind == FLAG)
    for step in factor.steps:
        of = Function(step, of)
    return of


def _level(column: TableColumn, level: str) -> Level:
    """Return an indicator that knows how tables may spell its level."""
    import pandas as pd

    padded = f" {level}"  # the same number, where levels are numbers; another text elsewhere
    written = [*_TRUTHS, padded]
    *truths, number = trained_levels(pd.Series(written, dtype=object), column.levels)
    spellings = [text for text, meant in zip(_TRUTHS, truths, strict=True) if meant == level]
    return Level(column.name, tuple(dict.fromkeys([level, *spellings])), number == level)


OPERATIONS = {
    "number": "the constant 'value'",
    "column": "the number in the column 'name'; true is 1 and false is 0",
    "level": "1 where the text in 'column' is one of 'spellings', else 0; where 'is_number' holds, "
    "also where both are the same number",
    "sum": "the sum of the list 'of'",
    "product": "the product of the list 'of'",
    "inverse": "1 divided by 'of'",
    "log": "natural logarithm of 'of'",
    "log1p": "natural logarithm of 1 + 'of'",
    "sqrt": "square root of 'of'",
    "exp": "e to the power of 'of'",
    "atleast": "1 where 'of' is at least 'value', else 0",
    "clip": "'of', raised to 'low' or lowered to 'high' where it is outside; null means no bound",
}


def write_json(model: SavedModel, expression: Expression) -> str:
    """Write the formula as a tree that says itself how it is read."""
    document = {
        "format": 1,
        "technique": model.technique,
        "target": model.target,
        "columns": [{"name": c.name, "kind": c.kind} for c in model.feature_map.columns],
        "operations": OPERATIONS,
        "prediction": _tree(expression),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _tree(of: Expression) -> dict[str, Any]:
    op = type(of).__name__.lower()
    match of:
        case Function():
            return {"op": of.name, "of": _tree(of.of)}
        case Sum() | Product():
            return {"op": op, "of": [_tree(part) for part in of.parts]}
        case Clip():
            return {"op": op, "of": _tree(of.of), "low": of.low, "high": of.high}
        case AtLeast():
            return {"op": op, "of": _tree(of.of), "value": of.value}
        case Column():
            return {"op": op, "name": of.name}
        case _:
            return {"op": op, **asdict(of)}


_MODULE = '''"""A model written by `foretell export`; it needs nothing but Python."""

import math

TARGET = {target}
TECHNIQUE = {technique}
COLUMNS = {columns}


def predict(row):
    """Return the prediction for a dict with a value for each of COLUMNS."""
    return float({prediction})


def _clip(value, low, high):
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def _flag(value):
    truths = {{"true": 1.0, "false": 0.0}}
    text = str(value).lower()
    return truths[text] if text in truths else float(value)


def _level(value, spellings, is_number):
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    if text in spellings:
        return 1.0
    if not is_number or "_" in text:
        return 0.0
    try:
        return float(_number(text) == _number(spellings[0]))
    except ValueError:
        return 0.0


def _number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)
'''


def write_python(model: SavedModel, expression: Expression) -> str:
    """Write a module with a function ``predict`` of a row."""
    return _MODULE.format(
        target=ascii(model.target),
        technique=ascii(model.technique),
        columns=f"[{', '.join(ascii(name) for name in model.columns)}]",
        prediction=_python(expression),
    )


def _python(of: Expression) -> str:
    if isinstance(of, Number):
        return f"({float(of.value)!r})"
    if isinstance(of, Column):
        return f"{'_flag' if of.is_flag else 'float'}(row[{of.name!a}])"
    if isinstance(of, Level):
        spellings = "".join(f"{s!a}, " for s in of.spellings)
        return f"_level(row[{of.column!a}], ({spellings}), {of.is_number})"
    if isinstance(of, Sum | Product):
        return _joined([_python(part) for part in of.parts], _SIGNS[type(of)])
    if isinstance(of, Clip):
        return f"_clip({_python(of.of)}, {of.low!r}, {of.high!r})"
    if isinstance(of, AtLeast):
        return f"float({_python(of.of)} >= {of.value!r})"
    inner = _python(of.of)
    return f"(1.0 / {inner})" if of.name == "inverse" else f"math.{of.name}({inner})"


_SIGNS = {Sum: "+", Product: "*"}


def _joined(parts: Sequence[str], sign: str) -> str:
    """Join in halves: parsers refuse what is nested too deep, and a thousand terms are."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_joined(parts[:half], sign)} {sign} {_joined(parts[half:], sign)})"


def write_sql(model: SavedModel, expression: Expression) -> str:
    """Write one expression for a SELECT, in the SQL that SQLite and PostgreSQL share.

    SQLite reads a quoted name that the table lacks as text, and calculates with it; the header
    warns of that.
    """
    texts = [*model.columns, *(level for c in model.feature_map.columns for level in c.levels)]
    if any("\0" in text for text in texts):
        raise ModelError(
            "a column or level of this model has a NUL character in its name, which SQL cannot "
            "hold. Export it as json or python, or rename it and fit again."
        )
    # JSON escapes line breaks, so that no name can end the comment.
    names = ", ".join(json.dumps(name) for name in model.columns)
    header = (
        f"-- Predicts {json.dumps(model.target)} from the columns {names}.\n"
        "-- Check that the table has all of them: SQLite reads the name of a missing column as\n"
        "-- text, without an error, and the result is wrong.\n"
    )
    return header + _sql(expression) + "\n"


_SQL_FUNCTIONS = {
    "inverse": "(1.0 / {})", "log": "LN({})", "log1p": "LN(1.0 + {})", "sqrt": "SQRT({})",
    "exp": "EXP({})",
}  # fmt: skip


def _sql(of: Expression) -> str:
    if isinstance(of, Number):
        return f"({float(of.value)!r})"
    if isinstance(of, Column):
        name = _sql_name(of.name)
        if of.is_flag:
            return f"(CASE WHEN {name} THEN 1.0 ELSE 0.0 END)"
        return f"CAST({name} AS DOUBLE PRECISION)"
    if isinstance(of, Level):
        return _sql_level(of)
    if isinstance(of, Sum | Product):
        return _joined([_sql(part) for part in of.parts], _SIGNS[type(of)])
    if isinstance(of, Clip):
        inner, bounds = _sql(of.of), ((of.low, "<"), (of.high, ">"))
        cases = [f"WHEN {inner} {sign} {b!r} THEN {b!r}" for b, sign in bounds if b is not None]
        return f"(CASE {' '.join(cases)} ELSE {inner} END)" if cases else inner
    if isinstance(of, AtLeast):
        return f"(CASE WHEN {_sql(of.of)} >= {of.value!r} THEN 1.0 ELSE 0.0 END)"
    return _SQL_FUNCTIONS[of.name].format(_sql(of.of))


def _sql_level(of: Level) -> str:
    spellings = list(of.spellings)
    if of.is_number and spellings[0].lstrip("-").isdecimal():
        spellings.append(f"{spellings[0]}.0")  # as SQLite writes a column of real numbers
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in dict.fromkeys(spellings))
    return f"(CASE WHEN CAST({_sql_name(of.column)} AS TEXT) IN ({texts}) THEN 1.0 ELSE 0.0 END)"


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


FORMS: dict[str, Callable[[SavedModel, Expression], str]] = {
    "json": write_json,
    "python": write_python,
    "sql": write_sql,
}
