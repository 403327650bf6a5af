"""Saved states: how those of several parts are joined, and checked reading of hostile files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from foretell.model.techniques._base import Regressor, State, TrainingRows


def join_states(states: Mapping[str, State]) -> State:
    """Put states side by side, each under its name."""
    values = {name: state.values for name, state in states.items()}
    arrays = {f"{name}/{k}": v for name, state in states.items() for k, v in state.arrays.items()}
    return State(values, arrays)


def part_of(state: State, name: str) -> State:
    """Return the state that was put under a name, or raise ValueError."""
    values = state.values.get(name)
    if not isinstance(values, dict):
        raise ValueError(f"'{name}' must be a table of values")
    prefix = f"{name}/"
    arrays = {k.removeprefix(prefix): v for k, v in state.arrays.items() if k.startswith(prefix)}
    return State(values, arrays)


def regressor_class(technique: str) -> type[Regressor]:
    """Find the class that rebuilds models of a technique, or raise ValueError."""
    from foretell.model.techniques import TECHNIQUES  # the table holds this module's users

    if technique not in TECHNIQUES.names():
        raise ValueError(f"the technique {technique!r} is not installed")
    return TECHNIQUES.get(technique).regressor


def read_array(
    state: State, name: str, *, shape: tuple[int | None, ...], dtype: DTypeLike = np.float64
) -> NDArray[Any]:
    """Return an array of exactly this type and shape, all finite; None leaves a length open."""
    array = state.arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"the array '{name}' is missing")
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"the array '{name}' must hold {np.dtype(dtype)}, not {array.dtype}")
    fits = len(shape) == array.ndim and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = " × ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"the array '{name}' must have shape {expected}, not {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"the array '{name}' must be finite throughout")
    return array


def read_number(state: State, name: str) -> float:
    """Return a finite number."""
    value = state.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"'{name}' must be a finite number, not {value!r}")
    return float(value)


def read_whole(state: State, name: str, *, least: int) -> int:
    """Return a whole number that is not too small, nor too large to compute with."""
    value = state.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise ValueError(f"'{name}' must be a whole number of at least {least}, not {value!r}")
    return value


def read_flag(state: State, name: str) -> bool:
    """Return true or false."""
    value = state.values.get(name)
    if not isinstance(value, bool):
        raise ValueError(f"'{name}' must be true or false, not {value!r}")
    return value


def read_word(state: State, name: str, known: tuple[str, ...]) -> str:
    """Return one of the known words."""
    value = state.values.get(name)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"'{name}' must be one of {', '.join(known)}, not {value!r}")
    return value


def read_texts(state: State, name: str) -> tuple[str, ...]:
    """Return a list of texts, such as the notes on a fit."""
    value = state.values.get(name)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"'{name}' must be a list of texts, not {value!r}")
    return tuple(value)


def require_runs(rows: TrainingRows, technique: str) -> TrainingRows:
    """Return the rows, or refuse them where repeats were merged and the fit needs each run."""
    if rows.is_merged:
        raise ValueError(f"{technique} needs each run by itself, but repeats were merged")
    return rows
