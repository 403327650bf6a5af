"""The feature map: computes the same matrix from named columns in training and prediction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset
from foretell.errors import DatasetError, UsageError, listing
from foretell.model.campaigns.schema import Features
from foretell.model.features.cells import MISSING, Fault, read_cells
from foretell.model.features.ernest import are_ernests, replace_by_ernests
from foretell.model.features.feature import (
    CATEGORY,
    FLAG,
    NUMBER,
    STEP_RULES,
    Column,
    Factor,
    Feature,
    apply_step,
)
from foretell.model.features.products import add_products
from foretell.model.features.steps import add_inverses, add_logarithms
from foretell.spaces.levels import level_names

#: Derives features from those that are there already, as the options ask.
Family = Callable[[list[Feature], Features], list[Feature]]
#: In the order in which they apply: a later family sees what the earlier ones added.
FAMILIES: tuple[Family, ...] = (add_inverses, add_logarithms, add_products, replace_by_ernests)

#: What was read of each column, by its name: numbers, or the names of levels.
Values = dict[str, NDArray[Any]]

_CHUNK_VALUES = 4_000_000  # numbers gathered at once for products: 32 MB


@dataclass(frozen=True)
class FeatureMap:
    """Columns in, matrix of features out; made of plain values, so that it can be saved."""

    columns: tuple[Column, ...]
    features: tuple[Feature, ...]

    @cached_property
    def names(self) -> list[str]:
        """The names of the features, in the order of the matrix."""
        return [f.name for f in self.features]

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The features that are the indicators of each category, and nothing more."""
        found: dict[str, list[int]] = {}
        for i, feature in enumerate(self.features):
            if len(feature.factors) == 1 and feature.is_indicator:
                found.setdefault(feature.factors[0].column, []).append(i)
        return tuple(tuple(positions) for positions in found.values())

    @cached_property
    def _factors(self) -> dict[Factor, int]:
        distinct = dict.fromkeys(f for feature in self.features for f in feature.factors)
        return {factor: i for i, factor in enumerate(distinct)}

    def matrix(self, dataset: Dataset) -> NDArray[np.float64]:
        """Compute the features of every row; a level never seen gets all its indicators at zero."""
        return self.matrix_of(self.values(dataset), dataset.name, dataset.row_numbers)

    def values(self, dataset: Dataset) -> Values:
        """Read every column as numbers or level names."""
        return {column.name: column_values(column, dataset) for column in self.columns}

    def matrix_of(
        self, values: Values, name: str, row_numbers: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Compute the features of columns that were read."""
        base = np.empty((len(row_numbers), len(self._factors)))
        for factor, i in self._factors.items():
            base[:, i] = self._factor(factor, values[factor.column], row_numbers, name)
        return self._products(base)

    def _factor(
        self, factor: Factor, values: NDArray[Any], rows: NDArray[Any], name: str
    ) -> NDArray[Any]:
        if factor.level is not None:
            indicator: NDArray[np.bool_] = values == factor.level
            return indicator
        for step in factor.steps:
            result = apply_step(step, values)
            if (fault := _step_fault(factor.column, step, result)) is not None:
                is_ernest = are_ernests(self.features)
                way = "do without ernest" if is_ernest else f"leave '{factor.column}' out of {step}"
                raise DatasetError(
                    f"{name}, {fault.text(rows)}. Drop those rows, or {way}.",
                    at=("features", "ernest" if is_ernest else step),
                )
            values = result
        return values

    def step_faults(self, values: Values) -> list[Fault]:
        """Find the values of which no inverse, logarithm or root can be computed."""
        found = []
        for factor in self._factors:
            result = values[factor.column]
            for step in factor.steps:
                result = apply_step(step, result)
                if (fault := _step_fault(factor.column, step, result)) is not None:
                    found.append(fault)
                    break
        return found

    def _products(self, base: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.empty((len(base), len(self.features)))
        for positions, indices in self._indices:
            step = max(1, _CHUNK_VALUES // len(positions))
            for start in range(0, len(base), step):
                chunk = base[start : start + step]
                product = chunk[:, indices[0]]
                with np.errstate(over="ignore"):  # for the caller to find
                    for more in indices[1:]:
                        product *= chunk[:, more]
                result[start : start + step, positions] = product
        for i, feature in enumerate(self.features):
            if feature.threshold is not None:
                result[:, i] = result[:, i] >= feature.threshold
        return result

    def with_thresholds(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a matrix in which thresholds agree with the columns, some of which were changed.

        Thresholds are of columns that are features themselves.
        """
        at = {name: i for i, name in enumerate(self.names)}
        result = x.copy()
        for i, feature in enumerate(self.features):
            if feature.threshold is not None:
                product = np.ones(len(x))
                for factor in feature.factors:
                    values = x[:, at[factor.column]]
                    for step in factor.steps:
                        values = apply_step(step, values)
                    product *= values
                result[:, i] = product >= feature.threshold
        return result

    def extended(self, features: Iterable[Feature]) -> FeatureMap:
        """Return a map with further features of the same columns."""
        return FeatureMap(self.columns, (*self.features, *features))

    @cached_property
    def _indices(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Group features by their number of factors: one long product must not pad all others."""
        groups: dict[int, list[int]] = {}
        for i, feature in enumerate(self.features):
            groups.setdefault(len(feature.factors), []).append(i)
        return [
            (
                np.array(group),
                np.array([[self._factors[f] for f in self.features[i].factors] for i in group]).T,
            )
            for group in groups.values()
        ]

    @property
    def numbers(self) -> list[str]:
        """The columns that are numbers."""
        return [column.name for column in self.columns if column.kind == NUMBER]

    def unknown_levels(self, values: Values) -> dict[str, list[str]]:
        """Find, per category, the levels among its values that training never saw."""
        found = {}
        for column in self.columns:
            if column.kind == CATEGORY:
                unknown = sorted(set(values[column.name]) - set(column.levels))
                if unknown:
                    found[column.name] = unknown
        return found


def _step_fault(column: str, step: str, result: NDArray[Any]) -> Fault | None:
    bad = ~np.isfinite(result)
    which, rule = STEP_RULES[step]
    is_what = f"is {which}, and {rule}"
    return Fault(column, bad, f"value {which}", is_what, end=f", and {rule}") if bad.any() else None


def compile_features(columns: Iterable[Column], options: Features) -> FeatureMap:
    """Derive the features a campaign asks for from the columns of its table."""
    columns = tuple(columns)
    features: list[Feature] = []
    for column in columns:
        if column.kind == CATEGORY:
            features += [
                Feature(f"{column.name}_class_{level}", (Factor(column.name, level=level),), False)
                for level in column.levels
            ]
        else:
            features.append(Feature(column.name, (Factor(column.name),), column.kind == NUMBER))
    for family in FAMILIES:
        features = family(features, options)
    _refuse_duplicates(features)
    used = {factor.column for feature in features for factor in feature.factors}
    return FeatureMap(tuple(c for c in columns if c.name in used), tuple(features))


def _refuse_duplicates(features: list[Feature]) -> None:
    """Refuse two features of one name: a formula and shares by name would lose one of them."""
    twice = [name for name, count in Counter(f.name for f in features).items() if count > 1]
    if twice:
        same = [f for f in features if f.name == twice[0]]
        columns = dict.fromkeys(factor.column for f in same for factor in f.factors)
        raise UsageError(
            f"two features would be called '{twice[0]}', from the columns {listing(columns)}; "
            "rename one of these columns",
            at=("features",),
        )


def column_values(
    column: Column, dataset: Dataset, remedy: str = "Correct or drop those rows."
) -> NDArray[Any]:
    """Read one column as numbers or level names; raise a DatasetError where it cannot be."""
    read, faults = read_cells(column, dataset.frame[column.name])
    if faults:
        what_to_do = "Fill them in, or drop those rows." if faults[0].what == MISSING else remedy
        raise DatasetError(f"{dataset.name}, {faults[0].text(dataset.row_numbers)}. {what_to_do}")
    return read


def read_row(columns: Iterable[Column], row: Mapping[str, Any]) -> Values | None:
    """Read a row without building a table, which takes much longer; None where one is needed.

    Plain numbers and known levels need none.

    >>> read_row([Column("nodes", NUMBER)], {"nodes": 4})
    {'nodes': array([4.])}
    >>> read_row([Column("nodes", NUMBER)], {"nodes": "4"}) is None
    True
    """
    values: Values = {}
    for column in columns:
        value = row.get(column.name)
        if column.kind == CATEGORY:
            if type(value) is not str or value not in column.levels:
                return None
            values[column.name] = np.array([value], dtype=object)
        else:
            number = _number(value, is_flag=column.kind != NUMBER)
            if number is None:
                return None
            values[column.name] = np.array([number])
    return values


def _number(value: Any, *, is_flag: bool) -> float | None:
    """Return a plain finite number, or a flag, as a float."""
    if is_flag:
        return float(value) if type(value) is bool else None
    if type(value) is float and math.isfinite(value):
        return value
    # Beyond, the table's own way of reading whole numbers decides.
    return float(value) if type(value) is int and abs(value) < 2**53 else None


def recognize(name: str, values: pd.Series[Any], *, as_category: bool) -> Column:
    """Tell what kind of column this is: text is a category, numbers are numbers."""
    if pd.api.types.is_bool_dtype(values) and not as_category:
        return Column(name, FLAG)
    if pd.api.types.is_numeric_dtype(values) and not as_category:
        return Column(name, NUMBER)
    return Column(name, CATEGORY, tuple(sorted(set(level_names(values)))))
