"""Cluster files: node types, their models and power, the policy, moves and made-up tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from foretell.errors import UsageError, suggest
from foretell.files.complaints import refusal
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed
from foretell.machines import Node, NodeType, PowerCurve, Resources
from foretell.spaces.expressions import Expression
from foretell.spaces.quantities import TIME, read_quantity
from foretell.spaces.values import Scalar, Values

CLUSTER_FILE = FileKind("cluster", "one [[node_type]]", (".toml",))

_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True)
Seconds = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
Amount = float | str
Energy = Literal["task", "marginal", "node"]
Migratable = Literal["never", "restart", "resume"]


def checked_h(value: float) -> float:
    """Refuse a weight of energy that is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise refusal(
            "H", f"must be a number from 0 to 1, not {value:g}", at=(),
            remedy="write 1 to save energy alone, 0 for speed alone",
        )  # fmt: skip
    return value


Weight = Annotated[float, pydantic.AfterValidator(checked_h)]


class PolicyTable(pydantic.BaseModel):
    """How a node is chosen.

    Attributes
    ----------
    H
        The weight of energy: 1 is energy alone, 0 speed alone.
    score
        The name of a policy.
    energy
        Which joules count: those of the task, those that the node draws more because of it, or also
        those of a node that would otherwise be off.
    reserve_after_s
        How long a task waits before the node with the earliest room is kept free for it.
    """

    model_config = _STRICT

    H: Weight = 0.5
    score: str = "geometric"
    energy: Energy = "task"
    reserve_after_s: Positive = 300.0


class Migration(pydantic.BaseModel):
    """When running tasks move to another node.

    Attributes
    ----------
    margin
        How much better the score of a move must be than that of staying.
    min_age_s, min_remaining_s
        How long a task must have run, and how long it must still run.
    cooldown_s
        How long a moved task stays, and does not return to a node that it left.
    start_s
        How long a task takes to start on another node; until then it runs on both.
    namespaces
        On Kubernetes: the namespaces whose pods may move; None for all.
    """

    model_config = _STRICT

    enabled: bool = False
    every_s: Positive = 60.0
    margin: Share = 0.10
    min_age_s: Seconds = 60.0
    min_remaining_s: Seconds = 60.0
    cooldown_s: Seconds = 300.0
    max_per_task: Annotated[int, pydantic.Field(ge=0)] = 2
    max_per_minute: Annotated[int, pydantic.Field(ge=0)] = 10
    start_s: Seconds = 5.0
    namespaces: Annotated[list[str], pydantic.Field(min_length=1)] | None = None


class Maintenance(pydantic.BaseModel):
    """How models are kept true to the tasks that completed.

    Attributes
    ----------
    records
        The folder in which completed tasks are stored, and the work of maintenance; without it,
        nothing is stored.
    every_h
        How often a live scheduler refits models.
    window
        How long ago a task may have completed to be used.
    threshold
        The relative error below which a task was well predicted.
    keep_accurate
        The share of well predicted tasks that is kept, for each type and class; each then counts
        as many times as it stands for.
    min_tasks
        How many tasks must have completed before a model is refitted.
    """

    model_config = _STRICT

    records: str | None = None
    every_h: Positive = 24.0
    window: str = "30d"
    threshold: Share = 0.10
    keep_accurate: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.25
    min_tasks: Annotated[int, pydantic.Field(ge=5)] = 20

    @pydantic.field_validator("window")
    @classmethod
    def _is_time(cls, value: str) -> str:
        try:
            read_quantity(value, TIME)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return value

    @property
    def window_s(self) -> float:
        """The window in seconds."""
        return read_quantity(self.window, TIME)


