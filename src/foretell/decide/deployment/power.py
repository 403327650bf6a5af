"""Energy of serving, modelled: cores that compute draw more than cores that wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foretell.decide.deployment.settings import Figures, Setting
from foretell.errors import Option, UsageError
from foretell.spaces.quantities import POWER, read_quantity


@dataclass(frozen=True)
class Power:
    """What a machine draws when idle and when all its cores are busy, and who says so."""

    idle_w: float
    busy_w: float
    n_cores: int
    source: str

    def joules(self, setting: Setting, figures: Figures) -> float:
        """Return joules per sample: those of its computation, and its part of idle power.

        >>> power = Power(10, 30, 2, "given")
        >>> power.joules(Setting(1, 0.0, 1), Figures(0.1, 0.2, 5.0, 0.5, 1.0, 0.1))
        2.0
        """
        idle = self.idle_w * setting.cores / self.n_cores / figures.per_s
        return idle + (self.busy_w - self.idle_w) / self.n_cores * figures.core_s

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(vars(self))


def read_power(text: str, n_cores: int) -> Power:
    """Read watts when idle and when busy: ``20W,65W``.

    >>> read_power("20,65", 4)
    Power(idle_w=20.0, busy_w=65.0, n_cores=4, source='given')
    """
    parts = text.split(",")
    try:
        idle, busy = (read_quantity(part.strip(), POWER) for part in parts)
    except ValueError:
        raise _unreadable(text) from None
    except UsageError as error:
        raise UsageError(error.text, option=Option("power")) from None
    if idle >= busy:
        raise _unreadable(text)
    return Power(idle, busy, n_cores, "given")


def _unreadable(text: str) -> UsageError:
    return UsageError(
        f"'{text}' is not the power when idle and the larger one when busy; write 20W,65W",
        option=Option("power"),
    )
