"""The table behind a fit: choose rows and columns, check them, and compute the feature matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers, describe_rows
from foretell.errors import DatasetError, Option, UsageError
from foretell.files.complaints import shown
from foretell.model.campaigns.schema import Campaign
from foretell.model.features.feature import CATEGORY, NUMBER, Column, Feature
from foretell.model.features.feature_map import (
    FeatureMap,
    column_values,
    compile_features,
    recognize,
)
from foretell.predictor import FORECAST_COLUMNS

#: A column in which at least this share of the values look like numbers should hold only numbers.
_NUMBERS_SHARE = 0.5


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns and rows of a table automatic mode uses; by default all.

    Attributes
    ----------
    use
        The only columns to predict from, where any are named.
    categorical
        Numeric columns whose values are names.
    drop_missing
        Whether rows with a missing value are left out; otherwise they are an error.
    """

    use: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop_missing: bool = False

    def __post_init__(self) -> None:
        both = [name for name in self.use if name in self.skip]
        if both:
            raise UsageError(
                f"'{both[0]}' is both used and skipped; choose one", option=Option("skip", both[0])
            )

    @property
    def named(self) -> list[str]:
        """Every column that is named."""
        return list(dict.fromkeys([*self.use, *self.skip, *self.categorical]))

    def without(self, columns: Sequence[str]) -> ColumnChoice:
        """Leave out further columns."""
        return replace(self, skip=tuple(dict.fromkeys([*self.skip, *columns])))


EVERY_COLUMN = ColumnChoice()


@dataclass(frozen=True)
class Table:
    """The runs behind a fit, ready to be split and fitted.

    Attributes
    ----------
    dataset
        The rows kept, with every column of the file under its new name.
    x, y
        The matrix of features, and the target.
    configuration
        The number of each row's configuration; rows with equal settings share it.
    """

    dataset: Dataset
    feature_map: FeatureMap
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    configuration: NDArray[np.int64]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows kept."""
        return self.dataset.frame

    @property
    def name(self) -> str:
        """What the table is called in messages."""
        return self.dataset.name

    @property
    def n_configurations(self) -> int:
        """The number of different configurations measured."""
        return int(self.configuration.max()) + 1

    def extended(self, features: Sequence[Feature]) -> Table:
        """Return the table with further features of its columns."""
        feature_map = self.feature_map.extended(features)
        return replace(self, feature_map=feature_map, x=feature_map.matrix(self.dataset))

    def number_column(self, name: str, *, at: tuple[str, ...]) -> NDArray[np.float64]:
        """Return one column as numbers, to split by its values; ``at`` is the campaign's entry."""
        self.dataset.require([name], at=at)
        if recognize(name, self.frame[name].dropna(), as_category=False).kind != NUMBER:
            raise UsageError(
                f"column '{name}' must hold numbers, because only numbers have an order; "
                "name another",
                at=at,
            )
        return _numbers(name, self.dataset, at=at)


def prepare_table(campaign: Campaign, dataset: Dataset) -> Table:
    """Rename, skip rows, choose columns, check everything, and compute the features."""
    dataset = _renamed(campaign, dataset)
    _check_columns_exist(campaign, dataset)
    dataset = _without_skipped_rows(campaign, dataset)
    names = _feature_names(campaign, dataset)
    dataset.refuse_missing(
        [campaign.data.target, *names],
        remedy=("Fill them in, or leave out those rows with ", Option("drop_missing")),
    )
    y = _target(campaign, dataset)
    feature_map = compile_features(_feature_columns(campaign, names, dataset), campaign.features)
    x = feature_map.matrix(dataset)
    _check_finite(x, feature_map, dataset)
    settings = [column.name for column in feature_map.columns]
    numbers = dataset.frame.groupby(settings, sort=False, dropna=False).ngroup()
    return Table(dataset, feature_map, x, y, np.asarray(numbers, dtype=np.int64))


def without_missing(campaign: Campaign, dataset: Dataset) -> tuple[Dataset, list[str]]:
    """Leave out rows with a missing value in a column that is used; also return notes of it."""
    renamed = _renamed(campaign, dataset)
    _check_columns_exist(campaign, renamed)
    data = campaign.data
    names = [*_feature_names(campaign, renamed), data.target, *data.skip_rows_above]
    missing = renamed.frame[list(dict.fromkeys(names))].isna().any(axis=1).to_numpy()
    if not missing.any():
        return dataset, []
    if missing.all():
        raise DatasetError(
            f"{dataset.name} has a missing value in every row; use fewer columns",
            remedy=("Leave a column out with ", Option("skip", "...")),
        )
    note = f"{missing.sum()} of {len(missing)} rows were left out because a value is missing."
    return dataset.take(~missing), [note]


def _renamed(campaign: Campaign, dataset: Dataset) -> Dataset:
    rename = campaign.data.rename
    at = ("data", "rename")
    dataset.require(rename, at=at)
    renamed = dataset.frame.rename(columns=rename)
    twice = renamed.columns[renamed.columns.duplicated()]
    if len(twice):
        raise UsageError(f"two columns would be called '{twice[0]}'; choose another name", at=at)
    return replace(dataset, frame=renamed)