class TraceTable(pydantic.BaseModel):
    """Made-up tasks.

    Attributes
    ----------
    arrivals
        In bursts, at random moments (a Poisson process), or all at once.
    bursts, every_s, within_s
        How many bursts there are, how long from the start of one to the next, and how long each is.
    rate_per_s
        Tasks per second of a Poisson process.
    cpu, memory, features
        What tasks ask for, and the columns of the models: one value, a list or a range to draw
        from.
    H
        The weights of energy to draw from; by default that of the policy.
    noise
        The standard deviation of the logarithm of true times and energies.
    """

    model_config = _STRICT

    tasks: Count = 100
    arrivals: Literal["bursts", "poisson", "at once"] = "bursts"
    bursts: Count = 1
    every_s: Positive = 150.0
    within_s: Seconds = 150.0
    rate_per_s: Positive = 1.0
    cpu: Values = 1
    memory: Values = "256Mi"
    features: dict[str, Values] = {}
    H: Values | None = None
    migratable: Migratable = "never"
    noise: Share = 0.0


class PowerTable(pydantic.BaseModel):
    """Watts when u percent of the CPUs are in use: k0 + k1·exp(k2·u)."""

    model_config = _STRICT

    k0: Share
    k1: Share
    k2: Annotated[float, pydantic.Field(ge=0, le=1)]

    def curve(self) -> PowerCurve:
        """Return the curve."""
        return PowerCurve(self.k0, self.k1, self.k2)


class NodeTypeTable(pydantic.BaseModel):
    """One kind of node: what it has, and how long tasks take and what they use on it.

    Attributes
    ----------
    count, nodes, selector
        How many nodes there are, their names, or the labels that find them in Kubernetes.
    models
        A directory of `foretell fit`, a model file, or several of them: a model of time, and one of
        energy.
    time_s, energy_j
        The true time and energy of a task as expressions of its columns. Simulations play these;
        where there is no model, they are also the prediction.
    columns
        Columns of the models that are the same for all tasks on such a node, such as a governor.
    can_power_off
        Whether a node without tasks is switched off.
    """

    model_config = _STRICT

    name: Annotated[str, pydantic.Field(min_length=1)]
    count: Count | None = None
    nodes: list[str] = []
    selector: dict[str, str] = {}
    capacity: dict[str, Amount]
    models: str | list[str] | None = None
    time_s: float | str | None = None
    energy_j: float | str | None = None
    columns: dict[str, Scalar] = {}
    power: PowerTable | None = None
    idle_w: Share | None = None
    busy_w: Share | None = None
    can_power_off: bool = False

    @pydantic.field_validator("capacity")
    @classmethod
    def _read_capacity(cls, value: dict[str, Amount]) -> dict[str, Amount]:
        if not _resources(value).cpus:
            raise ValueError('has no CPUs; write capacity = { cpu = 4, memory = "8Gi" }')
        return value

    @pydantic.field_validator("time_s", "energy_j")
    @classmethod
    def _is_expression(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, str):
            try:
                Expression(value, example="2 + iterations * 0.4 / cpus")
            except UsageError as error:
                raise ValueError(str(error)) from None
        return value

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> NodeTypeTable:
        if self.count is None and not self.nodes and not self.selector:
            raise ValueError(
                f'{self.name} has no nodes; write count = 3, nodes = ["a", "b"], or the labels '
                "of its nodes in Kubernetes as selector = { ... }"
            )
        if self.count is not None and self.nodes and self.count != len(self.nodes):
            raise ValueError(
                f"count is {self.count}, and nodes lists {len(self.nodes)}; remove one of them"
            )
        try:
            self.node_type  # noqa: B018 - its checks
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    @cached_property
    def node_type(self) -> NodeType:
        """The type as other stages know it."""
        return NodeType(
            self.name,
            _resources(self.capacity),
            idle_w=self.idle_w,
            busy_w=self.busy_w,
            power=None if self.power is None else self.power.curve(),
            can_power_off=self.can_power_off,
        )

    @property
    def node_names(self) -> list[str]:
        """The names of its nodes."""
        return self.nodes or [f"{self.name}-{i + 1}" for i in range(self.count or 0)]

    @property
    def model_paths(self) -> list[str]:
        """The models, as they are written."""
        return [self.models] if isinstance(self.models, str) else list(self.models or [])


