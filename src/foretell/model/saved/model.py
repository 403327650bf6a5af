"""Saved models: they predict from named columns, and are checked when read from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pydantic
from numpy.typing import NDArray

from foretell.dataset import Dataset, TextTable, describe_rows, read_with_text
from foretell.errors import DatasetError, ModelError, listing, suggest
from foretell.executors import by_blocks
from foretell.files.complaints import shown
from foretell.files.directory import write_whole
from foretell.files.text_file import near_file
from foretell.model.directory import BEST
from foretell.model.features.cells import MISSING, Fault, first_faults, read_cells
from foretell.model.features.feature import CATEGORY
from foretell.model.features.feature_map import FeatureMap, Values, read_row
from foretell.model.fitter import FLOOR_SHARE, FittedModel, Scaling
from foretell.model.passports.calibration import Calibration
from foretell.model.passports.known_errors import KnownError
from foretell.model.passports.measured_range import MeasuredRange, not_positive
from foretell.model.passports.passport import check_level, forecast, outlook, places
from foretell.model.saved.file import Archive, pack
from foretell.model.saved.header import Header
from foretell.model.saved.terms import matters
from foretell.model.techniques import TECHNIQUES, State
from foretell.model.techniques._state import join_states, part_of, read_array
from foretell.predictor import Forecast, Outlook
from foretell.wording import counted

#: 1 had no levels and no calibration, 2 did not say why intervals are missing, 3 had ensembles
#: without runs and laws of other terms.
FORMAT = 4
_MOST_REASON = 200  # characters, of what may be a hostile text
#: What a model and the header of its file hold under the same name.
_SAME = (
    "technique", "hyperparameters", "target", "rename", "ranges", "levels", "calibration",
    "no_intervals", "n_rows", "scores",
)  # fmt: skip


@dataclass(frozen=True)
class Configurations(Dataset):
    """A table as one model sees it: renamed and checked, which must not happen twice."""

    model: SavedModel = field(kw_only=True)

    @property
    def values(self) -> Values:
        """What its columns hold; raise a DatasetError that names all cells that have a fault."""
        values, faults = self._read
        if faults:
            told = listing(fault.text(self.row_numbers) for fault in faults)
            are_missing = all(fault.what == MISSING for fault in faults)
            what_to_do = "Fill them in" if are_missing else "Correct them"
            raise DatasetError(f"{self.name}, {told}. {what_to_do}, or drop those rows.")
        return values

    @property
    def faults(self) -> list[Fault]:
        """The cells that the model cannot use."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Values, list[Fault]]:
        read = {c.name: read_cells(c, self.frame[c.name]) for c in self.model.feature_map.columns}
        values = {name: found for name, (found, _) in read.items()}
        faults = [fault for _, own in read.values() for fault in own]
        return values, first_faults([*faults, *self.model.faults_of(values)])

    @property
    def is_usable(self) -> NDArray[np.bool_]:
        """Which rows have no fault."""
        usable: NDArray[np.bool_] = np.ones(len(self.frame), dtype=bool)
        for fault in self.faults:
            usable &= ~fault.mask
        return usable


