"""What is asked of a plan: what to choose from, what to minimize, the limits and the confidence."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from foretell.decide.question.prices import Prices
from foretell.decide.question.space import read_axis
from foretell.errors import Option, UsageError
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed
from foretell.spaces.quantities import CARBON, COST, ENERGY, MEMORY, POWER, TIME, read_quantity
from foretell.spaces.values import Scalar, Values

REQUEST_FILE = FileKind("request", "what to vary", (".toml",))
#: The options that are limits, and the quantity that each bounds.
LIMITS = {
    "deadline": TIME,
    "budget": COST,
    "max_energy": ENERGY,
    "max_carbon": CARBON,
    "max_memory": MEMORY,
    "max_power": POWER,
}
#: What quantities are computed from, if no model predicts them.
_SOURCES = {COST: TIME, ENERGY: TIME, CARBON: ENERGY}
#: Probabilities for which the best plan is shown, besides the one asked for.
CERTAINTIES = (0.5, 0.8, 0.9, 0.95)

#: Risks of leaving the data that have names; the cautious one depends on the confidence.
CAUTIOUS = "cautious"
EVEN, BOLD = 0.5, 0.95
_SHOWN = 0.05  # of runs exceed the interval that plans show
_RISKS = {"even": EVEN, "bold": BOLD}

#: As people write it, such as "1h" or 20.
Written = str | float
Share = Annotated[float, pydantic.Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Question:
    """What is asked, in numbers.

    Attributes
    ----------
    limits
        By option: what a quantity must not exceed, in its base unit.
    confidence
        The probability with which each limit must hold.
    certainties
        All probabilities for which a plan is made, in rising order.
    allow_far
        Whether the risk also decides far outside the data, and what no interval supports may be
        chosen. Otherwise what is far must be better at its pessimistic end.
    risk
        Configurations outside the data are compared by what they exceed with this probability.
    """

    limits: Mapping[str, float]
    confidence: float
    certainties: tuple[float, ...]
    allow_far: bool
    risk: float = EVEN

    @property
    def compared(self) -> float:
        """The quantile by which configurations outside the data are compared."""
        return round(1 - self.risk, 9)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """All probabilities at which quantities must be known to answer."""
        return tuple(sorted({*self.certainties, self.compared, self.pessimistic}))

    @property
    def pessimistic(self) -> float:
        """The upper end of the interval that is shown, or that of the confidence if wider."""
        return round(1 - _cautious(self.confidence), 9)


def _cautious(confidence: float) -> float:
    """Return the share above the interval that is shown, or that of the confidence if wider."""
    return min(_SHOWN, (1 - confidence) / 2)


class PlanRequest(pydantic.BaseModel):
    """What is asked of a plan; its shape is that of the TOML file and of the HTTP body.

    Attributes
    ----------
    vary, fix
        The values to choose from, and those that are given.
    derive
        Columns that are computed from others: ``num_cpus = "workers * cpus"``.
    only
        Conditions that a configuration must meet, such as ``workers * cpus <= 64``.
    most, least
        The largest and smallest allowed value of columns.
    minimize
        None means cost if there are prices, and time otherwise.
    risk
        Outside the data, predictions may be wrong. "cautious" chooses a configuration there only if
        the pessimistic end of its interval is better than the best prediction inside the data;
        "even" compares predictions, "bold" the optimistic end. A number is the probability that the
        configuration turns out worse than what it is compared by: 0.05 is cautious, 0.5 even, 0.95
        bold. With a confidence above 0.9, cautious is less than 0.05. None means cautious, or even
        with ``allow_far``.
    allow_far
        Whether the risk decides further outside the data than errors were rehearsed, too. Without
        it, the choice there is always cautious, and only where intervals are supported.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    vary: dict[str, Values] = {}
    fix: dict[str, Scalar] = {}
    derive: dict[str, str] = {}
    only: list[str] = []
    most: dict[str, float] = {}
    least: dict[str, float] = {}
    minimize: Literal["time", "cost", "energy", "carbon"] | None = None
    confidence: Annotated[float, pydantic.Field(ge=0.5, lt=1)] = 0.9
    allow_far: bool = False
    risk: Literal["cautious", "even", "bold"] | Share | None = None
    deadline: Written | None = None
    budget: Written | None = None
    max_energy: Written | None = None
    max_carbon: Written | None = None
    max_memory: Written | None = None
    max_power: Written | None = None
    prices: Prices | None = None
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 0

    @pydantic.field_validator("vary", mode="before")
    @classmethod
    def _as_on_the_command_line(cls, value: Any) -> Any:
        """Read a range that is written as a text, such as ``1..64``."""
        if not isinstance(value, Mapping):
            return value
        return {
            name: read_axis(f"{name}={given}")[1]
            if isinstance(given, str) and ".." in given
            else given
            for name, given in value.items()
        }

    @pydantic.field_validator("confidence", mode="before")
    @classmethod
    def _is_a_share(cls, value: Any) -> Any:
        if isinstance(value, int | float) and 50 <= value < 100:
            raise ValueError(f"must be below 1, not {value:g}; {value:g} % is {value / 100:g}")
        return value

    @pydantic.field_validator("risk", mode="before")
    @classmethod
    def _is_a_risk(cls, value: Any) -> Any:
        if value is None or (isinstance(value, str) and value in {CAUTIOUS, *_RISKS}):
            return value
        try:
            share = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            share = math.nan
        if not 0 < share < 1:
            raise ValueError(
                f"must be cautious, even, bold, or a probability between 0 and 1, not {value!r}"
            )
        return share

    def _risk(self) -> float:
        """Return the risk as a probability."""
        risk = self.risk or ("even" if self.allow_far else CAUTIOUS)
        if risk == CAUTIOUS:
            return _cautious(self.confidence)
        return _RISKS[risk] if isinstance(risk, str) else risk

    def question(self, without_intervals: Mapping[str, str | None] | None = None) -> Question:
        """Read the limits, and list the probabilities that models can give.

        ``without_intervals``: by quantity, the target of a model that has no intervals, or None.
        """
        limits = {}
        for word, kind in LIMITS.items():
            written = getattr(self, word)
            if written is not None:
                try:
                    limits[word] = read_quantity(written, kind)
                except UsageError as error:
                    raise UsageError(error.text, option=Option(word)) from None
        cap = None if self.prices is None else self.prices.max_power_w
        if cap is not None:
            limits["max_power"] = min(cap, limits.get("max_power", cap))
        unsure = _unsure(limits, without_intervals or {})
        if unsure and self.confidence > 0.5:
            word, target = next(iter(unsure.items()))
            raise UsageError(
                f"the model of {target} has no intervals, so the probability that this limit holds "
                "is unknown",
                option=Option(word),
                remedy=("fit the model in automatic mode, or plan with ",
                        Option("confidence", "0.5")),
            )  # fmt: skip
        if unsure or (not limits and any((without_intervals or {}).values())):
            return Question(limits, 0.5, (0.5,), self.allow_far, self._risk())
        certainties = tuple(sorted({*CERTAINTIES, self.confidence}))
        return Question(limits, self.confidence, certainties, self.allow_far, self._risk())


def _unsure(limits: Collection[str], without_intervals: Mapping[str, str | None]) -> dict[str, str]:
    """Return the limits on what a model without intervals predicts, and the target of the model."""
    found = {}
    for word in limits:
        kind = LIMITS[word]
        while kind not in without_intervals and kind in _SOURCES:
            kind = _SOURCES[kind]
        if (target := without_intervals.get(kind)) is not None:
            found[word] = target
    return found


def read_request(source: Path | str | Mapping[str, Any] | PlanRequest) -> PlanRequest:
    """Read what is asked from a TOML file or a dict of its shape."""
    return read_typed(source, PlanRequest, REQUEST_FILE)
