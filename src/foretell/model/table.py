"""The table a campaign works on: rows and columns chosen, checked, and turned into a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, describe_rows
from foretell.errors import DatasetError, UsageError
from foretell.model.campaign import Campaign
from foretell.model.features import NUMBER, Column, FeatureMap, compile_features
from foretell.model.features.feature_map import column_values, recognize


@dataclass(frozen=True)
class Table:
    """The runs of a campaign, ready to be split and fitted.

    Attributes
    ----------
    frame
        The rows kept, with every column of the file under its new name.
    x
        The matrix of features.
    y
        The target.
    configuration
        The number of each row's configuration; rows with equal settings share it.
    row_numbers
        The number of each row in the file, counted from 1.
    """

    frame: pd.DataFrame
    feature_map: FeatureMap
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    configuration: NDArray[np.int64]
    row_numbers: NDArray[np.int64]
    name: str

    @property
    def n_configurations(self) -> int:
        """How many different configurations were measured."""
        return int(self.configuration.max()) + 1

    def number_column(self, name: str, *, wanted_by: str) -> NDArray[np.float64]:
        """Return one column as numbers, for splitting by its values."""
        Dataset(self.frame, self.name).require([name], wanted_by=wanted_by)
        if recognize(name, self.frame[name], as_category=False).kind != NUMBER:
            raise UsageError(
                f"{wanted_by}: column '{name}' is not a number, and only numbers have an order"
            )
        values: NDArray[np.float64] = column_values(
            Column(name, NUMBER),
            self.frame[name],
            table=self.name,
            row_numbers=self.row_numbers,
        )
        return values


def prepare_table(campaign: Campaign, dataset: Dataset) -> Table:
    """Rename, skip rows, choose columns, check everything, and compute the features."""
    dataset = _renamed(campaign, dataset)
    _check_columns_exist(campaign, dataset)
    frame, row_numbers = _kept_rows(campaign, dataset)
    y = _target(campaign, frame[campaign.data.target], dataset.name, row_numbers)
    columns = _feature_columns(campaign, dataset, frame, row_numbers)
    feature_map = compile_features(columns, campaign.features)
    x = feature_map.matrix(frame, name=dataset.name, row_numbers=row_numbers)
    _check_finite(x, feature_map, dataset.name)
    return Table(
        frame=frame,
        feature_map=feature_map,
        x=x,
        y=y,
        configuration=_configurations(frame[[c.name for c in feature_map.columns]]),
        row_numbers=row_numbers,
        name=dataset.name,
    )


def _renamed(campaign: Campaign, dataset: Dataset) -> Dataset:
    rename = campaign.data.rename
    dataset.require(rename, wanted_by="rename")
    clash = [new for old, new in rename.items() if new in dataset.columns and new not in rename]
    if clash or len(set(rename.values())) < len(rename):
        name = clash[0] if clash else sorted(rename.values())[0]
        raise UsageError(f"rename: two columns would be called '{name}'; choose another name")
    return Dataset(dataset.frame.rename(columns=rename), dataset.name)


def _check_columns_exist(campaign: Campaign, dataset: Dataset) -> None:
    data = campaign.data
    dataset.require([data.target], wanted_by="target")
    dataset.require(data.skip_rows_above, wanted_by="skip_rows")
    dataset.require(data.use_columns, wanted_by="use_columns")
    dataset.require(data.skip_columns, wanted_by="skip_columns")
    dataset.require(data.categorical, wanted_by="categorical_columns")


def _kept_rows(campaign: Campaign, dataset: Dataset) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    frame = dataset.frame
    row_numbers = np.arange(1, len(frame) + 1)
    keep = np.ones(len(frame), dtype=bool)
    for name, bound in campaign.data.skip_rows_above.items():
        column = Column(name, NUMBER)
        keep &= (
            column_values(column, frame[name], table=dataset.name, row_numbers=row_numbers) <= bound
        )
    if not keep.any():
        raise DatasetError(f"{dataset.name}: skip_rows leaves no row; raise its bounds")
    return frame[keep].reset_index(drop=True), row_numbers[keep]


def _target(
    campaign: Campaign, values: pd.Series[Any], table: str, row_numbers: NDArray[np.int64]
) -> NDArray[np.float64]:
    name = campaign.data.target
    y: NDArray[np.float64] = column_values(
        Column(name, NUMBER), values, table=f"{table}, target", row_numbers=row_numbers
    )
    if campaign.score == "mape" and (y <= 0).any():
        raise DatasetError(
            f"{table}: target '{name}' has {describe_rows(y <= 0, row_numbers)} ≤ 0, and a "
            "relative error (MAPE) needs positive ones. Drop those rows, or rank by score = rmse."
        )
    if len(y) > 1 and (y == y[0]).all():
        raise DatasetError(
            f"{table}: target '{name}' is {y[0]:g} in every row; there is nothing to predict"
        )
    return y


def _feature_columns(
    campaign: Campaign, dataset: Dataset, frame: pd.DataFrame, row_numbers: NDArray[np.int64]
) -> list[Column]:
    data = campaign.data
    if data.target in data.use_columns:
        raise UsageError(
            f"use_columns: '{data.target}' is the target; a model that sees it predicts nothing"
        )
    names = data.use_columns or [c for c in dataset.columns if c not in data.skip_columns]
    names = [n for n in dict.fromkeys(names) if n != data.target]
    if not names:
        raise DatasetError(f"{dataset.name}: no column is left to predict '{data.target}' from")
    unused = [c for c in data.categorical if c not in names]
    if unused:
        raise UsageError(f"categorical_columns: '{unused[0]}' is not among the columns used")
    columns = [recognize(n, frame[n], as_category=n in data.categorical) for n in names]
    for column in columns:  # early, so that a gap is reported before features are derived
        column_values(column, frame[column.name], table=dataset.name, row_numbers=row_numbers)
    return columns


def _check_finite(x: NDArray[np.float64], feature_map: FeatureMap, table: str) -> None:
    finite = np.isfinite(x).all(axis=0)
    if not finite.all():
        name = feature_map.names[int(np.flatnonzero(~finite)[0])]
        raise DatasetError(f"{table}: feature '{name}' overflows; lower the degree of products")


def _configurations(settings: pd.DataFrame) -> NDArray[np.int64]:
    """Number the distinct rows in order of first appearance."""
    numbers = settings.groupby(list(settings.columns), sort=False, dropna=False).ngroup()
    return np.asarray(numbers, dtype=np.int64)
