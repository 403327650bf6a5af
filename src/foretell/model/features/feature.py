"""What a feature is: a product of factors, each a column with a few elementwise steps applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from numpy.typing import NDArray

Kind = Literal["number", "flag", "category"]
NUMBER: Kind = "number"
FLAG: Kind = "flag"
CATEGORY: Kind = "category"

#: A product of more factors is refused, here and in model files: a hostile one may have millions.
MOST_FACTORS = 1024


_STRICT = pydantic.ConfigDict(extra="forbid", revalidate_instances="always")  # in model files


@dataclass(frozen=True)
class Column:
    """One column of the table: a number, a truth value, or a category with its known levels."""

    __pydantic_config__ = _STRICT

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Factor:
    """A column sent through steps such as inverse and log, or the indicator of one level."""

    __pydantic_config__ = _STRICT

    column: str
    steps: tuple[str, ...] = ()
    level: str | None = None


@dataclass(frozen=True)
class Feature:
    """A named product of factors; with a threshold, whether the product reaches it: 1 or 0.

    ``is_numeric``: false for indicators and products, of which no inverse and no logarithm is
    derived.
    """

    __pydantic_config__ = _STRICT

    name: str
    factors: Annotated[tuple[Factor, ...], pydantic.Field(min_length=1, max_length=MOST_FACTORS)]
    is_numeric: Annotated[bool, pydantic.Field(exclude=True)] = True
    threshold: pydantic.FiniteFloat | None = None

    @property
    def is_indicator(self) -> bool:
        """Whether some factor is the indicator of a level."""
        return any(f.level is not None for f in self.factors)


def apply_step(step: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply one elementwise step; bad values come out as NaN or infinity, for the caller."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result: NDArray[np.float64] = STEPS[step](values)
    return result


STEPS: dict[str, Any] = {
    "inverse": lambda values: 1.0 / values,
    "log": lambda values: np.log(np.where(values > 0, values, np.nan)),
    "sqrt": np.sqrt,
}

#: What each step needs of its values, for messages.
STEP_RULES = {
    "inverse": ("= 0", "an inverse needs other values"),
    "log": ("≤ 0", "a logarithm needs positive ones"),
    "sqrt": ("< 0", "a square root needs values of at least zero"),
}
