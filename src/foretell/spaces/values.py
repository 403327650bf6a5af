"""The values of one parameter: fixed, listed, or a range that is linear or geometric."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scalar = bool | int | float | str
_MOST_VALUES = 1_000_000
_MOST_NUMBER = 2**53  # up to which every whole number is one in floating point


class Range(pydantic.BaseModel):
    """From one number to another: by a step, by a factor, in n values, or any number between.

    >>> Range.model_validate({"from": 1, "to": 8, "factor": 2}).values()
    [1, 2, 4, 8]
    >>> Range.model_validate({"from": 0, "to": 1, "n": 3}).values()
    [0.0, 0.5, 1.0]
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    start: Annotated[float, pydantic.Field(alias="from", allow_inf_nan=False)]
    stop: Annotated[float, pydantic.Field(alias="to", allow_inf_nan=False)]
    step: Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)] | None = None
    factor: Annotated[float, pydantic.Field(gt=1, allow_inf_nan=False)] | None = None
    n: Annotated[int, pydantic.Field(ge=2, le=_MOST_VALUES)] | None = None
    spacing: Literal["linear", "log"] = "linear"
    whole: bool | None = None

    @pydantic.field_validator("start", "stop", "step", "factor", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if abs(value) > _MOST_NUMBER:
            raise ValueError(f"is beyond {_MOST_NUMBER:.0e}")
        return float(value)

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> Range:
        given = [name for name in ("step", "factor", "n") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has both {given[0]} and {given[1]}; give one of them")
        if self.start > self.stop:
            raise ValueError("goes from more to less; write the smaller number under 'from'")
        if (self.factor is not None or self.spacing == "log") and self.start <= 0:
            raise ValueError("must start above 0 to grow by a factor")
        if given and self._length() > _MOST_VALUES:
            raise ValueError(f"has more than {_MOST_VALUES:,} values; widen its step")
        return self

    @property
    def is_continuous(self) -> bool:
        """Whether it lists no values: random samples may draw any number in it."""
        return self.step is None and self.factor is None and self.n is None

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers: because it says so, or its ends and step are."""
        if self.whole is not None:
            return self.whole
        parts = [self.start, self.stop, self.step or 1.0, self.factor or 1.0]
        return self.n is None and all(p.is_integer() for p in parts)

    def _length(self) -> float:
        if self.step is not None:
            return (self.stop - self.start) / self.step + 1
        if self.factor is not None:
            return math.log(self.stop / self.start) / math.log(self.factor) + 1
        return float(self.n or 0)

    def values(self) -> list[Scalar]:
        """List the values, ends included where the step meets them."""
        if self.n is not None:
            return self._tidied([self.at(i / (self.n - 1)) for i in range(self.n)])
        count = math.floor(self._length() + 1e-9)
        if self.step is not None:
            return self._tidied([self.start + i * self.step for i in range(count)])
        assert self.factor is not None
        return self._tidied([self.start * self.factor**i for i in range(count)])

    def at(self, share: float) -> float:
        """Return the number at a share of the way."""
        if self.spacing == "log":
            return float(self.start * (self.stop / self.start) ** share)
        return self.start + share * (self.stop - self.start)

    def draw(self, share: float) -> Scalar:
        """Return the value at a share of the way, for random samples."""
        if self.is_continuous:
            # Each whole number as likely as any other, the ends included.
            if self.is_whole and self.spacing == "linear":
                span = self.stop - self.start
                return math.floor(self.start + min(share * (span + 1), span))
            return self._tidied([self.at(share)])[0]
        return pick(self._values, share)

    @cached_property
    def _values(self) -> list[Scalar]:
        return self.values()

    def _tidied(self, values: list[float]) -> list[Scalar]:
        if self.is_whole:
            return list(dict.fromkeys(round(v) for v in values))
        return [float(f"{v:.12g}") for v in values]  # 0.1 + 0.2 is 0.3


#: How the values of a parameter are written in a file.
Values = Range | list[Scalar] | Scalar


def pick(values: list[Scalar], share: float) -> Scalar:
    """Return the value at a share of the list."""
    return values[min(int(share * len(values)), len(values) - 1)]


def listed(values: Values) -> list[Scalar]:
    """Return all values of a parameter, in order."""
    if isinstance(values, Range):
        return values.values()
    return values if isinstance(values, list) else [values]


def drawn(values: Values, share: float) -> Scalar:
    """Return the value of a parameter at a share between 0 and 1."""
    return values.draw(share) if isinstance(values, Range) else pick(listed(values), share)


def latin_hypercube(n: int, n_columns: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw points in the unit cube that cover every column evenly: one in each of n equal parts."""
    import numpy as np

    shares = random.random((n, n_columns))
    parts = np.column_stack([random.permutation(n) for _ in range(n_columns)])
    found: NDArray[np.float64] = (parts + shares) / n
    return found
