"""Predictions by node type, the one path: models or formulas in, cached estimates out."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.placement.cluster import Cluster, NodeTypeTable
from foretell.decide.placement.tasks import Task, Value
from foretell.errors import ForetellError, UsageError
from foretell.machines import NodeType
from foretell.predictor import (
    TRUST_FAR,
    TRUST_INSIDE,
    TRUST_MISSING,
    TRUST_NEAR,
    TRUST_UNKNOWN,
    Forecast,
    Predictor,
)
from foretell.spaces.expressions import Expression
from foretell.spaces.quantities import ENERGY, TIME, quantity_of_name

Array = NDArray[np.float64]
Columns = Mapping[str, Value]

_LEVEL, _Z = 0.9, 1.6449  # of intervals, and the normal quantile of their upper end
_MOST_CACHED = 200_000
#: Tasks that are predicted together: enough to be fast, and few enough for memory.
_AT_ONCE = 1_000
#: How far a prediction can be trusted, the worst last.
_TRUSTS = (TRUST_INSIDE, TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN, TRUST_MISSING)


@dataclass(frozen=True)
class Figure:
    """A predicted time or energy: NaN if there is none, and then why."""

    value: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    trust: str = TRUST_INSIDE
    remark: str = ""

    @property
    def is_known(self) -> bool:
        """Whether a decision may use it."""
        return self.value > 0 and math.isfinite(self.value) and self.trust in _TRUSTS[:2]

    @property
    def log_error(self) -> float:
        """The standard error of its logarithm; 0 if there is no interval."""
        if not (self.is_known and 0 < self.lower < self.upper < math.inf):
            return 0.0
        return math.log(self.upper / self.lower) / (2 * _Z)

    def scaled(self, factor: float) -> Figure:
        """Return it in another unit."""
        return Figure(
            self.value * factor, self.lower * factor, self.upper * factor, self.trust, self.remark
        )


class Source(Protocol):
    """Predicts one quantity of tasks on one type of node."""

    @property
    def digest(self) -> str:
        """A text that changes when its predictions do."""

    @property
    def columns(self) -> Sequence[str]:
        """What of a task its predictions use."""

    def figures(self, rows: Sequence[Columns]) -> list[Figure]:
        """Predict a quantity for some tasks."""


@dataclass(frozen=True)
class ModelSource:
    """Predictions of a fitted model, in base units."""

    predictor: Predictor
    unit: float
    digest: str

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the model."""
        return self.predictor.columns

    def figures(self, rows: Sequence[Columns]) -> list[Figure]:
        """Predict all rows at once, equal ones only once."""
        names = self.predictor.columns
        keys = [tuple(repr(row.get(name)) for name in names) for row in rows]
        different = dict(zip(keys, rows, strict=True))
        found = dict(zip(different, self._figures(list(different.values())), strict=True))
        return [found[key] for key in keys]

    def _figures(self, rows: Sequence[Columns]) -> list[Figure]:
        """Predict rows together; if one of them cannot be predicted, one by one."""
        for name in self.predictor.columns:
            if any(name not in row for row in rows):
                if len(rows) > 1:
                    return [figure for row in rows for figure in self._figures([row])]
                return [_missing(f"the model of {self.predictor.target} needs '{name}'")]
        try:
            found = self._forecast(rows)
        except ForetellError as error:
            if len(rows) > 1:
                return [figure for row in rows for figure in self._figures([row])]
            return [_missing(str(error))]
        columns = (found.value, found.lower, found.upper, found.trust, found.outside)
        return [
            Figure(float(value), float(low), float(high), str(trust), remark).scaled(self.unit)
            for value, low, high, trust, remark in zip(*columns, strict=True)
        ]

    def _forecast(self, rows: Sequence[Columns]) -> Forecast:
        columns = self.predictor.columns
        if len(rows) == 1 and self._by_row is not None:
            return self._by_row.forecast_row({c: rows[0][c] for c in columns}, _LEVEL)
        return self.predictor.forecast(
            pd.DataFrame({c: [row[c] for row in rows] for c in columns}), _LEVEL
        )

    @cached_property  # the check takes as long as a tenth of a prediction
    def _by_row(self) -> _PredictsRows | None:
        return self.predictor if isinstance(self.predictor, _PredictsRows) else None


