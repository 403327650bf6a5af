"""The network in numpy: an encoder, a decoder with attention, and three rules for where to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.corun.models.gru.sequences import HORIZON, N_INPUTS, N_METRICS, N_OUTPUTS, STEPS

Array = NDArray[np.float64]
HIDDEN = 64
N_FED_BACK = N_METRICS + 2  # what the decoder said of the step before

#: The rules: completion reaches 100 %, the end-of-sequence output reaches one half, or the sum of
#: both completions is largest.
CROSSING, EOS, ARGMAX = "crossing", "EOS", "argmax"
RULES = (CROSSING, EOS, ARGMAX)
_NEAR_END = 0.995  # completion that counts as 100 %: increments never are exactly zero


@dataclass(frozen=True, eq=False)
class Output:
    """What the decoder says, step by step: metrics, completion of both jobs, and the end."""

    metrics: Array
    completion: Array
    eos: Array


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the arrays of a network and their shapes, named as PyTorch does."""
    return {
        "encoder.weight_ih_l0": (3 * HIDDEN, N_INPUTS),
        "encoder.weight_hh_l0": (3 * HIDDEN, HIDDEN),
        "encoder.bias_ih_l0": (3 * HIDDEN,),
        "encoder.bias_hh_l0": (3 * HIDDEN,),
        "decoder.weight_ih": (3 * HIDDEN, N_FED_BACK + HIDDEN),
        "decoder.weight_hh": (3 * HIDDEN, HIDDEN),
        "decoder.bias_ih": (3 * HIDDEN,),
        "decoder.bias_hh": (3 * HIDDEN,),
        "head.weight": (N_OUTPUTS, 2 * HIDDEN),
        "head.bias": (N_OUTPUTS,),
        "center": (N_INPUTS,),
        "scale": (N_INPUTS,),
    }


def check_arrays(arrays: Mapping[str, NDArray[np.floating]]) -> dict[str, Array]:
    """Return the arrays of a file as numbers; raise a ValueError if they are of no network."""
    expected = shapes()
    if set(arrays) != set(expected):
        raise ValueError("its network has other parts")
    found = {name: np.asarray(arrays[name], dtype=np.float64) for name in expected}
    for name, array in found.items():
        if array.shape != expected[name] or not np.isfinite(array).all():
            raise ValueError(f"'{name}' of its network cannot be")
    if (found["scale"] <= 0).any():
        raise ValueError("'scale' of its network cannot be")
    return found


def run(arrays: Mapping[str, Array], inputs: Array, horizon: int = HORIZON) -> Output:
    """Read a sequence, and say what comes out of it."""
    x = (inputs - arrays["center"]) / arrays["scale"]
    state = np.zeros(HIDDEN)
    seen = []
    for row in x:
        state = _cell(arrays, "encoder", "_l0", row, state)
        seen.append(state)
    encoded = np.array(seen)
    fed = np.zeros(N_FED_BACK)
    fed[N_METRICS:] = inputs[0, [N_METRICS, 2 * N_METRICS + 2]] * (inputs[0, N_METRICS] > 0)
    rows = []
    for _ in range(horizon * STEPS):
        context = _attention(encoded, state)
        state = _cell(arrays, "decoder", "", np.concatenate([fed, context]), state)
        out = arrays["head.weight"] @ np.concatenate([state, _attention(encoded, state)])
        out = out + arrays["head.bias"]
        fed = np.concatenate([out[:N_METRICS], fed[N_METRICS:] + softplus(out[N_METRICS:-1])])
        rows.append(np.concatenate([fed, 1 / (1 + np.exp(-out[-1:]))]))
    table = np.array(rows)
    return Output(table[:, :N_METRICS], table[:, N_METRICS : N_METRICS + 2], table[:, -1])


def _cell(arrays: Mapping[str, Array], part: str, end: str, x: Array, state: Array) -> Array:
    """Return the next state of a gated recurrent unit, as PyTorch defines it."""
    a = arrays[f"{part}.weight_ih{end}"] @ x + arrays[f"{part}.bias_ih{end}"]
    b = arrays[f"{part}.weight_hh{end}"] @ state + arrays[f"{part}.bias_hh{end}"]
    reset = 1 / (1 + np.exp(-(a[:HIDDEN] + b[:HIDDEN])))
    update = 1 / (1 + np.exp(-(a[HIDDEN : 2 * HIDDEN] + b[HIDDEN : 2 * HIDDEN])))
    new = np.tanh(a[2 * HIDDEN :] + reset * b[2 * HIDDEN :])
    found: Array = (1 - update) * new + update * state
    return found


def _attention(encoded: Array, state: Array) -> Array:
    scores = encoded @ state / np.sqrt(HIDDEN)
    weights = np.exp(scores - scores.max())
    found: Array = (weights / weights.sum()) @ encoded
    return found


def softplus(values: Array) -> Array:
    """Return log(1 + exp(x)) over ten: increments of completion are small and positive."""
    found: Array = np.logaddexp(0.0, values) / 10.0
    return found


def end_step(output: Output, rule: str = CROSSING) -> tuple[float, bool]:
    """Return where the first job ends, in steps, and whether the horizon was long enough."""
    done = output.completion[:, 0]
    if rule == EOS:
        above = np.flatnonzero(output.eos >= 0.5)
        return (float(above[0] + 1), True) if len(above) else (float(len(done)), False)
    if rule == ARGMAX:
        total = np.minimum(output.completion, 1.0).sum(axis=1)
        return float(total.argmax() + 1), True
    above = np.flatnonzero(done >= _NEAR_END)
    if len(above):
        k = int(above[0])
        before = done[k - 1] if k else 0.0
        return k + (_NEAR_END - before) / max(done[k] - before, 1e-9), True
    tenth = max(1, len(done) // 10)
    slope = max((done[-1] - done[-1 - tenth]) / tenth, 1e-4)
    return len(done) + (_NEAR_END - done[-1]) / slope, False
