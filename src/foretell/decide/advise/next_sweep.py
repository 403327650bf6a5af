"""Proposed runs as a sweep file, which `foretell measure` runs as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foretell.errors import Option, UsageError

#: Entries of a sweep file that describe which runs to make; the proposed runs replace them.
_OF_WHOLE_SWEEPS = ("parameters", "configurations", "design", "repeats", "order", "expected_s")


def next_sweep(
    sweep: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], n_before: int = 0
) -> dict[str, Any]:
    """List runs in a sweep of the same job, with the same limits, meters and rules.

    Parameters
    ----------
    sweep
        The sweep that measured the data, as plain values.
    runs
        The settings of each; the sweep itself derives columns from others.
    n_before
        How many runs were made before. It becomes the seed, so that the same runs, proposed again
        later, count as another sweep.
    """
    parameters = dict(sweep.get("parameters", {}))
    listed = [name for c in sweep.get("configurations", []) for name in c]
    fixed = {name: v for name, v in parameters.items() if not isinstance(v, list | dict)}
    fixed |= {n: v[0] for n, v in parameters.items() if isinstance(v, list) and len(v) == 1}
    names = [name for name in dict.fromkeys([*parameters, *listed]) if name not in fixed]
    for run in runs:
        for name, value in fixed.items():
            if run.get(name, value) != value:  # was measured at one value, and now at another
                names.append(name)
    names = list(dict.fromkeys(names))
    configurations = [{name: _setting(run, name, fixed) for name in names} for run in runs]
    kept = {name: value for name, value in sweep.items() if name not in _OF_WHOLE_SWEEPS}
    kept |= {"seed": n_before} if n_before else {}
    still_fixed = {name: value for name, value in fixed.items() if name not in names}
    return {
        **kept,
        "order": "written",
        **({"parameters": still_fixed} if still_fixed else {}),
        "configurations": configurations,
    }


def _setting(run: Mapping[str, Any], name: str, fixed: Mapping[str, Any]) -> Any:
    if name not in run and name not in fixed:
        raise UsageError(
            f"the sweep has several values of '{name}', which no model uses",
            remedy=("name a sweep that has one value of it: ", Option("sweep")),
        )
    return run.get(name, fixed.get(name))


def sweep_toml(sweep: Mapping[str, Any], remark: str) -> str:
    """Write a sweep as TOML, short things first."""
    import tomli_w

    tables = {n: v for n, v in sweep.items() if isinstance(v, dict) or n == "configurations"}
    scalars = {n: v for n, v in sweep.items() if n not in tables}
    head = "".join(f"# {line}\n" for line in remark.splitlines())
    return head + tomli_w.dumps({**scalars, **tables})
