"""`@task`: a function whose calls become tasks, with what each call reads and writes."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from foretell.errors import Option, UsageError, suggest
from foretell.tasks.data import is_tensor

if TYPE_CHECKING:
    from foretell.tasks.graph import Graph
    from foretell.tasks.running.submitted import Task

#: What every report says of sandboxes.
PROTECTION = (
    "A sandbox is a confined process, a software stand-in and not an enclave. It protects data "
    "from brokers, queues, disks, logs and other users, and from a task that would send its input "
    "elsewhere. It does not protect from root, the kernel, a hypervisor or side channels, and "
    "there is no attestation: others cannot check what runs."
)
ISOLATIONS = ("none", "process", "sandbox", "enclave")
_PLAIN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)

#: A value, or how to compute it from the arguments of a call: a function, or an expression.
Given = Any


@dataclass(frozen=True)
class Options:
    """How a call is run.

    Attributes
    ----------
    priority
        0 or more: tasks with a higher one go first.
    when
        Whether the call becomes a task; if not, the caller runs it and waits.
    isolation
        ``none``, ``process``, ``sandbox`` or ``enclave``.
    sealed
        Whether its arguments and results are encrypted wherever they are but in its worker.
    allow
        ``sandbox`` lets a task of an enclave run there where no enclave is.
    """

    priority: Given = 0
    when: Given = True
    isolation: str = "none"
    sealed: bool = False
    allow: str | None = None

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise UsageError(
                f"there is no isolation '{self.isolation}'. {suggest(self.isolation, ISOLATIONS)}",
                option=Option("isolation"),
            )
        if self.allow not in (None, "sandbox"):
            raise UsageError(f"must be 'sandbox', not '{self.allow}'", option=Option("allow"))
        if self.sealed and self.isolation not in ("sandbox", "enclave"):
            raise UsageError(
                "a sealed task needs a worker that can keep a secret",
                option=Option("sealed"),
                remedy=("set ", Option("isolation", "sandbox")),
            )


class Active(threading.local):
    """The graph that calls of this thread go to, and the task that this thread runs."""

    graph: Graph | None = None
    task: Task | None = None
    worker: int | None = None
    helped_s: float = 0.0  # CPU time of this thread for tasks in the middle of others


active = Active()


class TaskFunction:
    """A function that submits a task where a graph is open, and is called as it is elsewhere."""

    def __init__(
        self,
        body: Callable[..., Any],
        names: tuple[Sequence[str], Sequence[str]],
        label: str,
        size: Given,
        options: Options,
    ) -> None:
        self.body, self.label, self.options = body, label, options
        self.signature = inspect.signature(body)
        self._parameters = list(self.signature.parameters)
        plain = [p.kind in _PLAIN for p in self.signature.parameters.values()]
        self._n_plain = len(plain) if all(plain) else -1
        self._places: dict[str, int] = {n: k for k, n in enumerate(self._parameters)}
        reads, writes = names
        self._check(reads, writes)
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        # What is written as well depends on all that a read depends on.
        self._read_places = tuple(self._places[name] for name in reads if name not in writes)
        self._write_places = tuple(self._places[name] for name in writes)
        self._data_places = (*self._read_places, *self._write_places)
        self._read_values = _picker(self._read_places)
        self._write_values = _picker(self._write_places)
        self.size = self._compiled("size", size)
        self._bind_options()
        functools.update_wrapper(self, body)

    def _bind_options(self) -> None:
        self.priority_of = self._compiled("priority", self.options.priority)
        self.when_of = self._compiled("when", self.options.when)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call to the graph that is open, or call the function."""
        graph = active.graph
        if graph is None:
            return self.body(*args, **kwargs)
        return graph.submit(self, args, kwargs)

    def with_options(self, **options: Any) -> TaskFunction:
        """Return the same task with other options, for one call or more.

        >>> @task(writes="x")
        ... def fill(x): ...
        >>> fill.with_options(priority=3).options.priority
        3
        """
        found = object.__new__(TaskFunction)
        vars(found).update(vars(self))
        try:
            found.options = replace(self.options, **options)
        except TypeError:
            known = list(vars(self.options))
            wrong = next(name for name in options if name not in known)
            raise UsageError(f"there is no option '{wrong}'. {suggest(wrong, known)}") from None
        found._bind_options()
        return found

    @property
    def is_importable(self) -> bool:
        """Whether other processes find the function by its name."""
        return "<" not in self.body.__qualname__

    @property
    def reference(self) -> tuple[str, str]:
        """The module and the name of the function."""
        return self.body.__module__, self.body.__qualname__

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return one value for each parameter, in order."""
        if not kwargs and len(args) == self._n_plain:
            return args
        try:
            found = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"task '{self.label}': {error}") from None
        found.apply_defaults()
        return tuple(found.arguments[name] for name in self._parameters)

    def call_with(self, values: tuple[Any, ...]) -> Any:
        """Call the body with one value for each parameter."""
        if self._n_plain >= 0:
            return self.body(*values)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        kinds = inspect.Parameter
        for parameter, value in zip(self.signature.parameters.values(), values, strict=True):
            if parameter.kind is kinds.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is kinds.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is kinds.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return self.body(*args, **kwargs)

    def data_of(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return what a call reads, and what it writes."""
        return self._read_values(values), self._write_values(values)

    @property
    def write_places(self) -> tuple[int, ...]:
        """Where the written parameters stand."""
        return self._write_places

    def size_of(self, values: tuple[Any, ...]) -> float:
        """Return the size of a call: as declared, or how many numbers its arrays hold."""
        if self.size is None:
            found = 0
            for k in self._data_places:
                found += _n_numbers(values[k])
            return float(found)
        found = self.evaluated(self.size, values, "size")
        try:
            size = float(found)
        except (TypeError, ValueError, OverflowError):
            size = math.nan
        if math.isfinite(size):
            return size
        raise UsageError(f"task '{self.label}': its size must be a number, not {found!r}")

    def evaluated(self, given: Given, values: tuple[Any, ...], name: str) -> Any:
        """Return an option of a call, computed from its arguments if it is declared so."""
        if not callable(given):
            return given
        try:
            return given(*values)
        except Exception as error:
            raise UsageError(
                f"task '{self.label}': its {name} cannot be computed: "
                f"{type(error).__name__}: {error}"
            ) from None

    def _check(self, reads: Sequence[str], writes: Sequence[str]) -> None:
        for option, names in (("reads", reads), ("writes", writes)):
            for name in names:
                if name not in self._places:
                    raise UsageError(
                        f"{self.label} has no parameter '{name}'. "
                        f"{suggest(name, self._parameters)}",
                        option=Option(option),
                    )

    def _compiled(self, name: str, given: Given) -> Given:
        """Turn an expression of the parameters into a function of them."""
        if not isinstance(given, str):
            return given
        stars = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        names = [p.name for p in self.signature.parameters.values() if p.kind not in stars]
        if len(names) < len(self._parameters):
            names = self._parameters  # their values come as a tuple and a dict
        try:
            # The author of the decorator writes it, as he writes the body.
            return eval(f"lambda {', '.join(names)}: {given}", self.body.__globals__)  # noqa: S307
        except SyntaxError:
            raise UsageError(
                f"task '{self.label}': '{given}' is not an expression; write one of its "
                "parameters, such as a.size",
                option=Option(name),
            ) from None


