"""Priors over hyperparameters, written as in aMLLibrary: ``loguniform(0.01,1)``.

Every prior is drawn from one uniform number or one category, so a sampler needs only those two.
Bounds of logarithmic priors are in natural units. A prior that starts with ``q`` rounds to
multiples of its last argument.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from foretell.errors import UsageError, suggest
from foretell.model.campaigns.literals import read_value

# Normal priors are cut at 0.1 % and 99.9 %, because TPE needs bounds.
_TAIL = 0.001

# Arithmetic with larger numbers overflows.
_LARGEST = 1e150

_FORM = re.compile(r"^\s*([A-Za-z_]\w*)\s*\((.*)\)\s*$", re.DOTALL)


@dataclass(frozen=True)
class Prior:
    """A distribution; exactly one of ``bounds``, ``whole_bounds`` and ``options`` is set.

    Attributes
    ----------
    bounds
        Range of the uniform number to draw; drawn on a log scale if ``is_log``.
    whole_bounds
        Range of the whole number to draw, including both ends.
    shape
        Converts the drawn number to the hyperparameter's value.
    """

    text: str
    bounds: tuple[float, float] | None = None
    is_log: bool = False
    whole_bounds: tuple[int, int] | None = None
    options: tuple[Any, ...] | None = None
    shape: Callable[[float], float | int] = float

    def at(self, share: float) -> Any:
        """Return the value at a fraction, from 0 to 1, of the range.

        >>> parse_prior("loguniform(0.01, 1)").at(0.5)
        0.1
        """
        if self.options is not None:
            return self.options[min(int(share * len(self.options)), len(self.options) - 1)]
        if self.whole_bounds is not None:
            first, last = self.whole_bounds
            return self.shape(min(first + int(share * (last - first + 1)), last))
        assert self.bounds is not None
        low, high = self.bounds
        drawn = low ** (1 - share) * high**share if self.is_log else low + share * (high - low)
        return self.shape(min(max(drawn, low), high))

    def examples(self) -> list[Any]:
        """Return a few typical values, to check that they are valid."""
        if self.options is not None:
            return list(self.options)
        # Not the ends of a range, which are almost never drawn.
        return [self.at(share) for share in ((0, 1) if self.whole_bounds else (0.1, 0.5, 0.9))]


def parse_prior(value: Any) -> Prior | None:
    """Read a prior; None if the value is not one; raise a UsageError if it is malformed.

    >>> parse_prior("loguniform(0.01, 1)").bounds
    (0.01, 1.0)
    >>> parse_prior("squared_error") is None
    True
    """
    form = _FORM.match(value) if isinstance(value, str) else None
    if form is None:
        return None
    name, text = form.group(1), form.group(2)
    if name not in PRIORS:
        raise UsageError(f"unknown prior '{name}' in '{value}'. {suggest(name, PRIORS)}")
    arguments = _arguments(name, text, value)
    signature, build = PRIORS[name]
    try:
        return build(value.strip(), *arguments)
    except TypeError:
        came = f"got {len(arguments)} argument{'s' if len(arguments) != 1 else ''}"
    except ValueError as error:
        came = str(error)
    raise UsageError(f"prior '{value}': expected {signature}; {came}")


def _arguments(name: str, text: str, whole: str) -> list[Any]:
    try:
        arguments: list[Any] = read_value(f"[{text}]")
    except ValueError as error:
        raise UsageError(f"prior '{whole}': {error}") from None
    if name == "choice":
        is_one_list = len(arguments) == 1 and isinstance(arguments[0], list)
        return list(arguments[0]) if is_one_list else arguments
    for argument in arguments:
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise UsageError(f"prior '{whole}': {argument!r} is not a number")
        if abs(argument) > _LARGEST:
            raise UsageError(f"prior '{whole}': a number is larger than {_LARGEST:g}")
    return arguments


def _ordered(low: float, high: float) -> tuple[float, float]:
    if not low < high:
        raise ValueError(f"the lower bound {low:g} must be less than the upper bound {high:g}")
    return float(low), float(high)


def _positive(low: float) -> float:
    if not low > 0:
        raise ValueError(f"{low:g} must be positive, because it is drawn on a log scale")
    return low


def _rounded(q: float, bounds: tuple[float, float] | None = None) -> Callable[[float], Any]:
    if not q > 0:
        raise ValueError(f"the step {q:g} must be positive")
    step = Fraction(str(q))  # exact: 3 · 0.1 is 0.3 here
    least: float = -math.inf
    most: float = math.inf
    if bounds is not None:
        least = math.ceil(Fraction(str(bounds[0])) / step)
        most = math.floor(Fraction(str(bounds[1])) / step)
        if least > most:
            raise ValueError(f"no multiple of {q:g} lies between {bounds[0]:g} and {bounds[1]:g}")

    def rounded(drawn: float) -> float | int:
        # Rounding may leave the bounds, so clamp to the multiples inside them.
        n_steps = round(min(max(round(drawn / q), least), most))
        return int(n_steps * step) if step.denominator == 1 else float(n_steps * step)

    return rounded


def _range(
    text: str, low: float, high: float, q: float | None = None, *, is_log: bool = False
) -> Prior:
    bounds = _ordered(_positive(low) if is_log else low, high)
    shape = float if q is None else _rounded(q, (low, high))
    return Prior(text, bounds=bounds, is_log=is_log, shape=shape)


def _whole(text: str, low: float, high: float) -> Prior:
    if low != round(low) or high != round(high):
        raise ValueError("the bounds must be whole numbers")
    if low > high:
        raise ValueError(f"no whole number lies between {low:g} and {high:g}")
    return Prior(text, whole_bounds=(round(low), round(high)), shape=round)


def _normal(text: str, mean: float, deviation: float, q: float | None = None) -> Prior:
    quantile = _normal_quantile(mean, deviation)
    rounded = float if q is None else _rounded(q)
    return Prior(text, bounds=(_TAIL, 1 - _TAIL), shape=lambda u: rounded(quantile(u)))


def _lognormal(text: str, median: float, factor: float, q: float | None = None) -> Prior:
    quantile = _normal_quantile(math.log(_positive(median)), math.log(_positive(factor)))
    if quantile(1 - _TAIL) > math.log(_LARGEST):
        raise ValueError(f"the factor {factor:g} is too large")
    rounded = float if q is None else _rounded(q)
    return Prior(text, bounds=(_TAIL, 1 - _TAIL), shape=lambda u: rounded(math.exp(quantile(u))))


def _normal_quantile(mean: float, deviation: float) -> Callable[[float], float]:
    if not deviation > 0:
        raise ValueError("the deviation must be positive (of a lognormal: a factor above 1)")
    return NormalDist(mean, deviation).inv_cdf


def _choice(text: str, *options: Any) -> Prior:
    if not options:
        raise ValueError("got no option")
    return Prior(text, options=options)


#: How each prior is written, and what builds it; the number of its arguments is that of the lambda.
PRIORS: dict[str, tuple[str, Callable[..., Prior]]] = {
    "uniform": ("uniform(low, high)", lambda t, a, b: _range(t, a, b)),
    "loguniform": ("loguniform(low, high)", lambda t, a, b: _range(t, a, b, is_log=True)),
    "quniform": ("quniform(low, high, step)", lambda t, a, b, q: _range(t, a, b, q)),
    "qloguniform": (
        "qloguniform(low, high, step)",
        lambda t, a, b, q: _range(t, a, b, q, is_log=True),
    ),
    "uniformint": ("uniformint(low, high)", lambda t, a, b: _whole(t, a, b)),
    # The upper bound is exclusive, as in Hyperopt.
    "randint": (
        "randint(upper) or randint(low, upper)",
        lambda t, a, b=None: _whole(t, 0, a - 1) if b is None else _whole(t, a, b - 1),
    ),
    "normal": ("normal(mean, deviation)", lambda t, m, d: _normal(t, m, d)),
    "qnormal": ("qnormal(mean, deviation, step)", lambda t, m, d, q: _normal(t, m, d, q)),
    "lognormal": ("lognormal(median, factor)", lambda t, m, f: _lognormal(t, m, f)),
    "qlognormal": ("qlognormal(median, factor, step)", lambda t, m, f, q: _lognormal(t, m, f, q)),
    "choice": ("choice(option, …)", _choice),
}
