"""Shapes inside a network: whether it takes batches, and which layer is in the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foretell.wording import counted

Shape = tuple[int, ...]


class UnfitNetworkError(Exception):
    """A network that cannot be served in batches."""


@dataclass
class _Trace:
    """What layers got and gave, in the order in which they were called."""

    calls: list[tuple[str, Shape | None, Shape | None]] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    output: Any = None
    error: Exception | None = None


def check_shapes(model: Any, make_input: Callable[[int, int], Any]) -> Shape:
    """Return the shape of the output for one sample; raise an error that names the layer.

    Parameters
    ----------
    make_input
        Returns random samples: how many, and the seed.
    """
    one = _trace(model, make_input(1, 0))
    if one.error is not None:
        raise UnfitNetworkError(
            f"the network does not take this input: {_where(one, model)}: {_said(one.error)}"
        )
    two, again = _trace(model, make_input(2, 1)), _trace(model, make_input(2, 2))
    _check_same(two, again, model)
    three = _trace(model, make_input(3, 3))
    for n, trace in ((1, one), (2, two), (3, three)):
        shape = _shape(trace.output)
        if trace.error is not None or shape is None or not shape or shape[0] != n:
            raise UnfitNetworkError(_no_batches(n, trace, model))
    shapes = {_shape(trace.output)[1:] for trace in (one, two, three)}  # type: ignore[index]
    if len(shapes) > 1:
        raise UnfitNetworkError(
            f"the shape of the output depends on the batch size ({_last(three, model)})"
        )
    found: Shape = shapes.pop()
    return found


def _trace(model: Any, samples: Any) -> _Trace:
    import torch

    trace = _Trace()
    hooks = []
    for name, layer in model.named_modules():
        if name and not list(layer.children()):
            label = f"{name} ({type(layer).__name__})"
            hooks.append(layer.register_forward_pre_hook(_entering(trace, label)))
            hooks.append(layer.register_forward_hook(_leaving(trace, label)))
    try:
        with torch.inference_mode():
            trace.output = model(samples)
    except Exception as error:  # a network of the user's own may raise anything
        trace.error = error
    finally:
        for hook in hooks:
            hook.remove()
    return trace


def _entering(trace: _Trace, label: str) -> Callable[[Any, Any], None]:
    def note(_: Any, given: Any) -> None:
        trace.inside.append(label)

    return note


def _leaving(trace: _Trace, label: str) -> Callable[[Any, Any, Any], None]:
    def note(_: Any, given: Any, output: Any) -> None:
        trace.inside.pop()
        trace.calls.append((label, _shape(given[0] if given else None), _shape(output)))

    return note


def _shape(value: Any) -> Shape | None:
    if isinstance(value, tuple | list) and value:
        value = value[0]
    return tuple(value.shape) if hasattr(value, "shape") else None


def _check_same(two: _Trace, again: _Trace, model: Any) -> None:
    for (label, given, gave), (_, given2, gave2) in zip(two.calls, again.calls, strict=False):
        if (given, gave) != (given2, gave2):
            raise UnfitNetworkError(
                f"the network has dynamic shapes: at layer {label} they depend on the data "
                f"({_text(given)} to {_text(gave)}, then {_text(given2)} to {_text(gave2)})"
            )
    if two.error is None and again.error is None and _shape(two.output) != _shape(again.output):
        raise UnfitNetworkError(
            f"the network has dynamic shapes: after {_last(two, model)} they depend on the data "
            f"({_text(_shape(two.output))}, then {_text(_shape(again.output))})"
        )


def _no_batches(n: int, trace: _Trace, model: Any) -> str:
    """Say which layer loses the batch dimension."""
    for label, given, gave in trace.calls:
        if given and gave is not None and given[0] == n and (not gave or gave[0] != n):
            return (
                f"the network has no batch dimension: layer {label} turns {_text(given)} into "
                f"{_text(gave)}, in which samples are no longer apart"
            )
    if trace.error is not None:
        return (
            f"the network takes one sample, and no batch of {n}: {_where(trace, model)}: "
            f"{_said(trace.error)}"
        )
    return (
        f"the network has no batch dimension: after {_last(trace, model)} the output for "
        f"{counted(n, 'sample')} is {_text(_shape(trace.output))}, and has to begin with {n}"
    )


def _where(trace: _Trace, model: Any) -> str:
    if trace.inside:
        return f"layer {trace.inside[-1]}"
    return f"after {_last(trace, model)}" if trace.calls else type(model).__name__


def _last(trace: _Trace, model: Any) -> str:
    return f"layer {trace.calls[-1][0]}" if trace.calls else type(model).__name__


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _text(shape: Shape | None) -> str:
    return "no tensor" if shape is None else "×".join(map(str, shape)) or "a number"
