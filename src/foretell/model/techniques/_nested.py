"""Regressors made of regressors: how their states are kept apart in one file."""

from __future__ import annotations

from collections.abc import Mapping

from foretell.model.techniques._base import Regressor, State


def join_states(states: Mapping[str, State]) -> State:
    """Put states side by side, each under its name."""
    values = {name: state.values for name, state in states.items()}
    arrays = {f"{name}/{k}": v for name, state in states.items() for k, v in state.arrays.items()}
    return State(values, arrays)


def part_of(state: State, name: str) -> State:
    """Return the state that was put under a name, or raise ValueError."""
    values = state.values.get(name)
    if not isinstance(values, dict):
        raise ValueError(f"'{name}' must be a table of values")
    prefix = f"{name}/"
    arrays = {k.removeprefix(prefix): v for k, v in state.arrays.items() if k.startswith(prefix)}
    return State(values, arrays)


def regressor_class(technique: str) -> type[Regressor]:
    """Find the class that rebuilds models of a technique, or raise ValueError."""
    from foretell.model.techniques import TECHNIQUES  # the table holds this module's users

    if technique not in TECHNIQUES.names():
        raise ValueError(f"the technique {technique!r} is not installed")
    return TECHNIQUES.get(technique).regressor