class NodeTable(pydantic.BaseModel):
    """The state of one node: what is in use already, and whether it can take tasks.

    Attributes
    ----------
    running
        The profiles of tasks that run there, by their names in [profiles]; they slow others.
    """

    model_config = _STRICT

    name: str
    used: dict[str, Amount] = {}
    ready: bool = True
    running: list[str] = []

    @pydantic.field_validator("used")
    @classmethod
    def _read_used(cls, value: dict[str, Amount]) -> dict[str, Amount]:
        _resources(value)
        return value

    @property
    def resources(self) -> Resources:
        """What is in use."""
        return _resources(self.used)


class Cluster(pydantic.BaseModel):
    """A cluster: its node types with their nodes, and how tasks are placed.

    Attributes
    ----------
    profiles
        Files of profiles of co-runs, by the names that tasks give as their profile.
    """

    model_config = _STRICT

    policy: PolicyTable = PolicyTable()
    migration: Migration = Migration()
    maintenance: Maintenance = Maintenance()
    trace: TraceTable | None = None
    node_type: Annotated[list[NodeTypeTable], pydantic.Field(min_length=1)]
    node: list[NodeTable] = []
    profiles: dict[str, str] = {}
    _folder: Path = pydantic.PrivateAttr(default=Path())

    @pydantic.model_validator(mode="after")
    def _names_are_unique(self) -> Cluster:
        types = Counter(t.name for t in self.node_type)
        nodes = Counter(name for t in self.node_type for name in t.node_names)
        for kind, counts in (("node types", types), ("nodes", nodes)):
            name, n = counts.most_common(1)[0] if counts else ("", 0)
            if n > 1:
                raise ValueError(f"{n} {kind} are called '{name}'; rename them")
        states = Counter(node.name for node in self.node)
        for name, n in states.items():
            if name not in nodes:
                raise ValueError(f"[[node]]: there is no node '{name}'. {suggest(name, nodes)}")
            if n > 1:
                raise ValueError(f"[[node]]: '{name}' is described {n} times; keep one")
        for unknown in (p for node in self.node for p in node.running if p not in self.profiles):
            raise ValueError(
                f"[[node]]: running: [profiles] has no '{unknown}'. "
                f"{suggest(unknown, self.profiles)}"
            )
        for node in self.nodes()[0]:
            if not node.used.fits_in(node.type.capacity):
                raise ValueError(
                    f"[[node]]: {node.name} uses {node.used}, and has {node.type.capacity}; "
                    "correct one of them"
                )
        return self

    def check_nodes(self) -> None:
        """Raise a UsageError if there are no nodes to choose from."""
        if not any(table.node_names for table in self.node_type):
            live = any(table.selector for table in self.node_type)
            why = "; with selectors alone, nodes are known on a live cluster only" if live else ""
            raise UsageError(
                f"the cluster has no nodes{why}; write count or nodes in [[node_type]], such as "
                "count = 2"
            )

    @property
    def folder(self) -> Path:
        """Where the models lie that are named by a relative path."""
        return self._folder

    def nodes(self) -> tuple[list[Node], list[bool]]:
        """Return all nodes with what is in use, and which of them are ready."""
        states = {node.name: node for node in self.node}
        nodes, ready = [], []
        for table in self.node_type:
            for name in table.node_names:
                state = states.get(name, NodeTable(name=name))
                nodes.append(Node(name, table.node_type, state.resources))
                ready.append(state.ready)
        return nodes, ready


def read_cluster(source: Path | str | Mapping[str, Any] | Cluster) -> Cluster:
    """Read a cluster from a TOML file or a dict of its shape; a UsageError says what is wrong.

    >>> cluster = read_cluster({"node_type": [
    ...     {"name": "small", "count": 2, "capacity": {"cpu": 4}, "time_s": "800 / cpu"}]})
    >>> [node.name for node in cluster.nodes()[0]]
    ['small-1', 'small-2']
    """
    cluster = read_typed(source, Cluster, CLUSTER_FILE)
    if isinstance(source, str | Path):
        cluster._folder = Path(source).parent
    return cluster


def _resources(amounts: Mapping[str, Amount]) -> Resources:
    """Read amounts; inside a validator, so that an error names the place."""
    try:
        return Resources.read(amounts)
    except UsageError as error:
        raise ValueError(f"{error}; write an amount such as 4, 500m or 8Gi") from None