@runtime_checkable
class _PredictsRows(Protocol):
    """A model that predicts one row in less time than a table of one row."""

    def forecast_row(self, row: Columns, interval: float) -> Forecast: ...


@dataclass(frozen=True)
class FormulaSource:
    """An expression of the task's columns."""

    expression: Expression
    quantity: str

    @property
    def digest(self) -> str:
        """The expression."""
        return self.expression.text

    @property
    def columns(self) -> Sequence[str]:
        """The names in the expression."""
        return tuple(self.expression.names)

    def figures(self, rows: Sequence[Columns]) -> list[Figure]:
        """Compute the expression for each row."""
        return [self._figure(row) for row in rows]

    def _figure(self, row: Columns) -> Figure:
        for name in self.expression.names:
            if name not in row:
                return _missing(f"'{self.expression.text}' needs '{name}'")
        try:
            value = float(self.expression.value(row))
        except (UsageError, ValueError, OverflowError) as error:
            return _missing(str(error))
        if value <= 0:
            return _missing(f"'{self.expression.text}' is {value:g}, and must be more than 0")
        return Figure(value, value, value)


@dataclass(frozen=True)
class PowerSource:
    """Energy from a predicted time and the power that the task adds to an idle node."""

    time: Source
    node_type: NodeType

    @property
    def digest(self) -> str:
        """What the time and the power depend on."""
        return f"{self.time.digest} {self.node_type!r}"

    @property
    def columns(self) -> Sequence[str]:
        """What the time uses."""
        return self.time.columns

    def figures(self, rows: Sequence[Columns]) -> list[Figure]:
        """Predict times, and multiply them by watts."""
        return self.energies(rows, self.time.figures(rows))

    def energies(self, rows: Sequence[Columns], times: Sequence[Figure]) -> list[Figure]:
        """Multiply times that were predicted before by watts."""
        found = []
        for row, time in zip(rows, times, strict=True):
            added_w = self.node_type.added_watts(float(row["cpus"]))
            assert added_w is not None
            found.append(time.scaled(added_w))
        return found


@dataclass(frozen=True)
class TypeModel:
    """What predicts tasks on one type of node.

    Attributes
    ----------
    columns
        Columns that are the same for all tasks on such a node, such as its governor.
    """

    name: str
    time: Source | None
    energy: Source | None
    columns: Columns = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A text that changes when a prediction for this type may change."""
        parts = [self.name, repr(sorted(self.columns.items()))]
        parts += ["" if s is None else s.digest for s in (self.time, self.energy)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Estimate:
    """The predicted time and energy of a task on one type of node."""

    time: Figure
    energy: Figure

    def figures(self, kinds: Collection[str]) -> list[Figure]:
        """Return the time, the energy or both."""
        both = ((TIME, self.time), (ENERGY, self.energy))
        return [figure for kind, figure in both if kind in kinds]

    @property
    def trust(self) -> str:
        """The lesser trust of the two."""
        return self.trust_in((TIME, ENERGY))

    def trust_in(self, kinds: Collection[str]) -> str:
        """Return the least trust of the figures that count."""
        return max((figure.trust for figure in self.figures(kinds)), key=_order)

    def slowed(self, factor: float) -> Estimate:
        """Return it with a longer time: slower work takes the same energy of its own."""
        return Estimate(self.time.scaled(factor), self.energy)

    @property
    def remark(self) -> str:
        """What is to be said about the predictions: why there are none, or how far out they are."""
        return self.remark_on((TIME, ENERGY))

    def remark_on(self, kinds: Collection[str]) -> str:
        """Return what is to be said about the figures that count."""
        return "; ".join(dict.fromkeys(filter(None, (f.remark for f in self.figures(kinds)))))


@dataclass(frozen=True, eq=False)
class TypeEstimates:
    """The estimates of a task on all types of nodes, also as arrays; NaN where not known."""

    by_type: tuple[Estimate, ...]
    time_s: Array
    energy_j: Array
    time_error: Array
    energy_error: Array

    def knows(self, kinds: Collection[str]) -> bool:
        """Whether all figures that count are known on some type of nodes."""
        return any(all(f.is_known for f in e.figures(kinds)) for e in self.by_type)

    def why_unknown(self, kinds: Collection[str], types: Iterable[int] | None = None) -> str:
        """Return why a figure that counts is not known, on the first type where it is so."""
        asked = self.by_type if types is None else [self.by_type[i] for i in types]
        unknown = (f for e in asked for f in e.figures(kinds) if not f.is_known)
        return next(filter(None, (f.remark for f in unknown)), "")

    @classmethod
    def of(cls, by_type: Sequence[Estimate]) -> TypeEstimates:
        """Collect estimates, one per type."""

        def known(figures: Iterable[Figure]) -> Array:
            return np.array([f.value if f.is_known else math.nan for f in figures])

        return cls(
            tuple(by_type),
            known(e.time for e in by_type),
            known(e.energy for e in by_type),
            np.array([e.time.log_error for e in by_type]),
            np.array([e.energy.log_error for e in by_type]),
        )


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of tasks, and the digests of the models that made them."""

    digests: Sequence[str]
    by_key: Mapping[tuple[object, ...], TypeEstimates]


