"""What machines cost and the power they draw: from a TOML file, or columns of the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pydantic
from numpy.typing import NDArray

from foretell.decide.question.space import Space
from foretell.errors import UsageError, listing, suggest
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed
from foretell.spaces.columns import column_of
from foretell.spaces.expressions import Expression
from foretell.spaces.quantities import COST, POWER

PRICE_FILE = FileKind("price", "a price_per_hour", (".toml",))

Amount = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
#: A number, a column, or an expression of columns.
Figure = Amount | str
#: What is known of a machine, and the quantity that follows from it.
_KINDS = {"price_per_hour": COST, "power_w": POWER}
#: Columns that tell how many machines a configuration takes, if the prices do not say it.
_COUNTS = (
    "nodes", "n_nodes", "num_nodes", "workers", "n_workers", "num_workers", "machines",
    "n_machines", "instances", "n_instances",
)  # fmt: skip


class Machine(pydantic.BaseModel):
    """What one node costs, and the power that it draws."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    price_per_hour: Figure | None = None
    power_w: Figure | None = None


class Prices(Machine):
    """A file of prices.

    Attributes
    ----------
    nodes
        How many machines a configuration takes.
    by
        The column that names the type of machine, whose levels are the keys of ``machines``.
    start_up_s
        Time before the job runs that is paid for, and counts toward a deadline.
    start_up_cost
        What each run costs in addition.
    max_power_w
        The power that all nodes of a run may draw together.
    """

    currency: str = "$"
    nodes: Figure | None = None
    by: str | None = None
    machines: dict[str, Machine] = {}
    start_up_s: Amount = 0.0
    start_up_cost: Amount = 0.0
    carbon_g_per_kwh: Amount | None = None
    max_power_w: Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)] | None = None

    @pydantic.model_validator(mode="after")
    def _machines_have_a_column(self) -> Prices:
        if bool(self.machines) != (self.by is not None):
            raise ValueError(
                "the keys of 'machines' are levels of a column: name it with by = \"machine\""
            )
        return self

    @property
    def columns(self) -> set[str]:
        """The columns that the prices depend on."""
        found = {self.by} if self.by else set()
        machines = [self, *self.machines.values()]
        for figure in (self.nodes, *(getattr(m, word) for m in machines for word in _KINDS)):
            if isinstance(figure, str):
                found |= _columns_of(figure)
        return found


def read_prices(source: Path | str | Mapping[str, Any] | Prices | None) -> Prices:
    """Read prices from a TOML file or a dict of its shape; None means that there are none."""
    return Prices() if source is None else read_typed(source, Prices, PRICE_FILE)


@dataclass(frozen=True)
class Bill:
    """What machines cost and draw, for each configuration of a block; NaN if unknown."""

    nodes: NDArray[np.float64]
    price_per_hour: NDArray[np.float64]
    power_w: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> Bill:
        """Keep some rows."""
        return Bill(self.nodes[rows], self.price_per_hour[rows], self.power_w[rows])


@dataclass(frozen=True)
class Tariff:
    """Prices matched with a space: how many nodes a configuration takes, and what is known.

    ``has``: COST and POWER, as far as prices or columns of the space give them.
    """

    prices: Prices
    nodes: Figure
    has: frozenset[str]

    @classmethod
    def of(cls, prices: Prices, space: Space) -> Tariff:
        """Match prices with a space; raise a UsageError if they do not fit together."""
        for name in sorted(prices.columns):
            if name not in space.names:
                raise UsageError(
                    f"the prices use '{name}', which is not a column of the configurations. "
                    f"{suggest(name, space.names)}"
                )
        _check_levels(prices, space)
        counts = [name for name in _COUNTS if name in space.names]
        nodes = prices.nodes if prices.nodes is not None else counts[0] if counts else 1.0
        machines = [prices, *prices.machines.values()]
        has = frozenset(
            kind for word, kind in _KINDS.items()
            if word in space.names or any(getattr(m, word) is not None for m in machines)
        )  # fmt: skip
        return cls(prices, nodes, has)

    def bill(self, frame: pd.DataFrame) -> Bill:
        """Look up what each configuration costs and draws."""
        found = {word: self._looked_up(word, frame) for word in _KINDS}
        for word, kind in _KINDS.items():
            is_unknown = np.isnan(found[word])
            if kind in self.has and is_unknown.any():
                raise UsageError(f"{word} is not known {self._for_which(frame, is_unknown)}")
        nodes = _figures(self.nodes, frame)
        if not (nodes > 0).all():
            raise UsageError(
                f"nodes = '{self.nodes}' is 0 for some configurations; every run takes at "
                "least one machine"
            )
        return Bill(nodes, **found)

    def _for_which(self, frame: pd.DataFrame, is_unknown: NDArray[np.bool_]) -> str:
        if self.prices.by is None:
            return "for some candidates; fill in the column"
        level = frame[self.prices.by].astype(str).to_numpy()[is_unknown][0]
        return f"for {self.prices.by} {level}; add it under [machines.{level}], or at the top"

    def _looked_up(self, word: str, frame: pd.DataFrame) -> NDArray[np.float64]:
        given = getattr(self.prices, word)
        if given is None and word in frame.columns:
            given = word
        found = np.full(len(frame), np.nan) if given is None else _figures(given, frame)
        if self.prices.by is not None:
            types = frame[self.prices.by].astype(str).to_numpy()
            for level, machine in self.prices.machines.items():
                own = getattr(machine, word)
                if own is not None:
                    rows = types == level
                    found[rows] = _figures(own, frame[rows])
        return found


def _figures(figure: Figure, frame: pd.DataFrame) -> NDArray[np.float64]:
    if not isinstance(figure, str):
        return np.full(len(frame), float(figure))
    if figure in frame.columns:  # whatever its name
        found = pd.to_numeric(frame[figure], errors="coerce").to_numpy(float)
    else:
        found = column_of(Expression(figure), frame)
    if (found < 0).any() or not np.isfinite(found).all():
        raise UsageError(
            f"'{figure}' is negative or not a number for some configurations; correct the prices"
        )
    return np.array(found)


def _columns_of(figure: str) -> set[str]:
    """Return the columns of an expression; any other text is the name of a column."""
    try:
        return set(Expression(figure).names)
    except UsageError:
        return {figure}


def _check_levels(prices: Prices, space: Space) -> None:
    if prices.by is None:
        return
    levels = {str(level) for level in space.values(prices.by)}
    missing = sorted(levels - set(prices.machines))
    if missing and prices.price_per_hour is None and prices.power_w is None:
        raise UsageError(
            f"there is no price for {prices.by} {listing(missing)}; add [machines.{missing[0]}]. "
            f"Known: {listing(prices.machines)}."
        )
