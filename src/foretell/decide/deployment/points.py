"""Which batch sizes to measure: few, where the choice and the curve need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: The largest part of the grid that is measured, and how many points per thread count may be
#: measured in any case, as fewer tell nothing of curves.
MOST_SHARE, LEAST_POINTS = 0.25, 3
#: A gap between two points is left alone once its middle was foretold this well, and the larger
#: size is at most so many times the smaller one: the best size is often between wide ones.
_SURPRISE, _NARROW = 0.05, 4.0
#: How many times wider gaps count for numbers of threads that the choice depends on, and again
#: beside the batch sizes that it depends on.
_FAVOR = 4.0


@dataclass(frozen=True)
class _Gap:
    """Two sizes with no measured one between them, and one in their middle."""

    left: int
    right: int
    middle: int

    @property
    def width(self) -> float:
        return self.right / self.left


@dataclass
class Points:
    """Chooses points one at a time.

    Parameters
    ----------
    sizes
        The batch sizes whose times matter, smallest first.
    threads
        The thread counts.
    is_whole
        Whether all points are to be measured.

    >>> points = Points([1, 2, 4, 8, 16], [1])
    >>> points.next(), points.next()
    ((1, 1), (1, 16))
    """

    sizes: Sequence[int]
    threads: Sequence[int]
    is_whole: bool = False
    taken: dict[int, list[int]] = field(default_factory=dict)
    _settled: set[tuple[int, int, int]] = field(default_factory=set)

    @property
    def n_grid(self) -> int:
        """How many points there are."""
        return len(self.sizes) * len(self.threads)

    @property
    def most_each(self) -> int:
        """How many points per thread count may be measured.

        Not more than there are powers of two up to the largest batch: someone who measures all of
        those needs no choice of points.
        """
        if self.is_whole:
            return len(self.sizes)
        return min(len(self.sizes), max(LEAST_POINTS, self.sizes[-1].bit_length()))

    @property
    def most(self) -> int:
        """How many points may be measured."""
        if self.is_whole:
            return self.n_grid
        least = min(LEAST_POINTS, len(self.sizes)) * len(self.threads)
        most = min(int(MOST_SHARE * self.n_grid), self.most_each * len(self.threads))
        return max(least, most)

    @property
    def n_taken(self) -> int:
        """How many points were chosen."""
        return sum(map(len, self.taken.values()))

    def next(self, wanted: Sequence[tuple[int, int]] = ()) -> tuple[int, int] | None:
        """Return the threads and the batch size to measure next; None if that is enough.

        Parameters
        ----------
        wanted
            Threads and batch sizes that the choice so far depends on, the most important first.
        """
        if self.n_taken >= self.most:
            return None
        for threads, size in [*self._first(), *wanted]:
            own = self.taken.get(threads, [])
            if size in self.sizes and size not in own and len(own) < self.most_each:
                return self._take(threads, size)
        gaps = [
            (gap.width * self._favor(threads, gap, wanted), threads, gap.middle)
            for threads in self.threads
            if len(self.taken[threads]) < self.most_each
            for gap in self._gaps(threads)
        ]
        if not gaps:
            return None
        _, threads, size = max(gaps)
        return self._take(threads, size)

    def _favor(self, threads: int, gap: _Gap, wanted: Sequence[tuple[int, int]]) -> float:
        """Weigh a gap: where the choice is, the curve has to be known better than elsewhere."""
        near = [size for t, size in wanted if t == threads]
        if any(size in (gap.left, gap.right) for size in near):
            return _FAVOR**2
        return _FAVOR if near else 1.0

    def tell(self, threads: int, size: int, foretold_s: float | None, measured_s: float) -> None:
        """Hear how well a point was foretold: around those told well no others are measured."""
        if foretold_s is None or abs(math.log(measured_s / foretold_s)) > _SURPRISE:
            return
        left, right = self._neighbors(threads, size)
        if left == size or right == size:  # an end says nothing of what is between
            return
        self._settled |= {(threads, left, size), (threads, size, right)}

    def _first(self) -> list[tuple[int, int]]:
        """Return the ends of each curve; or all of it."""
        ends = self.sizes if self.is_whole else (self.sizes[0], self.sizes[-1])
        return [(threads, size) for threads in self.threads for size in ends]

    def _take(self, threads: int, size: int) -> tuple[int, int]:
        self.taken.setdefault(threads, []).append(size)
        return threads, size

    def _neighbors(self, threads: int, size: int) -> tuple[int, int]:
        taken = sorted(self.taken[threads])
        place = taken.index(size)
        return taken[max(place - 1, 0)], taken[min(place + 1, len(taken) - 1)]

    def _gaps(self, threads: int) -> list[_Gap]:
        """List the gaps that are not settled."""
        taken = sorted(self.taken[threads])
        found = []
        for left, right in pairwise(taken):
            inside = [s for s in self.sizes if left < s < right]
            is_settled = right <= _NARROW * left and (threads, left, right) in self._settled
            if inside and right > 2 * left and not is_settled:
                middle = math.sqrt(left * right)
                inner = min(inside, key=lambda s: abs(math.log(s / middle)))
                found.append(_Gap(left, right, inner))
        return found
