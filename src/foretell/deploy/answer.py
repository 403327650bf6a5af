"""How to serve a network: the setting, what it comes to, and why not another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foretell.decide.deployment.power import Power
from foretell.decide.deployment.question import Choice, Question
from foretell.decide.deployment.settings import Assessed, Figures, Setting
from foretell.deploy.measuring import Measured
from foretell.deploy.network import Network


@dataclass(frozen=True, eq=False)
class Deployment:
    """The answer of `choose_deployment`.

    Attributes
    ----------
    choice
        The chosen setting and all others that were played.
    measured
        The points of the network, and how many were measured.
    description
        What the network is: its graph, its parameters, the shape of its output.
    power
        By which joules are modelled; None where it is not known.
    """

    network: Network
    question: Question
    choice: Choice
    measured: Measured
    description: dict[str, Any]
    power: Power | None
    seed: int

    @property
    def setting(self) -> Setting:
        """The batch size, the longest wait, the threads and the replicas."""
        return self.choice.chosen

    @property
    def figures(self) -> Figures:
        """What the setting comes to."""
        return self.choice.figures

    @property
    def joules(self) -> float | None:
        """Joules per sample, modelled; None where the power is not known."""
        if self.power is None:
            return None
        return self.power.joules(self.setting, self.figures)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        measured, choice = self.measured, self.choice
        return {
            "label": "simulated, from measured and modelled batch times",
            "network": {**self.network.to_json(), **self.description},
            "scenario": self.question.scenario.to_json(),
            "p99_limit_s": self.question.limit_s,
            "minimize": self.question.goal,
            "overhead_s": self.question.overhead_s,
            "pause_s": self.question.pause_s,
            "setting": self.setting.to_json(),
            "predicted": {**self.figures.to_json(), "p99_90_s": list(choice.p99_s)},
            "holds_to_per_s": choice.holds_to_per_s,
            "energy_j": self.joules,
            "power": None if self.power is None else self.power.to_json(),
            "others": [_other(one) for one in choice.assessed],
            "batch_times": {
                str(threads): {
                    "fixed_s": times.fixed_s,
                    "each_s": times.each_s,
                    "curvature": times.curvature,
                    "measured": [p.to_json() for p in sorted(times.points, key=lambda p: p.batch)],
                }
                for threads, times in measured.times.items()
            },
            "n_measured": len(measured.points),
            "n_cached": measured.n_cached,
            "n_grid": measured.n_grid,
            "measured_s": measured.seconds,
            "seed": self.seed,
            "notes": list(measured.notes),
        }

    def __str__(self) -> str:
        from foretell.deploy.text import deployment_text

        return deployment_text(self)


def _other(one: Assessed) -> dict[str, Any]:
    figures = None if one.figures is None else one.figures.to_json()
    return {**one.setting.to_json(), "pessimistic": figures, "trouble": one.trouble or None}
