"""All meters of a run together: one that fails costs its own columns, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foretell.measure.meters._base import Meter, Tree


class Panel:
    """Starts, samples and reads meters; slow ones start first and stop last."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self._columns = [column for meter in meters for column in meter.columns]
        self._working = sorted(meters, key=lambda meter: not meter.is_slow)
        self.complaints: list[str] = []

    def start(self, tree: Tree) -> None:
        """Start all; the job begins right after."""
        self._each(lambda meter: meter.start(tree))

    def sample(self, tree: Tree) -> None:
        """Let all look at the job."""
        self._each(lambda meter: meter.sample(tree))

    def stop(self, tree: Tree) -> dict[str, float]:
        """Read all that work, and return what they measured, in the order of the meters."""
        found: dict[str, float] = {}
        self._working.reverse()
        self._each(lambda meter: found.update(meter.stop(tree)))
        return {column: found[column] for column in self._columns if column in found}

    def _each(self, work: Callable[[Meter], Any]) -> None:
        for meter in list(self._working):
            try:
                work(meter)
            except Exception as error:  # meters of other packages may raise anything
                self._working.remove(meter)
                name = type(meter).__name__
                self.complaints.append(f"{name} failed: {type(error).__name__}: {error}")
