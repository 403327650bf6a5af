"""All meters of a run together: one that fails costs its own columns, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foretell.measure.meters._base import Meter, Tree


class Panel:
    """Starts, samples and reads meters; those that take longest start first and stop last."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self._working = list(meters)
        self.complaints: list[str] = []

    def start(self, tree: Tree) -> None:
        """Start all; the job begins right after."""
        self._each(lambda meter: meter.start(tree))

    def sample(self, tree: Tree) -> None:
        """Let all look at the job."""
        self._each(lambda meter: meter.sample(tree))

    def stop(self, tree: Tree) -> dict[str, float]:
        """Read all that work, and return what they measured."""
        found: dict[str, float] = {}
        self._working.reverse()
        self._each(lambda meter: found.update(meter.stop(tree)))
        return found

    def _each(self, work: Callable[[Meter], Any]) -> None:
        for meter in list(self._working):
            try:
                work(meter)
            except Exception as error:  # meters of other packages may raise anything
                self._working.remove(meter)
                name = type(meter).__name__
                self.complaints.append(f"{name} failed: {type(error).__name__}: {error}")