def _n_numbers(value: Any) -> int:
    """Return how many numbers an array or a tensor holds, or those in a list or tuple."""
    if isinstance(value, list | tuple):
        # One look at each type: most lists hold many values of few types, and no arrays.
        samples = dict(zip(map(type, value), value, strict=True))
        counted = {k for k, v in samples.items() if isinstance(v, np.ndarray) or is_tensor(v)}
        return sum(_n_numbers(v) for v in value if type(v) in counted) if counted else 0
    found = getattr(value, "size", 0)
    if type(found) is int:
        return found
    numel = getattr(value, "numel", None)  # of a tensor, whose size is a method
    return int(numel()) if callable(numel) else 0


def _picker(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a quick function that picks some of many values."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def _names(given: str | Sequence[str]) -> list[str]:
    return given.replace(",", " ").split() if isinstance(given, str) else list(given)


def task(
    *,
    reads: str | Sequence[str] = "",
    writes: str | Sequence[str] = "",
    label: str | None = None,
    size: Given = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], TaskFunction]:
    """Declare what a function reads and writes, so that its calls can run in parallel.

    Parameters
    ----------
    reads, writes
        Names of parameters: their data must be there before, and are changed. One that is both
        read and changed stands in both.
    label
        What its tasks are called in traces and models; the name of the function by default.
    size
        How much work a call is: an expression of the parameters (``"a.size"``) or a function of
        them. By default the number of elements of the arrays it reads and writes.
    options
        Fields of ``Options``: priority, when, isolation, sealed, allow. The first two may be
        expressions as well.

    >>> @task(reads="a", writes="b", size="len(a)")
    ... def copy(a, b):
    ...     b[:] = a
    >>> target = [0, 0]
    >>> copy([1, 2], target)          # no graph is open: an ordinary call
    >>> target
    [1, 2]
    """
    unknown = [name for name in options if name not in Options.__dataclass_fields__]
    if unknown:
        known = ["reads", "writes", "label", "size", *Options.__dataclass_fields__]
        raise UsageError(f"there is no option '{unknown[0]}'. {suggest(unknown[0], known)}")

    def declared(body: Callable[..., Any]) -> TaskFunction:
        names = _names(reads), _names(writes)
        return TaskFunction(body, names, label or body.__name__, size, Options(**options))

    return declared
