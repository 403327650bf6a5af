"""Saved models: a zip of JSON and plain arrays that is checked on reading and runs no code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pydantic
from numpy.typing import NDArray

from foretell.dataset import Dataset, read_dataset
from foretell.errors import ForetellError, ModelError
from foretell.model.directory import write_whole
from foretell.model.features import CATEGORY, NUMBER, Column, Factor, Feature, FeatureMap
from foretell.model.features._base import STEPS, Kind
from foretell.model.learner import Learned, Scaling
from foretell.model.techniques import TECHNIQUES, State

FORMAT = 1
_HEADER = "model.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal models are equal files
_MOST_BYTES = 2**31  # unpacked; a small file may claim to hold far more


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class _ColumnHeader(_Strict):
    name: str
    kind: Kind
    levels: list[str] = []


class _FactorHeader(_Strict):
    column: str
    steps: list[str] = []
    level: str | None = None

    @pydantic.field_validator("steps")
    @classmethod
    def _known(cls, steps: list[str]) -> list[str]:
        if unknown := set(steps) - set(STEPS):
            raise ValueError(f"unknown step {sorted(unknown)[0]}")
        return steps


class _FeatureHeader(_Strict):
    name: str
    factors: list[_FactorHeader] = pydantic.Field(min_length=1)


class _Header(_Strict):
    """Everything in a model file but the arrays."""

    format: int
    foretell: str
    technique: str
    hyperparameters: dict[str, Any]
    target: str
    columns: list[_ColumnHeader]
    features: list[_FeatureHeader] = pydantic.Field(min_length=1)
    rename: dict[str, str]
    ranges: dict[str, tuple[float, float]]
    n_rows: int
    scores: dict[str, dict[str, float | None]]
    floor: float | None
    y_scaling: tuple[float, float] | None
    values: dict[str, Any]

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> _Header:
        names = {c.name for c in self.columns}
        for feature in self.features:
            for factor in feature.factors:
                if factor.column not in names:
                    raise ValueError(f"feature {feature.name} needs an undeclared column")
        return self


@dataclass(frozen=True)
class SavedModel:
    """A model that predicts from named columns, and what is known about how it was made.

    ``scores`` holds the errors measured for it: on its training rows, and on validation rows.
    """

    technique: str
    hyperparameters: dict[str, Any]
    target: str
    feature_map: FeatureMap
    learned: Learned
    rename: dict[str, str]
    ranges: dict[str, tuple[float, float]]
    n_rows: int
    scores: dict[str, dict[str, float | None]]
    writer: str

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs, under the names the model was trained with."""
        return [c.name for c in self.feature_map.columns]

    @property
    def used_features(self) -> list[str]:
        """The features the model uses, in the order of its coefficients."""
        names = self.feature_map.names
        return [names[i] for i in self.learned.columns]

    def predict(self, frame: pd.DataFrame | Dataset | str | Path) -> NDArray[np.float64]:
        """Return one prediction per row; other columns and their order do not matter."""
        dataset = self.configurations(frame)
        x = self.feature_map.matrix(dataset.frame, name=dataset.name)
        return self.learned.predict(x)

    def configurations(self, source: pd.DataFrame | Dataset | str | Path) -> Dataset:
        """Read a table, rename its columns as in training, and check that all are there."""
        dataset = read_dataset(source)
        old = {o: n for o, n in self.rename.items() if n not in dataset.columns}
        dataset = Dataset(dataset.frame.rename(columns=old), dataset.name)
        try:
            dataset.require(self.columns, wanted_by=f"this model of {self.target}")
        except ForetellError as error:
            raise ModelError(str(error)) from None
        return dataset

    def outside(self, frame: pd.DataFrame | Dataset) -> list[str]:
        """Say for each row which columns leave the training data; empty when none does."""
        frame = self.configurations(frame).frame
        remarks: list[list[str]] = [[] for _ in range(len(frame))]
        for name, (low, high) in self.ranges.items():
            values = frame[name].to_numpy(float)
            for i in np.flatnonzero((values < low) | (values > high)):
                bound = low if values[i] < low else high
                remarks[i].append(
                    f"{name}: {values[i]:g}, measured up to {bound:g}"
                    if bound == high
                    else f"{name}: {values[i]:g}, measured from {bound:g}"
                )
        for name, levels in self.feature_map.unknown_levels(frame).items():
            for i in np.flatnonzero(frame[name].astype(str).isin(levels)):
                remarks[i].append(f"{name}: unknown level {frame[name].iloc[i]}")
        return ["; ".join(r) for r in remarks]

    @cached_property
    def formula(self) -> str | None:
        """The model as a formula in the units of the table, when it is linear."""
        found = self.learned.coefficients()
        if found is None:
            return None
        coefficients, intercept = found
        order = np.argsort(-np.abs(coefficients), kind="stable")
        terms = [
            f"{coefficients[i]:+.6g}·{self.used_features[i]}" for i in order if coefficients[i]
        ]
        text = " ".join([*terms, f"{intercept:+.6g}"])
        return f"{self.target} = {text.removeprefix('+')}"

    def importances(self) -> dict[str, float] | None:
        """Return the share of each feature, largest first, when the model has such shares."""
        shares = self.learned.regressor.importances()
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
        state = self.learned.regressor.to_state()
        scaling = self.learned.scaling
        arrays: dict[str, NDArray[Any]] = {f"regressor/{k}": v for k, v in state.arrays.items()}
        arrays["columns"] = self.learned.columns.astype(np.int64)
        if scaling is not None:
            arrays["x_mean"], arrays["x_deviation"] = scaling.x_mean, scaling.x_deviation
        header = self._header(state.values).model_dump(mode="json")
        return _pack(header, arrays)

    def _header(self, values: dict[str, Any]) -> _Header:
        scaling = self.learned.scaling
        return _Header(
            format=FORMAT,
            foretell=self.writer,
            technique=self.technique,
            hyperparameters=self.hyperparameters,
            target=self.target,
            columns=[
                _ColumnHeader(name=c.name, kind=c.kind, levels=list(c.levels))
                for c in self.feature_map.columns
            ],
            features=[_feature_header(f) for f in self.feature_map.features],
            rename=self.rename,
            ranges=self.ranges,
            n_rows=self.n_rows,
            scores=self.scores,
            floor=self.learned.floor,
            y_scaling=(scaling.y_mean, scaling.y_deviation) if scaling else None,
            values=values,
        )


