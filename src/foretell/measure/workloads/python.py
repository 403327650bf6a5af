"""The python workload: an importable function, called with the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foretell.errors import UsageError, suggest
from foretell.measure.workloads._base import Numbers, Options, RunFailedError, Watch, Workload
from foretell.measure.workloads._own_code import load_function


class PythonOptions(Options):
    """A function.

    Attributes
    ----------
    call
        ``module:function``; installed, or beside the sweep file. It takes the parameters by name,
        and ``watch`` if it times stages; it may return a dict of numbers.
    """

    call: str


class PythonWorkload(Workload):
    """Call a function, in a process of its own for each run."""

    options: PythonOptions
    options_class = PythonOptions

    def check(self, names: Sequence[str]) -> None:
        """Refuse what is not a function of these parameters."""
        _, taken, takes_any = self._function()
        for name in names:
            if name not in taken and not takes_any:
                raise UsageError(
                    f"workload.call: {self.options.call} takes no '{name}'. {suggest(name, taken)}"
                )
        for name, parameter in taken.items():
            is_needed = parameter.default is parameter.empty and parameter.kind in {
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            }
            if is_needed and name not in {*names, "watch"}:
                raise UsageError(
                    f"workload.call: {self.options.call} needs '{name}'; add it to [parameters]"
                )

    def _function(self) -> tuple[Callable[..., Any], Mapping[str, inspect.Parameter], bool]:
        """Return the function, its parameters, and whether it takes any others."""
        function = load_function(self.options.call, self.folder, "workload.call")
        taken = inspect.signature(function).parameters
        return function, taken, any(p.kind is p.VAR_KEYWORD for p in taken.values())

    def run(self, configuration: Mapping[str, Any], watch: Watch) -> Numbers | None:
        """Call the function."""
        function, taken, takes_any = self._function()
        arguments = {n: v for n, v in configuration.items() if takes_any or n in taken}
        if "watch" in taken:
            arguments["watch"] = watch
        found = function(**arguments)
        if found is None or isinstance(found, Mapping):
            return found
        kind = type(found).__name__
        raise RunFailedError(f"{self.options.call} returned a {kind}; return a dict of numbers")
