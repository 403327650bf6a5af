"""Columns as plain values: one number, name or truth value per row, and nothing nested."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: What pandas calls columns that may hold something else than plain values.
_TO_INSPECT = {"bytes", "decimal", "mixed", "mixed-integer", "unknown-array"}
_NESTED = {"list": "lists", "tuple": "lists", "ndarray": "lists", "dict": "tables"}


def plain_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the columns that hold plain values, and say what the other ones hold.

    Numbers of 16 bits and decimals become ordinary numbers, and bytes that are UTF-8 become text.
    """
    changed: dict[str, pd.Series[Any]] = {}
    others: dict[str, str] = {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype == "float16":
            changed[name] = values.astype(float)
        elif _may_be_nested(values):
            found = _plain(values.astype(object))
            if isinstance(found, str):
                others[name] = found
            elif found is not None:
                changed[name] = found
    frame = frame.drop(columns=list(others))  # a copy
    for name, values in changed.items():
        frame[name] = values
    return frame, others


def _may_be_nested(values: pd.Series[Any]) -> bool:
    """Whether a column may hold lists, tables, bytes or decimals."""
    import pandas as pd

    kind = getattr(values.dtype, "pyarrow_dtype", None)
    if kind is None:
        return pd.api.types.is_object_dtype(values)
    from pyarrow import types

    return not any(
        is_plain(kind)
        for is_plain in (
            types.is_boolean,
            types.is_integer,
            types.is_floating,
            types.is_string,
            types.is_large_string,
            types.is_temporal,
            types.is_dictionary,
        )
    )


def _plain(values: pd.Series[Any]) -> pd.Series[Any] | str | None:
    """Convert a column of objects: None leaves it as it is, a text says why it cannot be."""
    import pandas as pd

    if pd.api.types.infer_dtype(values, skipna=True) not in _TO_INSPECT:
        return None
    present = values[values.notna()]
    samples = {type(value): value for value in present}
    nested = [kind for kind, value in samples.items() if not pd.api.types.is_scalar(value)]
    if nested:
        return _NESTED.get(nested[0].__name__, f"{nested[0].__name__} objects")
    if bytes in samples:
        try:
            return values.map(lambda v: v.decode() if isinstance(v, bytes) else v)
        except UnicodeDecodeError:
            return "bytes that are not text"
    if samples and samples.keys() <= {Decimal, int, float} and Decimal in samples:
        return present.astype(float).reindex(values.index)
    return None
