"""What an analysis of impact found: for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foretell.decide.impact.costs import FrontPoint
from foretell.decide.impact.question import ImpactQuestion
from foretell.decide.impact.ranges import SettingImpact
from foretell.decide.impact.spread import Spread
from foretell.decide.impact.tunings import Tuning
from foretell.sensitivity.shares import VarianceShares

#: The impact of each setting; None where no runs tell.
Impacts = Mapping[str, SettingImpact | None]


@dataclass(frozen=True)
class OutcomeImpact:
    """What was found about one result.

    Attributes
    ----------
    impacts, by_workload
        The impact of each setting, over all runs and in each workload.
    shares, shares_by_workload
        Shares of the variance within workloads; None if there is no full grid and no model.
    noise
        The typical deviation of a repeat, relative to its size; None if nothing was repeated, or
        if the typical size is 0.
    far
        Of the combinations that a model was asked about, the share that lies far outside the data;
        None if no model was asked.
    """

    name: str
    is_lower_better: bool
    levels: tuple[float, float]
    impacts: Impacts
    by_workload: Mapping[str, Impacts]
    shares: VarianceShares | None
    shares_by_workload: Mapping[str, VarianceShares]
    noise: float | None
    far: float | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        return {
            "outcome": self.name,
            "better": "lower" if self.is_lower_better else "higher",
            "levels": {"high": self.levels[0], "medium": self.levels[1]},
            "noise": self.noise,
            "settings": _impacts_json(self.impacts),
            "workloads": {name: _impacts_json(found) for name, found in self.by_workload.items()},
            "variance": None if self.shares is None else self.shares.to_json(),
            "variance_by_workload": {n: s.to_json() for n, s in self.shares_by_workload.items()},
            "far_share": self.far,
        }


def _impacts_json(impacts: Impacts) -> dict[str, Any]:
    return {name: None if found is None else found.to_json() for name, found in impacts.items()}


@dataclass(frozen=True)
class Impact:
    """Which settings matter.

    Attributes
    ----------
    source
        What the runs or the model are called.
    n_runs, n_configurations, repeats
        How many runs there are, of how many configurations, and the least and the largest number
        of runs of one.
    outcomes
        What was found about the target, and about the quality if there is one.
    tunings
        What tuning reaches; none if it was not said which settings are to be tuned.
    front
        Configurations that no other beats in time, cost and quality at once.
    spreads
        How far the target spreads within one value of each grouping.
    """

    asked: ImpactQuestion
    source: str
    n_runs: int
    n_configurations: int
    repeats: tuple[int, int]
    settings: tuple[str, ...]
    workloads: tuple[str, ...]
    outcomes: tuple[OutcomeImpact, ...]
    tunings: tuple[Tuning, ...] = ()
    front: tuple[FrontPoint, ...] = ()
    spreads: tuple[Spread, ...] = ()
    notes: tuple[str, ...] = ()
    is_of_model: bool = field(default=False)

    def of(self, outcome: str | None = None) -> OutcomeImpact:
        """Return what was found about a result, by default the target."""
        return next(o for o in self.outcomes if o.name == (outcome or self.asked.target))

    def level(self, setting: str, outcome: str | None = None) -> str | None:
        """Return the level of a setting: high, medium, low, within noise; None if not known."""
        found = self.of(outcome).impacts[setting]
        return None if found is None else found.level

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        return {
            "source": self.source,
            "n_runs": self.n_runs,
            "n_configurations": self.n_configurations,
            "repeats": {"least": self.repeats[0], "most": self.repeats[1]},
            "by": list(self.asked.by),
            "workloads": list(self.workloads),
            "outcomes": [o.to_json() for o in self.outcomes],
            "tunings": [t.to_json() for t in self.tunings],
            "front": [p.to_json() for p in self.front],
            "spreads": [s.to_json() for s in self.spreads],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from foretell.impact.text import impact_text

        return impact_text(self)