class TooFarError(DatasetError):
    """The model predicts no finite number for some rows, which the mask marks."""

    def __init__(self, name: str, row_numbers: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        rows = describe_rows(mask, row_numbers, "prediction without value")
        super().__init__(
            f"{name} gives {rows}: they lie too far outside the data the model was "
            "fitted on. Correct or drop those rows."
        )
        self.mask = mask


@dataclass(frozen=True)
class SavedModel:
    """A model that predicts from named columns, and what is known about how it was made.

    ``scores`` holds the errors measured for it: on its training rows, and on validation rows.
    """

    technique: str
    hyperparameters: dict[str, Any]
    target: str
    feature_map: FeatureMap
    fitted: FittedModel
    rename: dict[str, str]
    ranges: dict[str, tuple[float, float]]
    n_rows: int
    scores: dict[str, dict[str, float | None]]
    writer: str
    levels: dict[str, list[float]] = field(default_factory=dict)
    calibration: Calibration | None = None
    no_intervals: str | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether predictions have intervals; ``no_intervals`` says why not."""
        return self.calibration is not None

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs, under the names the model was trained with."""
        return [c.name for c in self.feature_map.columns]

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The levels of each category."""
        return {c.name: c.levels for c in self.feature_map.columns if c.kind == CATEGORY}

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest prediction, at which those further out are held."""
        return self.fitted.limits

    @property
    def reaches(self) -> dict[str, tuple[float, float]]:
        """How far below and above the range of each numeric column errors are known, as ratios."""
        known = {} if self.calibration is None else self.calibration.reaches
        return {name: known.get(name, (1.0, 1.0)) for name in self.ranges}

    @property
    def errors(self) -> list[KnownError]:
        """The mean errors on runs held out, by question, column and direction."""
        return [] if self.calibration is None else self.calibration.errors

    @cached_property
    def measured(self) -> MeasuredRange:
        """What was measured of the numeric columns, in the order of the ranges."""
        low, high = np.array(list(self.ranges.values()), dtype=float).reshape(-1, 2).T
        levels = tuple(np.array(self.levels.get(name, [])) for name in self.ranges)
        return MeasuredRange(low, high, levels)

    @cached_property
    def used_features(self) -> list[str]:
        """The features the model uses, in the order of its coefficients."""
        names = self.feature_map.names
        return [names[i] for i in self.fitted.columns]

    def predict(self, frame: pd.DataFrame | Dataset | str | Path) -> NDArray[np.float64]:
        """Return one prediction per row; other columns and their order do not matter."""
        configurations = self.configurations(frame)
        return self._estimate(
            self.fitted.estimate,
            configurations.values,
            configurations.name,
            configurations.row_numbers,
        )

    def _with_doubt(
        self, values: Values, name: str, rows: NDArray[np.int64], probabilities: Sequence[float]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict, and say how far models that explain the data about as well are from that."""
        columns = self._estimate(
            lambda x: self.fitted.estimate_with_doubt(x, probabilities), values, name, rows
        )
        return columns[:, 0], columns[:, 1:]

    def _estimate(
        self,
        estimate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        values: Values,
        name: str,
        row_numbers: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            x = self.feature_map.matrix_of(values, name, row_numbers)
            predicted = by_blocks(estimate, x)
        bad = ~np.isfinite(predicted if predicted.ndim == 1 else predicted[:, 0])
        if bad.any():
            raise TooFarError(name, row_numbers, bad)
        return predicted

    def is_stopped(self, values: Values, n_rows: int) -> NDArray[np.bool_]:
        """Say of which rows only lower bounds are known, because runs near them were stopped."""
        if not self.fitted.regressor.has_stopped:
            return np.zeros(n_rows, dtype=bool)
        x = self.feature_map.matrix_of(values, "the table", np.arange(n_rows))
        return self.fitted.is_stopped(x)

    def faults_of(self, values: Values) -> list[Fault]:
        """Find values, of columns that were read, that the model cannot use."""
        return [*self.feature_map.step_faults(values), *not_positive(self.ranges, values)]

    def configurations(
        self, source: pd.DataFrame | Dataset | TextTable | str | Path
    ) -> Configurations:
        """Read a table, rename its columns as in training, and check that all are there."""
        if isinstance(source, Configurations) and source.model is self:
            return source
        dataset = read_with_text(source, self._categories)
        names = self._names(dataset.columns)
        renamed = dataset.frame.rename(columns=names)
        configurations = Configurations(
            renamed, dataset.name, rows=dataset.rows, unreadable=dataset.unreadable, model=self
        )
        try:
            configurations.require(self.columns)
        except DatasetError as error:
            raise ModelError(f"{error} This model of {self.target} needs it.") from None
        return configurations

    def _names(self, columns: list[str]) -> dict[str, str]:
        """Return each column's name in training: renamed all together, or all new already.

        A table has the old names when it has all that are needed, and no two columns would have
        one name: training refused such a table.
        """
        names = {name: self.rename.get(name, name) for name in columns}
        needed = {old for old, new in self.rename.items() if new in self.columns}
        is_old = needed <= names.keys() and len(set(names.values())) == len(names)
        return names if is_old else {name: name for name in columns}

    def _categories(self, columns: list[str]) -> list[str]:
        kinds = {c.name: c.kind for c in self.feature_map.columns}
        return [old for old, new in self._names(columns).items() if kinds.get(new) == CATEGORY]

    def forecast(
        self, frame: pd.DataFrame | Dataset | str | Path, interval: float = 0.9
    ) -> Forecast:
        """Predict with passports: an interval, how far outside the data, and the error there."""
        rows = self.configurations(frame)
        return self._forecast(rows.values, rows.name, rows.row_numbers, interval)

    def _forecast(
        self, values: Values, name: str, rows: NDArray[np.int64], interval: float
    ) -> Forecast:
        tail = (1 - check_level(interval)) / 2
        value, doubt = self._with_doubt(values, name, rows, (tail, 1 - tail))
        return forecast(self, values, value, interval, doubt)

    def forecast_row(self, row: Mapping[str, Any], interval: float = 0.9) -> Forecast:
        """Predict one configuration with its passport: as ``forecast``, in less time."""
        values = None if self.rename else read_row(self.feature_map.columns, row)
        if values is None or self.faults_of(values):
            # A table says what is wrong, or reads it after all.
            table = Dataset(pd.DataFrame([row]), "the row")
            return self.forecast(self.configurations(table), interval)
        return self._forecast(values, "the row", np.ones(1, dtype=np.int64), interval)

    def outlook(
        self, frame: pd.DataFrame | Dataset | str | Path, probabilities: Sequence[float]
    ) -> Outlook:
        """Predict many rows, with the quantiles that are asked for, and without texts."""
        rows = self.configurations(frame)
        value, doubt = self._with_doubt(rows.values, rows.name, rows.row_numbers, probabilities)
        return outlook(self, rows.values, value, probabilities, doubt)

    def outside(self, frame: pd.DataFrame | Dataset | str | Path) -> list[str]:
        """Say for each row which columns leave the training data; empty when none does."""
        configurations = self.configurations(frame)
        return places(self, configurations.values, len(configurations.frame)).remarks

    @cached_property
    def formula(self) -> str | None:
        """The model as a formula in the units of the table, when it is linear."""
        found = self.coefficients()
        return None if found is None else write_formula(self.target, *found)

    def coefficients(self) -> tuple[dict[str, float], float] | None:
        """Return a linear model's coefficients that matter, largest first, and its intercept."""
        found = self.fitted.coefficients()
        if found is None:
            return None
        values, intercept = found
        keep = self.terms_that_matter(values)
        order = np.argsort(-np.abs(values), kind="stable")
        return {self.used_features[i]: float(values[i]) for i in order if keep[i]}, intercept

    def terms_that_matter(self, coefficients: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which coefficients, in the units of the table, can change a prediction."""
        features = [self.feature_map.features[i] for i in self.fitted.columns]
        least_target = (self.fitted.floor or 0.0) / FLOOR_SHARE
        return matters(coefficients, features, self.ranges, least_target)

    def importances(self) -> dict[str, float] | None:
        """Return the share of each feature, largest first, when the model has such shares."""
        shares = self.fitted.regressor.importances()
        if shares is None:
            return None
        order = np.argsort(-shares, kind="stable")
        return {self.used_features[i]: float(shares[i]) for i in order if shares[i] > 0}

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in self.hyperparameters.items())
        return f"<foretell model of {self.target}: {self.technique}({settings})>"

    def save(self, path: Path) -> None:
        """Write the model; equal models give equal files."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the model's file."""
        state = self.fitted.regressor.to_state()
        scaling = self.fitted.scaling
        arrays = join_states({"regressor": state}).arrays
        arrays["columns"] = self.fitted.columns.astype(np.int64)
        if scaling is not None:
            arrays["x_mean"], arrays["x_deviation"] = scaling.x_mean, scaling.x_deviation
        header = Header(
            format=FORMAT,
            foretell=self.writer,
            columns=self.feature_map.columns,
            features=self.feature_map.features,
            floor=self.fitted.floor,
            y_scaling=(scaling.y_mean, scaling.y_deviation) if scaling else None,
            values=state.values,
            **{name: getattr(self, name) for name in _SAME},
        )
        return pack(header.model_dump(mode="json"), arrays)


def write_formula(
    target: str, coefficients: Mapping[str, float], intercept: float, *, most: int | None = None
) -> str:
    """Write a linear model as a formula, or its largest terms.

    >>> write_formula("time_s", {"size": 2.5, "inverse_nodes": -1.0}, 3.0)
    'time_s = 2.5·size -1·inverse_nodes +3'
    """
    terms = [f"{value:+.6g}·{name}" for name, value in coefficients.items()]
    n_more = 0 if most is None else max(0, len(terms) - most)
    shown = terms[: len(terms) - n_more]
    shown += [f"+ {counted(n_more, 'more term')}"] if n_more else []
    return f"{target} = {' '.join([*shown, f'{intercept:+.6g}']).removeprefix('+')}"


def load_model(path: str | Path) -> SavedModel:
    """Read a model file, or the best model of a results directory; nothing in it is executed."""
    path = Path(path)
    try:
        path = _model_file(path)
        if not path.is_file():  # a pipe would be waited for, and a device may never end
            raise ModelError(f"{path} is a pipe or a device; copy the model to a file")
        file = path.open("rb")
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the path") from None
    with file:
        return read_model(file, path)


def load_models(path: str | Path) -> list[SavedModel]:
    """Read a model file, the best model of a directory, or that of each target fitted there."""
    return [load_model(file) for file in model_files(path)]


def model_files(path: str | Path) -> list[Path]:
    """List the files that ``load_models`` reads."""
    path = Path(path)
    try:
        return [directory / BEST for directory in _target_directories(path)] or [_model_file(path)]
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the path") from None


def _target_directories(path: Path) -> list[Path]:
    """List the subdirectories of a fit of several targets; none for anything else."""
    if not path.is_dir() or (path / BEST).exists():
        return []
    return sorted(d for d in path.iterdir() if (d / BEST).is_file())


def read_model(file: IO[bytes], name: str | Path) -> SavedModel:
    """Read a model from an open file, called by a name in messages; nothing in it is executed."""
    try:
        return _rebuild(Archive(file, name), name)
    except ModelError:
        raise
    except Exception as error:  # in a damaged or hostile file, anything may be wrong
        raise ModelError(
            f"{name} is not a sound foretell model ({_reason(error)}). Copy it again, or fit "
            "it again."
        ) from None


def _model_file(path: Path) -> Path:
    if path.is_dir():
        if targets := _target_directories(path):
            raise ModelError(f"{path} holds one model per target; name one: {listing(targets)}")
        if not (path / BEST).exists():
            raise ModelError(f"{path} holds no {BEST}; name a model file, or fit one there")
        return path / BEST
    if not path.exists():
        raise ModelError(f"there is no model {path}{near_file(path) or '; check the path'}")
    return path


def _reason(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "header"
        return f"{place}: {first['msg'].removeprefix('Value error, ')}"[:_MOST_REASON]
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split())[:_MOST_REASON] or type(error).__name__


def _check_format(values: Any, name: str | Path) -> None:
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise ModelError(
            f"{name} is not a foretell model: its header has no format; `foretell fit` writes them"
        )
    if values["format"] > FORMAT:
        raise ModelError(
            f"{name} was written by foretell {shown(values.get('foretell'))} in format "
            f"{values['format']}; this one reads up to {FORMAT}. Upgrade foretell to read it."
        )
    if values["format"] < 1:
        raise ValueError(f"there is no format {values['format']}")


def _rebuild(archive: Archive, name: str | Path) -> SavedModel:
    values = archive.header()
    _check_format(values, name)
    header = Header.model_validate(values)
    arrays = State({"regressor": header.values}, archive.arrays())
    feature_map = FeatureMap(header.columns, header.features)
    columns = read_array(arrays, "columns", shape=(None,), dtype=np.int64)
    is_inside = len(columns) and columns[0] >= 0 and columns[-1] < len(feature_map.features)
    if not (is_inside and (np.diff(columns) > 0).all()):
        raise ValueError("columns must count up among the features")
    if header.technique not in TECHNIQUES.names():
        raise ModelError(
            f"{name} needs the technique {shown(header.technique)}, which is not installed here. "
            f"{suggest(header.technique, TECHNIQUES.names())}"
        )
    try:
        rebuild = TECHNIQUES.get(header.technique).regressor.from_state
        regressor = rebuild(part_of(arrays, "regressor"), len(columns))
    except ValueError:
        if header.format == FORMAT:
            raise
        raise ModelError(
            f"{name} was written by foretell {shown(header.foretell)} in format {header.format}, "
            f"in which {header.technique} can no longer be read. Fit it again."
        ) from None
    scaling = _scaling(header, arrays, len(columns))
    return SavedModel(
        feature_map=feature_map,
        fitted=FittedModel(columns, scaling, regressor, header.floor),
        writer=header.foretell,
        **{name: getattr(header, name) for name in _SAME},
    )


def _scaling(header: Header, arrays: State, n: int) -> Scaling | None:
    if header.y_scaling is None:
        return None
    x_mean, x_deviation = (
        read_array(arrays, name, shape=(n,)) for name in ("x_mean", "x_deviation")
    )
    if not (x_deviation > 0).all():
        raise ValueError("the scaling must be positive")
    return Scaling(x_mean, x_deviation, *header.y_scaling)