def _feature_header(feature: Feature) -> _FeatureHeader:
    factors = [
        _FactorHeader(column=f.column, steps=list(f.steps), level=f.level) for f in feature.factors
    ]
    return _FeatureHeader(name=feature.name, factors=factors)


def load_model(path: str | Path) -> SavedModel:
    """Read a model file, or the best model of a results directory; nothing in it is executed."""
    path = Path(path)
    if path.is_dir():
        if not (path / "best.foretell").exists():
            raise ModelError(f"{path} holds no best.foretell; name a model file, or fit one there")
        path = path / "best.foretell"
    if not path.exists():
        raise ModelError(f"there is no model {path}")
    try:
        return _unpack(path)
    except ModelError:
        raise
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{path} is not a sound foretell model ({reason}). Copy it again, or fit it again."
        ) from None


def _unpack(path: Path) -> SavedModel:
    start = path.open("rb").read(4)
    if start[:1] == b"\x80":
        raise ModelError(
            f"{path} is not a foretell model (it looks like a Python pickle). "
            "foretell never loads pickles: they can run code."
        )
    if start != b"PK\x03\x04":
        raise ModelError(f"{path} is not a foretell model; `foretell fit` writes them")
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
            raise ModelError(f"{path} unpacks to more than 2 GiB, which no foretell model does")
        if _HEADER not in archive.namelist():
            raise ModelError(f"{path} is not a foretell model: it holds no {_HEADER}")
        values = json.loads(archive.read(_HEADER))
        _check_format(values, path)
        header = _Header.model_validate(values)
        arrays = {
            name.removesuffix(".npy"): _read_array(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".npy")
        }
    return _rebuild(header, arrays, path)


def _check_format(values: Any, path: Path) -> None:
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise ModelError(f"{path} is not a foretell model: its header says no format")
    if values["format"] > FORMAT:
        raise ModelError(
            f"{path} was written by foretell {values.get('foretell')} in format "
            f"{values['format']}; this one reads up to {FORMAT}. Upgrade foretell to read it."
        )


def _read_array(content: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return array


def _rebuild(header: _Header, arrays: dict[str, NDArray[Any]], path: Path) -> SavedModel:
    feature_map = FeatureMap(
        tuple(Column(c.name, c.kind, tuple(c.levels)) for c in header.columns),
        tuple(
            Feature(f.name, tuple(Factor(t.column, tuple(t.steps), t.level) for t in f.factors))
            for f in header.features
        ),
    )
    columns = _column_positions(arrays["columns"], len(feature_map.features))
    if header.technique not in TECHNIQUES.names():
        raise ModelError(
            f"{path} needs the technique '{header.technique}', which is not installed here"
        )
    state = State(
        header.values,
        {k.removeprefix("regressor/"): v for k, v in arrays.items() if k.startswith("regressor/")},
    )
    regressor = TECHNIQUES.get(header.technique).regressor.from_state(state, len(columns))
    scaling = _scaling(header, arrays, len(columns))
    return SavedModel(
        technique=header.technique,
        hyperparameters=header.hyperparameters,
        target=header.target,
        feature_map=feature_map,
        learned=Learned(columns, scaling, regressor, header.floor),
        rename=header.rename,
        ranges=header.ranges,
        n_rows=header.n_rows,
        scores=header.scores,
        writer=header.foretell,
    )


def _column_positions(columns: NDArray[Any], n_features: int) -> NDArray[np.int64]:
    if columns.dtype != np.int64 or columns.ndim != 1 or not len(columns):
        raise ValueError("columns must be a list of whole numbers")
    if columns.min() < 0 or columns.max() >= n_features:
        raise ValueError("columns point outside the features")
    return columns


def _scaling(header: _Header, arrays: Mapping[str, NDArray[Any]], n: int) -> Scaling | None:
    if header.y_scaling is None:
        return None
    x_mean, x_deviation = arrays["x_mean"], arrays["x_deviation"]
    for array in (x_mean, x_deviation):
        if array.shape != (n,) or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError("the scaling does not fit the columns")
    return Scaling(x_mean, x_deviation, *header.y_scaling)


def _pack(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, _HEADER, json.dumps(header, indent=1).encode())
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(arrays[name]), (1, 0), False)
            _add(archive, f"{name}.npy", content.getvalue())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def training_ranges(feature_map: FeatureMap, frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Measure the range of each numeric column."""
    return {
        c.name: (float(frame[c.name].min()), float(frame[c.name].max()))
        for c in feature_map.columns
        if c.kind == NUMBER
    }


__all__ = ["CATEGORY", "SavedModel", "load_model", "training_ranges"]