def _check_columns_exist(campaign: Campaign, dataset: Dataset) -> None:
    data = campaign.data
    dataset.require([data.target], at=("data", "target"))
    for option in ("skip_rows_above", "use_columns", "categorical"):
        dataset.require(getattr(data, option), at=("data", option))
    skipped = [name for name in data.skip_columns if name not in dataset.unreadable]
    dataset.require(skipped, at=("data", "skip_columns"))


def _without_skipped_rows(campaign: Campaign, dataset: Dataset) -> Dataset:
    keep = np.ones(len(dataset.frame), dtype=bool)
    at = ("data", "skip_rows_above")
    ranges = []
    for name, bound in campaign.data.skip_rows_above.items():
        values = _numbers(name, dataset, at=at)
        keep &= values <= bound
        ranges.append(f"'{name}' is {values.min():g} to {values.max():g}")
    if not keep.any():
        raise DatasetError(
            f"no row of {dataset.name} is left ({', '.join(ranges)}); raise the bounds", at=at
        )
    return dataset.take(keep)


def _target(campaign: Campaign, dataset: Dataset) -> NDArray[np.float64]:
    name, at = campaign.data.target, ("data", "target")
    column, rows = f"{dataset.name}, column '{name}'", dataset.row_numbers
    y = _numbers(name, dataset, at=at)
    is_tiny = (y != 0) & (np.abs(y) < np.finfo(float).tiny)
    if is_tiny.any():
        raise DatasetError(
            f"{column} has {describe_rows(is_tiny, rows, 'value')} below 1e-307, which have too "
            "few digits to compute with; use a smaller unit",
            at=at,
        )
    if campaign.score == "mape" and (y <= 0).any():
        raise DatasetError(
            f"{column} has {describe_rows(y <= 0, rows, 'value ≤ 0')}, and a relative error (MAPE) "
            'needs positive ones. Drop those rows, or use a campaign with score = "rmse".',
            at=at,
        )
    if len(y) > 1 and (y == y[0]).all():
        raise DatasetError(
            f"{column} is {y[0]:g} in every row, so there is nothing to predict; choose another "
            "target",
            at=at,
        )
    return y


def _numbers(name: str, dataset: Dataset, *, at: tuple[str, ...]) -> NDArray[np.float64]:
    """Read a column that must hold numbers; ``at`` is the campaign's entry that names it."""
    remedy = "Correct or drop those rows, or name another column."
    try:
        return column_values(Column(name, NUMBER), dataset, remedy)
    except DatasetError as error:
        raise error.placed(*at) from None


def _feature_names(campaign: Campaign, dataset: Dataset) -> list[str]:
    """Name the columns to predict from."""
    data = campaign.data
    if data.target in data.use_columns:
        raise UsageError(
            f"'{data.target}' is the target, so it cannot be used to predict it; leave it out",
            at=("data", "use_columns"),
        )
    names = data.use_columns or [c for c in dataset.columns if c not in data.skip_columns]
    names = [n for n in dict.fromkeys(names) if n != data.target]
    if not names:
        raise DatasetError(
            f"no column of {dataset.name} is left to predict '{data.target}' from; skip fewer",
            at=("data", "skip_columns") if data.skip_columns else ("data", "path"),
        )
    taken = [name for name in names if name in FORECAST_COLUMNS]
    if taken:
        raise DatasetError(
            f"{dataset.name}, column '{taken[0]}': predictions have a column of that name; rename "
            "or skip it"
        )
    unused = [c for c in data.categorical if c not in names]
    if unused:
        raise UsageError(
            f"'{unused[0]}' is not among the columns used; leave it out, or use it",
            at=("data", "categorical"),
        )
    return names


def _feature_columns(campaign: Campaign, names: list[str], dataset: Dataset) -> list[Column]:
    """Recognize the kind of each column, and check its values before features are derived."""
    columns = []
    for name in names:
        is_declared = name in campaign.data.categorical
        columns.append(recognize(name, dataset.frame[name], as_category=is_declared))
        if columns[-1].kind == CATEGORY and not is_declared:
            _refuse_mixed(name, dataset)
        column_values(columns[-1], dataset)
    return columns


def _refuse_mixed(name: str, dataset: Dataset) -> None:
    """Refuse text among numbers, and 1,000 or 1,5: one typing error would make all of it names."""
    values = dataset.frame[name].astype(str)
    levels = pd.Series(values.unique())
    is_number = ~np.isnan(as_numbers(levels))
    looks_numeric = ~np.isnan(as_numbers(levels.str.replace(",", "")))
    share = values.isin(levels[looks_numeric]).mean()
    if share >= _NUMBERS_SHARE and not is_number.all():
        others = levels[~is_number]
        bad = values.isin(others).to_numpy()
        what = f"other value, such as {shown(others.iloc[0])}"
        raise DatasetError(
            f"{dataset.name}, column '{name}' has numbers, but also "
            f"{describe_rows(bad, dataset.row_numbers, what)}. Write numbers as 1000 or 1.5; or, "
            "if these are names, list the column as categorical.",
            at=("data", "categorical"),
        )


def _check_finite(x: NDArray[np.float64], feature_map: FeatureMap, dataset: Dataset) -> None:
    bad = ~np.isfinite(x)
    if bad.any():
        first = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = describe_rows(bad[:, first], dataset.row_numbers, "value beyond 1e308")
        raise DatasetError(
            f"{dataset.name}, feature '{feature_map.names[first]}' has {rows}; lower the degree of "
            "products, or choose larger units",
            at=("features", "product_max_degree"),
        )
