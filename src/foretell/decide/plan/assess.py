"""What each configuration takes: time, cost, energy, carbon, memory; with quantiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.question.prices import Bill, Prices, Tariff
from foretell.errors import UsageError
from foretell.predictor import TRUST_INSIDE, Outlook, Predictor, Quantiles
from foretell.spaces.quantities import (
    CARBON,
    COST,
    ENERGY,
    MEMORY,
    POWER,
    TIME,
    quantity_of_name,
)

Array = NDArray[np.float64]

_JOULES_PER_KWH = 3.6e6
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Known:
    """One quantity that a model predicts, in base units."""

    value: Array
    quantiles: Quantiles

    def take(self, rows: NDArray[np.int64]) -> Known:
        """Keep some rows."""
        quantiles = Quantiles(self.quantiles.probabilities, self.quantiles.values[rows])
        return Known(self.value[rows], quantiles)


@dataclass(frozen=True)
class Figures:
    """What models predict for some configurations; other quantities are computed when needed.

    Attributes
    ----------
    known
        What models predict, by kind of quantity.
    is_outside, is_far
        Which configurations lie outside the data of some model; which of them far outside, or have
        an unknown level.
    is_supported
        Which configurations have intervals that rest on errors, for all models.
    """

    frame: pd.DataFrame
    prices: Prices
    known: Mapping[str, Known]
    bill: Bill
    is_outside: NDArray[np.bool_]
    is_far: NDArray[np.bool_]
    is_supported: NDArray[np.bool_]

    def value(self, kind: str) -> Array:
        """Return the prediction of a quantity."""
        return self.figure(kind, {name: k.value for name, k in self.known.items()})

    def at(self, kind: str, probability: float) -> Array:
        """Return what a quantity stays below with a probability."""
        return self.figure(
            kind, {name: k.quantiles.at(probability) for name, k in self.known.items()}
        )

    def start_up(self, kind: str) -> Array:
        """Return the part of a quantity that the start-up of machines takes."""
        return self.figure(kind, {name: np.zeros(len(self)) for name in self.known})

    def figure(self, kind: str, known: Mapping[str, Array]) -> Array:
        """Compute a quantity from those that models predict; it grows with each of them."""
        prices, bill = self.prices, self.bill
        if kind == TIME:
            return known[TIME] + prices.start_up_s
        if kind == COST:
            paid_h = (known[TIME] + prices.start_up_s) / _SECONDS_PER_HOUR
            return bill.nodes * bill.price_per_hour * paid_h + prices.start_up_cost
        if kind == POWER:
            return bill.nodes * bill.power_w
        if kind == CARBON:
            assert prices.carbon_g_per_kwh is not None
            return self.figure(ENERGY, known) / _JOULES_PER_KWH * prices.carbon_g_per_kwh
        if kind == ENERGY and ENERGY not in known:
            return bill.nodes * bill.power_w * (known[TIME] + prices.start_up_s)
        if kind == ENERGY and np.isfinite(bill.power_w).all():
            return known[ENERGY] + bill.nodes * bill.power_w * prices.start_up_s
        return known[kind]

    def take(self, rows: NDArray[np.int64]) -> Figures:
        """Keep some rows."""
        bill = self.bill.take(rows)
        known = {name: k.take(rows) for name, k in self.known.items()}
        frame = self.frame.iloc[rows].reset_index(drop=True)
        masks = (self.is_outside[rows], self.is_far[rows], self.is_supported[rows])
        return Figures(frame, self.prices, known, bill, *masks)

    def __len__(self) -> int:
        return len(self.frame)


def join(parts: Sequence[Figures]) -> Figures:
    """Put the rows of several figures below one another; they have the same probabilities."""
    first = parts[0]
    if len(parts) == 1:
        return first
    known = {}
    for name, own in first.known.items():
        values = np.concatenate([p.known[name].quantiles.values for p in parts])
        quantiles = Quantiles(own.quantiles.probabilities, values)
        known[name] = Known(np.concatenate([p.known[name].value for p in parts]), quantiles)
    columns = zip(*(vars(p.bill).values() for p in parts), strict=True)
    bill = Bill(*(np.concatenate(column) for column in columns))
    frame = pd.concat([p.frame for p in parts], ignore_index=True)
    masks = zip(*((p.is_outside, p.is_far, p.is_supported) for p in parts), strict=True)
    joined = (np.concatenate(mask) for mask in masks)
    return Figures(frame, first.prices, known, bill, *joined)


@dataclass(frozen=True)
class Assessor:
    """Predicts all quantities of configurations.

    ``predictors``: by the kind of quantity, with the size of the target's unit.
    """

    predictors: Mapping[str, tuple[Predictor, float]]
    tariff: Tariff

    @property
    def kinds(self) -> list[str]:
        """The quantities that are known, in the order of interest."""
        return known_kinds(self.predictors, self.tariff)

    @property
    def has_estimated_energy(self) -> bool:
        """Whether energy is computed from power, not predicted by a model."""
        return ENERGY in self.kinds and ENERGY not in self.predictors

    def assess(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Figures:
        """Predict a block of configurations."""
        known = {}
        is_outside, is_far = np.zeros((2, len(frame)), dtype=bool)
        is_supported = np.ones(len(frame), dtype=bool)
        for kind, (predictor, unit) in self.predictors.items():
            outlook = predictor.outlook(frame, probabilities)
            known[kind] = _known(outlook, unit)
            is_outside |= outlook.trust != TRUST_INSIDE
            is_far |= outlook.is_far
            is_supported &= outlook.is_supported
        bill = self.tariff.bill(frame)
        masks = (is_outside, is_far, is_supported)
        return Figures(frame, self.tariff.prices, known, bill, *masks)

    def known(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> dict[str, Known]:
        """Return what models predict, for rows that may lack the columns of prices."""
        return {
            kind: _known(predictor.outlook(frame, probabilities), unit)
            for kind, (predictor, unit) in self.predictors.items()
        }


def _known(outlook: Outlook, unit: float) -> Known:
    probabilities, values = outlook.quantiles.probabilities, outlook.quantiles.values.copy()
    # The prediction is the median, also of a model without intervals.
    values[:, np.equal(probabilities, 0.5)] = outlook.value[:, None]
    return Known(outlook.value * unit, Quantiles(probabilities, values * unit))


def known_kinds(predicted: Collection[str], tariff: Tariff) -> list[str]:
    """Return the quantities that predictions and prices give, in the order of interest."""
    found = set(predicted)
    if TIME in found:
        found |= {COST} & tariff.has
        found |= {ENERGY} if POWER in tariff.has else set()
    found |= {POWER} & tariff.has
    if ENERGY in found and tariff.prices.carbon_g_per_kwh is not None:
        found.add(CARBON)
    return [kind for kind in (TIME, COST, ENERGY, CARBON, MEMORY, POWER) if kind in found]


def match_models(predictors: Sequence[Predictor]) -> dict[str, tuple[Predictor, float]]:
    """Say which quantity each model predicts; raise a UsageError if they cannot be combined."""
    if not predictors:
        raise UsageError("a plan needs at least one model; name the directory of a fit")
    matched = match_targets([predictor.target for predictor in predictors])
    by_target = {predictor.target: predictor for predictor in predictors}
    _check_same_data(list(predictors))
    return {kind: (by_target[target], unit) for kind, (target, unit) in matched.items()}


def match_targets(targets: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Say which quantity each target is, and the size of its unit."""
    found: dict[str, tuple[str, float]] = {}
    for target in targets:
        quantity = quantity_of_name(target)
        if quantity is None:
            raise UsageError(
                f"the name of the target '{target}' does not say its unit; name it like time_s, "
                "energy_j or memory_bytes, and fit again"
            )
        kind, unit = quantity
        if kind in found:
            raise UsageError(
                f"two models predict a {kind}: {found[kind][0]} and {target}; give only one of them"
            )
        found[kind] = (target, unit)
    return found


def _check_same_data(predictors: Sequence[Predictor]) -> None:
    """Refuse models whose data have no column in common, or ranges that do not overlap."""
    first = predictors[0]
    for other in predictors[1:]:
        shared = set(first.columns) & set(other.columns)
        if not shared:
            raise UsageError(
                f"the models of {first.target} and {other.target} have no column in common: they "
                "were fitted on different data; fit both on one table of runs"
            )
        for name in sorted(shared & set(first.ranges) & set(other.ranges)):
            (low, high), (from_, to) = first.ranges[name], other.ranges[name]
            if low > to or from_ > high:
                raise UsageError(
                    f"the models of {first.target} and {other.target} were fitted on different "
                    f"data: '{name}' goes from {low:g} to {high:g} in one, and from {from_:g} to "
                    f"{to:g} in the other"
                )
