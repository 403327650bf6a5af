"""What each configuration takes: time, cost, energy, carbon, memory; predicted, and at any risk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.question.prices import Bill, Prices, Tariff
from foretell.errors import UsageError
from foretell.predictor import TRUST_FAR, TRUST_UNKNOWN, Outlook, Predictor
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
    """One quantity that a model predicts: the prediction, and a column per probability."""

    value: Array
    quantiles: Array

    def take(self, rows: NDArray[np.int64]) -> Known:
        """Keep some rows."""
        return Known(self.value[rows], self.quantiles[rows])


@dataclass(frozen=True)
class Figures:
    """What is known of some configurations; what follows from it is computed when asked for.

    Attributes
    ----------
    known
        What models predict, by the kind of quantity.
    is_far
        Which configurations lie far outside the data of some model, or have an unknown level.
    """

    frame: pd.DataFrame
    prices: Prices
    known: Mapping[str, Known]
    bill: Bill
    is_far: NDArray[np.bool_]

    def value(self, kind: str) -> Array:
        """Return what is predicted."""
        return self.figure(kind, {name: k.value for name, k in self.known.items()})

    def at(self, kind: str, probability: int) -> Array:
        """Return what is not exceeded with the probability of that place in the list."""
        return self.figure(
            kind, {name: k.quantiles[:, probability] for name, k in self.known.items()}
        )

    def figure(self, kind: str, known: Mapping[str, Array]) -> Array:
        """Compute a quantity from those that models predict; all grow with them."""
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
        return Figures(frame, self.prices, known, bill, self.is_far[rows])

    def __len__(self) -> int:
        return len(self.frame)


def join(parts: Sequence[Figures]) -> Figures:
    """Put the rows of several figures below one another."""
    first = parts[0]
    if len(parts) == 1:
        return first
    known = {
        name: Known(
            np.concatenate([p.known[name].value for p in parts]),
            np.concatenate([p.known[name].quantiles for p in parts]),
        )
        for name in first.known
    }
    bill = Bill(
        np.concatenate([p.bill.nodes for p in parts]),
        np.concatenate([p.bill.price_per_hour for p in parts]),
        np.concatenate([p.bill.power_w for p in parts]),
    )
    frame = pd.concat([p.frame for p in parts], ignore_index=True)
    return Figures(frame, first.prices, known, bill, np.concatenate([p.is_far for p in parts]))


@dataclass(frozen=True)
class Assessor:
    """Predicts all quantities of configurations.

    Attributes
    ----------
    predictors
        By the kind of quantity, with the size of the target's unit.
    """

    predictors: Mapping[str, tuple[Predictor, float]]
    tariff: Tariff

    @property
    def kinds(self) -> list[str]:
        """The quantities that can be told, in the order of interest."""
        return kinds_told(self.predictors, self.tariff)

    @property
    def has_estimated_energy(self) -> bool:
        """Whether energy follows from power, not from a model."""
        return ENERGY in self.kinds and ENERGY not in self.predictors

    def assess(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Figures:
        """Predict a block of configurations."""
        known = {}
        is_far = np.zeros(len(frame), dtype=bool)
        for kind, (predictor, unit) in self.predictors.items():
            outlook = predictor.outlook(frame, probabilities)
            known[kind] = _known(outlook, probabilities, unit)
            is_far |= (outlook.trust == TRUST_FAR) | (outlook.trust == TRUST_UNKNOWN)
        return Figures(frame, self.tariff.prices, known, self.tariff.bill(frame), is_far)

    def known(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> dict[str, Known]:
        """Return what models predict, of rows that may lack the columns of prices."""
        return {
            kind: _known(predictor.outlook(frame, probabilities), probabilities, unit)
            for kind, (predictor, unit) in self.predictors.items()
        }


def _known(outlook: Outlook, probabilities: Sequence[float], unit: float) -> Known:
    quantiles = outlook.quantiles.copy()
    # The middle is known to a model without intervals, too.
    quantiles[:, np.equal(probabilities, 0.5)] = outlook.value[:, None]
    return Known(outlook.value * unit, quantiles * unit)


def kinds_told(predicted: Collection[str], tariff: Tariff) -> list[str]:
    """Return what follows from predicted quantities and prices, in the order of interest."""
    found = set(predicted)
    if TIME in found:
        found |= {COST} & tariff.has
        found |= {ENERGY} if POWER in tariff.has else set()
    found |= {POWER} & tariff.has
    if ENERGY in found and tariff.prices.carbon_g_per_kwh is not None:
        found.add(CARBON)
    return [kind for kind in (TIME, COST, ENERGY, CARBON, MEMORY, POWER) if kind in found]


def match_models(predictors: Sequence[Predictor]) -> dict[str, tuple[Predictor, float]]:
    """Say which quantity each model predicts; raise a UsageError where they do not go together."""
    if not predictors:
        raise UsageError("a plan needs a model; name the directory of a fit")
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
                f"what kind of quantity is '{target}'? The name of a target must end in its unit, "
                "such as time_s, energy_j or memory_bytes; rename it and fit again"
            )
        kind, unit = quantity
        if kind in found:
            raise UsageError(
                f"two models predict a {kind}: {found[kind][0]} and {target}; name one of them"
            )
        found[kind] = (target, unit)
    return found


def _check_same_data(predictors: Sequence[Predictor]) -> None:
    """Refuse models whose data have no column or no range in common."""
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
