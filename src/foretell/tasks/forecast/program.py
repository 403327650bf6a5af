"""Programs of tasks: a function that opens a graph, built or run with each of its settings."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from foretell.errors import ForetellError, Option, UsageError, suggest
from foretell.spaces.values import Range, Scalar, Values, listed
from foretell.tasks.graph import Graph
from foretell.tasks.running.opening import overriding, planning
from foretell.tasks.trace import Row, rows_of

#: Told where the graphs of a run are put as they are opened.
Look = Callable[[list[Graph]], None]
_MOST_SETTINGS = 1_000
#: A program that has computed for longer, in seconds of CPU time, is not built once more.
_LONG_S = 0.2


@dataclass(frozen=True)
class Built:
    """The tasks of one call of a program.

    Attributes
    ----------
    submit_s
        How much the program computed to submit a task, on average.
    places
        Where its graphs would run.
    """

    rows: list[Row]
    policy: str
    submit_s: float
    places: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A function that submits tasks, and the settings it is called with.

    Attributes
    ----------
    settings
        The arguments of each call.
    varied
        The names of those that differ.
    """

    function: Callable[..., Any]
    name: str
    settings: tuple[dict[str, Scalar], ...]
    varied: tuple[str, ...]

    def graphs(self, settings: Mapping[str, Scalar]) -> list[Graph]:
        """Build the graphs of one call, without running bodies of tasks."""
        with planning() as found:
            self._call(settings, "its graph was built")
        if not found or not any(graph.tasks for graph in found):
            raise UsageError(
                f"{self.name} submitted no task; call functions that are declared with @task "
                "inside `with Graph() as g:`"
            )
        return found

    def built(self, settings: Mapping[str, Scalar], n_builds: int = 1) -> Built:
        """Build the graphs of one call, one after the other; their cost is that of the quickest.

        The function is called so many times, but not again once it has computed for 0.2 s.
        """
        costs: list[float] = []
        began_s = time.process_time()
        while not costs or (len(costs) < n_builds and time.process_time() - began_s < _LONG_S):
            graphs = [graph for graph in self.graphs(settings) if graph.tasks]
            took_s = sum(graph.tasks[-1].end_s - graph.began_s for graph in graphs)
            costs.append(took_s / sum(len(graph.tasks) for graph in graphs))
        rows = joined([rows_of(graph) for graph in graphs])
        return Built(rows, graphs[0].policy, min(costs), tuple(graph.on for graph in graphs))

    def run(
        self, settings: Mapping[str, Scalar], look: Look | None = None, **over: Any
    ) -> list[Graph]:
        """Call the function for real, with some settings of its graphs replaced.

        Parameters
        ----------
        look
            Called first with the list of graphs, which grows as they are opened.
        """
        with overriding(**over) as found:
            if look is not None:
                look(found)
            self.function(**settings)
        if not found:
            raise UsageError(f"{self.name} opened no graph; write `with Graph() as g:`")
        return found

    def _call(self, settings: Mapping[str, Scalar], doing: str) -> None:
        try:
            self.function(**settings)
        except ForetellError:
            raise
        except Exception as error:
            raise UsageError(
                f"{self.name} failed while {doing}: {type(error).__name__}"
                f"{self.place_of(error)}: {error}"
            ) from error

    def place_of(self, error: BaseException) -> str:
        """Say which line of the program raised an error, if one of its file did."""
        code = getattr(self.function, "__code__", None)
        file = "" if code is None else code.co_filename
        lines = [line for frame, line in traceback.walk_tb(error.__traceback__)
                 if frame.f_code.co_filename == file]  # fmt: skip
        return f" in {Path(file).name}, line {lines[-1]}" if lines else ""


def joined(parts: Sequence[list[Row]]) -> list[Row]:
    """Put graphs one after the other: each begins when the one before has ended."""
    found = list(parts[0])
    for part in parts[1:]:
        wait = len(found)
        found.append(Row("wait", before=tuple(range(wait)), is_wait=True))
        for row in part:
            before = tuple(b + wait + 1 for b in row.before) or (wait,)
            found.append(Row(row.label, row.size, row.isolation, before, row.priority, row.is_wait,
                             row.time_s))  # fmt: skip
    return found


def read_program(
    source: str | Callable[..., Any],
    vary: Mapping[str, Values] | None = None,
    fix: Mapping[str, Scalar] | None = None,
) -> Program:
    """Load the function that a user names as ``app.py:main``, and check its settings."""
    if callable(source):
        function, name = source, getattr(source, "__name__", "the program")
    else:
        function, name = _load(source), source
    axes = {key: _values(key, values) for key, values in (vary or {}).items()}
    _check(function, name, [*axes, *(fix or {})])
    calls = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    if len(calls) > _MOST_SETTINGS:
        raise UsageError(
            f"{len(calls):,} combinations are more than {_MOST_SETTINGS:,}", option=Option("vary")
        )
    settings = tuple({**(fix or {}), **call} for call in calls)
    return Program(function, name, settings, tuple(k for k, v in axes.items() if len(v) > 1))


def _load(source: str) -> Callable[..., Any]:
    from foretell.measure.workloads._own_code import load_function

    place, _, function = source.rpartition(":")
    if not (place.endswith(".py") and function):
        raise UsageError(f"'{source}' names no function; write FILE.py:FUNCTION, as app.py:main")
    path = Path(place).absolute()
    if not path.is_file():
        raise UsageError(f"there is no file {place}; write FILE.py:FUNCTION, as app.py:main")
    return load_function(f"{path.stem}:{function}", path.parent, "app")


def _check(function: Callable[..., Any], name: str, given: Sequence[str]) -> None:
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in given:
        if key not in parameters and not takes_any:
            raise UsageError(f"{name} has no parameter '{key}'. {suggest(key, parameters)}")
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in parameters.values():
        is_required = parameter.kind in plain and parameter.default is parameter.empty
        if is_required and parameter.name not in given:
            raise UsageError(
                f"{name} needs a value for '{parameter.name}'",
                remedy=("give it with ", Option("fix", "...", key=parameter.name)),
            )


def _values(name: str, values: Values) -> list[Scalar]:
    """List the values of a setting; a range without steps doubles."""
    if isinstance(values, Range) and values.is_continuous:
        if values.start <= 0:
            raise UsageError(f"'{name}' must have steps, such as {name}=0..8:2",
                             option=Option("vary"))  # fmt: skip
        values = Range.model_validate({"from": values.start, "to": values.stop, "factor": 2})
    return list(dict.fromkeys(listed(values)))


def read_workers(values: Values) -> list[int]:
    """Read numbers of workers: one, a list, or a range of whole numbers."""
    if isinstance(values, Range) and values.is_continuous:
        found: list[Any] = list(range(int(values.start), int(values.stop) + 1))
    else:
        found = listed(values)
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 4096:
            raise UsageError(f"must be whole numbers from 1 to 4,096, not {value}",
                             option=Option("workers"))  # fmt: skip
    return sorted(set(found))