class Estimates:
    """Predicts tasks on every type of node, each only once.

    An estimate is kept by what it depends on: the type with its fixed columns and the digests of
    its models, and the task's needs and features.
    """

    def __init__(self, models: Sequence[TypeModel]) -> None:
        self.models = list(models)
        self.n_predicted = 0
        self._digests = [model.digest for model in models]
        self._known: OrderedDict[tuple[object, ...], TypeEstimates] = OrderedDict()

    def of(self, task: Task, *, is_kept: bool = True) -> TypeEstimates:
        """Return the estimates of a task; unless kept, new ones are not remembered."""
        found = self._known.get(task.key)
        if found is None:
            predicted = self.predict_new([task])
            if is_kept:
                self.keep(predicted)
            found = predicted.by_key[task.key]
        return found

    @property
    def predicts(self) -> bool:
        """Whether there is any model or formula."""
        return bool(self._sources())

    @property
    def columns(self) -> set[str]:
        """What of a task any prediction uses."""
        return {name for source in self._sources() for name in source.columns}

    def _sources(self) -> list[Source]:
        return [s for model in self.models for s in (model.time, model.energy) if s is not None]

    def knows(self, task: Task) -> bool:
        """Whether a task has been predicted already."""
        return task.key in self._known

    def prefetch(self, tasks: Iterable[Task]) -> None:
        """Predict many tasks at once, those that are not known yet."""
        self.keep(self.predict_new(tasks))

    def predict_new(self, tasks: Iterable[Task]) -> Predicted:
        """Predict those tasks that are not known yet; nothing is remembered, as in ``keep``.

        Another thread may use the estimates meanwhile.
        """
        models, digests = self.models, self._digests
        new = {task.key: task for task in tasks if task.key not in self._known}
        tasks, found = list(new.values()), {}
        for start in range(0, len(tasks), _AT_ONCE):
            some = tasks[start : start + _AT_ONCE]
            by_type = self._predict(models, some)
            for task, estimates in zip(some, zip(*by_type, strict=True), strict=True):
                found[task.key] = TypeEstimates.of(estimates)
        return Predicted(digests, found)

    def keep(self, predicted: Predicted) -> None:
        """Remember predictions, unless they are those of models that are no longer in use."""
        if predicted.digests != self._digests:
            return
        self._known |= predicted.by_key
        while len(self._known) > max(_MOST_CACHED, len(predicted.by_key)):
            self._known.popitem(last=False)

    def replace(self, models: Sequence[TypeModel]) -> None:
        """Use other models from now on; what was predicted by changed ones is forgotten."""
        self.models = list(models)
        digests = [model.digest for model in models]
        if digests != self._digests:
            self._digests = digests
            self._known.clear()

    def _predict(self, models: Sequence[TypeModel], tasks: Sequence[Task]) -> list[list[Estimate]]:
        """Predict tasks on each type."""
        rows = [[{**task.columns, **model.columns} for task in tasks] for model in models]
        self.n_predicted += len(models) * len(tasks)
        sources = [*(model.time for model in models), *(model.energy for model in models)]
        figures = _figures(sources, [*rows, *rows])
        found = []
        for model, times, energies in zip(
            models, figures[: len(models)], figures[len(models) :], strict=True
        ):
            times = times or [_missing(f"{model.name} has no model of time")] * len(tasks)
            energies = energies or [_missing(f"{model.name} has no model of energy")] * len(tasks)
            found.append([Estimate(*pair) for pair in zip(times, energies, strict=True)])
        return found


