"""Readers of hyperparameter values: each checks one value and returns it in the right type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def real(
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> Callable[[Any], float]:
    """Read a finite number within bounds: ``above`` and ``below`` are not allowed themselves."""

    def read(value: Any) -> float:
        number = _number(value)
        for is_kept, rule in (
            (number > above, f"more than {above:g}"),
            (number >= least, f"at least {least:g}"),
            (number < below, f"less than {below:g}"),
            (number <= most, f"at most {most:g}"),
        ):
            if not is_kept:
                raise ValueError(f"must be {rule}, not {value!r}")
        return number

    return read


def whole(*, least: int) -> Callable[[Any], int]:
    """Read a whole number; ``3.0``, as a prior may give it, counts as 3."""

    def read(value: Any) -> int:
        number = _number(value)
        if number != round(number) or number < least:
            raise ValueError(f"must be a whole number of at least {least}, not {value!r}")
        return round(number)

    return read


def count_or_share(*, least: int, one_is_share: bool = False) -> Callable[[Any], int | float]:
    """Read a number of rows (1, 2, …) or a share of them (between 0 and 1).

    What 1.0 is must be said: the share of all rows, or the count 1, as a prior may give it.
    """

    def read(value: Any) -> int | float:
        number = _number(value)
        if 0 < number < 1 or (one_is_share and number == 1 and isinstance(value, float)):
            return number
        if number != round(number) or number < least:
            raise ValueError(
                f"must be a whole number of at least {least} or a share between 0 and 1"
                f"{', 1.0 for all rows' if one_is_share else ''}, not {value!r}"
            )
        return round(number)

    return read


def one_of(words: Iterable[str] | Mapping[str, Any]) -> Callable[[Any], Any]:
    """Read one of several words, in any case; a mapping says what each stands for."""
    meanings = words if isinstance(words, Mapping) else {word: word for word in words}

    def read(value: Any) -> Any:
        word = str(value).lower()
        if word not in meanings:
            raise ValueError(f"must be one of {', '.join(meanings)}, not {value!r}")
        return meanings[word]

    return read


def boolean(value: Any) -> bool:
    """Read true or false, as a word in any case, a truth value, or 0 and 1."""
    word = str(value).lower()
    if word not in {"true", "false", "0", "1"}:
        raise ValueError(f"must be true or false, not {value!r}")
    return word in {"true", "1"}


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Also accept none, in any case."""

    def read_or_none(value: Any) -> Any:
        return None if value is None or str(value).lower() == "none" else read(value)

    return read_or_none


def _number(value: Any) -> float:
    if isinstance(value, bool | str):
        raise ValueError(f"must be a number, not {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"must be finite, not {value!r}")
    return number
