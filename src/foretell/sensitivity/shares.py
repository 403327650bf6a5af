"""Shares of variance: what each input explains alone, in pairs, and with all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: A smaller share of an input is not worth a line.
LEAST_SHARE = 0.005


@dataclass(frozen=True)
class VarianceShares:
    """How the variance of a result divides among its inputs.

    Attributes
    ----------
    first
        What each input explains alone.
    total
        What each input explains alone and together with others.
    pairs
        What two inputs explain together, beyond what each does alone.
    higher
        What three and more inputs explain together; None if that was not computed.
    noise
        The share that differs between repeats; None if it is not known.
    method
        ``anova`` of measured runs; of a function, ``grid`` where it was computed everywhere, and
        ``sobol`` where it was sampled.
    variance
        The variance that is divided.
    n_samples
        How many values it was computed from.

    >>> found = VarianceShares({"a": 0.6, "b": 0.2}, {"a": 0.8, "b": 0.4}, {("a", "b"): 0.2})
    >>> {name: round(share, 3) for name, share in found.by_input().items()}
    {'a': 0.7, 'b': 0.3}
    """

    first: Mapping[str, float]
    total: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    higher: float | None = 0.0
    noise: float | None = None
    method: str = "anova"
    variance: float = 1.0
    n_samples: int = 0

    def by_input(self, without: Collection[str] = ()) -> dict[str, float]:
        """Return one share per input, largest first; together they are 1.

        What inputs explain together is divided between them: the share is halfway between what an
        input explains alone and what it is part of. An input without effect has no share, nor has
        one whose share is too small to matter.
        """
        halves = {
            name: (self.first[name] + self.total[name]) / 2
            for name in self.first
            if name not in without
        }
        whole = sum(halves.values())
        if whole <= 0:
            return {}
        ordered = sorted(halves.items(), key=lambda item: -item[1])
        kept = {name: share for name, share in ordered if share >= LEAST_SHARE * whole}
        return {name: float(share / sum(kept.values())) for name, share in kept.items()}

    def without(self, names: Collection[str]) -> VarianceShares:
        """Return the shares with none for inputs that have no effect."""
        return replace(
            self,
            first={n: 0.0 if n in names else s for n, s in self.first.items()},
            total={n: 0.0 if n in names else s for n, s in self.total.items()},
            pairs={p: s for p, s in self.pairs.items() if not set(p) & set(names)},
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        return {
            "method": self.method,
            "first": dict(self.first),
            "total": dict(self.total),
            "pairs": [{"settings": list(pair), "share": s} for pair, s in self.pairs.items()],
            "higher": self.higher,
            "noise": self.noise,
            "shares": self.by_input(),
            "n_samples": self.n_samples,
        }


def pooled(parts: Sequence[VarianceShares]) -> VarianceShares:
    """Divide the variance within several groups together, each weighted by its own variance.

    A group that lacks an input has no variance by it.
    """
    if len(parts) == 1:
        return parts[0]
    whole = sum(part.variance for part in parts)
    weights = [part.variance / whole if whole > 0 else 1 / len(parts) for part in parts]
    pairs = list(zip(weights, parts, strict=True))

    def mean(name: str) -> dict[Any, float]:
        found: dict[Any, float] = {}
        for weight, part in pairs:
            for key, share in getattr(part, name).items():
                found[key] = found.get(key, 0.0) + weight * share
        return found

    def number(name: str) -> float | None:
        known = [(w, getattr(p, name)) for w, p in pairs]
        return None if any(v is None for _, v in known) else sum(w * v for w, v in known)

    methods = {part.method for part in parts}
    return VarianceShares(
        mean("first"),
        mean("total"),
        mean("pairs"),
        number("higher"),
        number("noise"),
        methods.pop() if len(methods) == 1 else "mixed",
        whole / len(parts),
        sum(part.n_samples for part in parts),
    )
