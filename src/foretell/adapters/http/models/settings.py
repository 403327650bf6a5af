"""The settings of a server of models: where models are, who may ask, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from foretell.adapters.http.server.settings import Access, RequestLimits, require_positive
from foretell.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """How much work the server takes on.

    Attributes
    ----------
    n_workers
        Processes that predict, each with its own copies of models.
    max_waiting
        Requests that may wait for a worker; further ones are refused at once.
    max_models
        Models that each worker keeps in memory.
    fit_s
        Seconds that a fit may take.
    max_fits
        Fits that may wait for their turn.
    """

    n_workers: int = 2
    max_rows: int = 100_000
    max_waiting: int = 200
    max_models: int = 8
    fit_s: float = 600.0
    max_fits: int = 8

    def __post_init__(self) -> None:
        require_positive(self)


@dataclass(frozen=True)
class Settings:
    """All settings of a server of models; a read-only one refuses fits."""

    directory: Path
    access: Access = field(default_factory=Access)
    requests: RequestLimits = field(default_factory=RequestLimits)
    limits: Limits = field(default_factory=Limits)
    is_read_only: bool = False

    def __post_init__(self) -> None:
        if not self.directory.is_dir():
            raise UsageError(
                f"there is no directory {self.directory}; name one that holds models, such as an "
                "output of `foretell fit`"
            )