def _figures(
    sources: Sequence[Source | None], rows: Sequence[Sequence[Columns]]
) -> list[list[Figure]]:
    """Predict the rows of each source; those of one model together, which takes less time."""
    members: dict[str, list[int]] = {}
    for i, source in enumerate(sources):
        if source is not None:
            members.setdefault(_root(source).digest, []).append(i)
    found: list[list[Figure]] = [[] for _ in sources]
    for own in members.values():
        first = sources[own[0]]
        assert first is not None
        predicted = iter(_root(first).figures([row for i in own for row in rows[i]]))
        for i in own:
            source, found[i] = sources[i], list(islice(predicted, len(rows[i])))
            if isinstance(source, PowerSource):
                found[i] = source.energies(rows[i], found[i])
    return found


def _root(source: Source) -> Source:
    """Return what predicts: of an energy that follows from a time, the source of the time."""
    return source.time if isinstance(source, PowerSource) else source


def type_models(
    cluster: Cluster, predictors: Mapping[str, Sequence[tuple[Predictor, str]]]
) -> list[TypeModel]:
    """Return what predicts tasks on each type of node: fitted models first, formulas without.

    ``predictors`` holds the models of each type, each with its digest.
    """
    return [_type_model(table, predictors.get(table.name, ())) for table in cluster.node_type]


def true_models(
    cluster: Cluster, predictors: Mapping[str, Sequence[tuple[Predictor, str]]]
) -> list[TypeModel]:
    """Return what tasks truly take on each type of node: formulas first, fitted models without."""
    found = []
    for table, model in zip(cluster.node_type, type_models(cluster, predictors), strict=True):
        time = _formula(table.time_s, TIME) or model.time
        energy: Source | None = _formula(table.energy_j, ENERGY)
        if energy is None and time is not None and table.node_type.watts(0.0) is not None:
            energy = PowerSource(time, table.node_type)
        found.append(TypeModel(table.name, time, energy or model.energy, table.columns))
    return found


def _type_model(table: NodeTypeTable, predictors: Sequence[tuple[Predictor, str]]) -> TypeModel:
    sources: dict[str, Source] = {}
    for predictor, digest in predictors:
        kind, unit = quantity_of_name(predictor.target) or ("", 1.0)
        if kind not in (TIME, ENERGY):
            raise UsageError(
                f"node type {table.name}: the model of {predictor.target} predicts neither a time "
                "nor an energy; name the target with its unit, such as time_s or energy_j"
            )
        if kind in sources:
            raise UsageError(f"node type {table.name}: has two models of {kind}; remove one")
        sources[kind] = ModelSource(predictor, unit, digest)
    time = sources.get(TIME) or _formula(table.time_s, TIME)
    energy = sources.get(ENERGY) or _formula(table.energy_j, ENERGY)
    if energy is None and time is not None and table.node_type.watts(0.0) is not None:
        energy = PowerSource(time, table.node_type)
    return TypeModel(table.name, time, energy, table.columns)


def _formula(written: float | str | None, quantity: str) -> FormulaSource | None:
    return None if written is None else FormulaSource(Expression(str(written)), quantity)


def _missing(why: str) -> Figure:
    return Figure(trust=TRUST_MISSING, remark=why)


def _order(trust: str) -> int:
    return _TRUSTS.index(trust) if trust in _TRUSTS else len(_TRUSTS)
