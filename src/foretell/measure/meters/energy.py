"""Energy of a run, and where each joule comes from: counters of the processor, or an estimate.

Measured joules (RAPL, read by codecarbon) and estimated ones (watts times time) have columns of
different names, so that they never mix. What is used of codecarbon is not its public interface:
where a version lacks it, there are no measured joules, and no rated power.
"""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from foretell.measure.meters._base import Meter, Setting, Tree
from foretell.measure.meters.cpu_time import CpuAccount

_J_PER_KWH = 3.6e6
_RAPL = Path("/sys/class/powercap/intel-rapl/subsystem")
#: What an idle processor draws, as a share of its rated power, where the sweep gives no figure.
IDLE_SHARE = 0.1


class EnergyMeter(Meter):
    """Joules of the processor packages as measured, or of the machine as estimated.

    Measured joules are those of all that the machine does meanwhile, not of the job alone.
    """

    columns = ("energy_j", "energy_estimated_j")

    def __init__(self, setting: Setting, rapl: Path = _RAPL) -> None:
        super().__init__(setting)
        self._rapl_folder = rapl

    @cached_property
    def _rapl(self) -> Any:
        """The counters of the processor; None where they cannot be read."""
        folder = str(self._rapl_folder)
        try:
            from codecarbon.core.cpu import IntelRAPL, is_rapl_available

            _silence()
            reader: Any = IntelRAPL
            return reader(rapl_dir=folder) if is_rapl_available(folder) else None
        except (ImportError, AttributeError, TypeError):
            return None

    @cached_property
    def _power(self) -> tuple[float, float, str] | None:
        """Watts when idle and busy, and where these figures come from."""
        given = self.setting.power
        if given is not None:
            return given.idle_w, given.busy_w, given.source
        rated = rated_power()
        if rated is None:
            return None
        model, watts = rated
        return IDLE_SHARE * watts, watts, f"rated power of {model} in codecarbon's table"

    def missing(self) -> str | None:
        """Say what is missing to know the energy."""
        if self._rapl is not None or self._power is not None:
            return None
        return (
            "this machine has no energy counters that can be read, and the power of its processor "
            "is not known. Install foretell[energy] and let it read /sys/class/powercap, or write "
            "[power] idle_w = … and busy_w = … into the sweep for an estimate"
        )

    def source(self) -> str:
        """Say whether joules are measured or estimated, and from what."""
        if self._rapl is not None:
            return "measured: RAPL counters of the processor packages, read by codecarbon"
        assert self._power is not None
        idle_w, busy_w, who = self._power
        return f"estimated: {idle_w:g} W idle to {busy_w:g} W with all cores busy, {who}"

    def start(self, tree: Tree) -> None:
        """Note the counters, or the time."""
        self._started_s, self._account = time.monotonic(), CpuAccount(tree)
        if self._rapl is not None:
            self._rapl.start()

    def sample(self, tree: Tree) -> None:
        """Remember what processes have used that may end before the next sample."""
        if self._rapl is None:
            self._account.look()

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return joules under the name that says what they are."""
        wall_s = time.monotonic() - self._started_s
        if self._rapl is not None:
            from codecarbon.core.units import Time

            details = self._rapl.get_cpu_details(Time.from_seconds(wall_s))
            used = (float(kwh) for name, kwh in details.items() if "Energy Delta" in name)
            return {"energy_j": _J_PER_KWH * sum(used)}
        assert self._power is not None
        idle_w, busy_w, _ = self._power
        n_busy = self._account.used_s() / max(wall_s, 1e-3)
        share = min(max(n_busy / (psutil.cpu_count() or 1), 0.0), 1.0)
        return {"energy_estimated_j": wall_s * (idle_w + (busy_w - idle_w) * share)}


def rated_power() -> tuple[str, float] | None:
    """Look the processor up in codecarbon's table; None if it is not in it."""
    try:
        from codecarbon.core.cpu import TDP
        from codecarbon.core.util import detect_cpu_model

        _silence()
        model = detect_cpu_model()
        # The public TDP.tdp is a guess for processors that are not in the table.
        table: Any = TDP
        rated = table()._get_cpu_power_from_registry(model) if model else None
    except (ImportError, AttributeError, TypeError):
        return None
    return None if rated is None else (str(model), float(rated))


def _silence() -> None:
    from codecarbon.external.logger import logger

    logger.setLevel("CRITICAL")
