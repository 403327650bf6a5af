"""Measured batch times, kept for the same network, input, versions and machine."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretell.decide.deployment.batch_times import Point
from foretell.deploy.network import Effort, Network
from foretell.errors import StorageError
from foretell.files.directory import cache_folder, write_whole
from foretell.measure.running.machine import describe_machine

_FORMAT = 2


def default_folder() -> Path:
    """Return the folder of this user's caches."""
    return cache_folder() / "batch-times"


class PointCache:
    """The points of one network; a file of plain JSON that can be deleted at any time.

    Parameters
    ----------
    folder
        None: nothing is kept.
    largest
        The largest batch that was computed before all others.
    """

    def __init__(
        self,
        folder: Path | None,
        network: Network,
        description: Mapping[str, Any],
        effort: Effort,
        largest: int = 0,
    ) -> None:
        self.key = _key(network, description, effort, largest)
        self._path = None if folder is None else folder / f"{self.key[:32]}.json"
        self._points = self._read()

    def get(self, threads: int, batch: int) -> Point | None:
        """Return a point that was measured before."""
        return self._points.get((threads, batch))

    def add(self, point: Point) -> None:
        """Keep a point; where the folder cannot be written, nothing is kept."""
        self._points[point.threads, point.batch] = point
        if self._path is None:
            return
        rows = [{**vars(p), "levels": list(p.levels)} for _, p in sorted(self._points.items())]
        content = json.dumps({"format": _FORMAT, "key": self.key, "points": rows})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, content.encode())
        except (OSError, StorageError):
            self._path = None

    def _read(self) -> dict[tuple[int, int], Point]:
        """Return the points of a file; none if there is no such file, or it is damaged."""
        if self._path is None:
            return {}
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT or content["key"] != self.key:
                return {}
            points = [Point(**{**row, "levels": tuple(row["levels"])}) for row in content["points"]]
            is_sound = all(p.median_s > 0 and p.levels for p in points)
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {(p.threads, p.batch): p for p in points} if is_sound else {}


def _key(network: Network, description: Mapping[str, Any], effort: Effort, largest: int) -> str:
    machine = describe_machine()
    parts = {
        "graph": description["graph"],
        "arguments": dict(network.arguments),
        "shape": list(network.shape),
        "dtype": network.dtype,
        "torch": description["torch"],
        "python": platform.python_version(),
        "machine": {**machine, "node": platform.node()},
        "effort": vars(effort),
        "largest": largest,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
