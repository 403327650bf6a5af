"""The nearest trace: a job is slowed as the one was whose sequences are most alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.corun.models.gru.sequences import sequence_of

if TYPE_CHECKING:
    from foretell.corun.models.cases import Case

Array = NDArray[np.float64]


class NearestTrace:
    """Looks the slowdown up: of the pair whose traces alone are nearest, step by step."""

    name: ClassVar[str] = "nearest trace"

    def __init__(self) -> None:
        self._traces: list[Array] = []
        self._slowdowns: list[float] = []

    def fit(self, cases: Sequence[Case]) -> None:
        """Keep the traces of all jobs with how many times longer each took."""
        for case in cases:
            for k, wall_s in enumerate(case.walls_s):
                self._traces.append(sequence_of(case, k).inputs)
                self._slowdowns.append(wall_s / case.alone_s(k))

    def predict(self, case: Case) -> list[float]:
        """Return the times alone times the slowdown of the nearest; as alone if there is none."""
        found = []
        for k in range(len(case.jobs)):
            slowdown = 1.0
            if self._traces:
                own = sequence_of(case, k).inputs
                away = [float(np.square(own - other).sum()) for other in self._traces]
                slowdown = self._slowdowns[int(np.argmin(away))]
            found.append(slowdown * case.alone_s(k))
        return found
