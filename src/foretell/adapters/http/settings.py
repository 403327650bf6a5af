"""What a server is told: where models lie, who may ask, and how much may be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from foretell.errors import UsageError

#: A token that can be guessed guards nothing.
_LEAST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """How much is too much.

    Attributes
    ----------
    n_workers
        Processes that predict, each with models of its own.
    most_waiting
        Requests that wait for a worker; further ones are turned away at once.
    most_models
        Models that each worker keeps at hand.
    request_s
        How long reading a request may take, and how long answering it.
    fit_s
        How long a fit may take.
    most_fits
        Fits that wait for their turn.
    """

    n_workers: int = 2
    most_body_bytes: int = 20_000_000
    most_rows: int = 100_000
    most_waiting: int = 200
    most_connections: int = 500
    most_models: int = 8
    request_s: float = 30.0
    fit_s: float = 600.0
    most_fits: int = 8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise UsageError(f"{name} must be positive, not {value:g}")


@dataclass(frozen=True)
class Settings:
    """All that a server is told.

    Attributes
    ----------
    allowed_hosts
        Names besides ``localhost`` and plain addresses under which browsers may reach the server.
    is_read_only
        Whether fits are refused.
    """

    directory: Path
    token: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    is_read_only: bool = False
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not self.directory.is_dir():
            raise UsageError(
                f"there is no directory {self.directory}; name one that holds models, such as an "
                "output of `foretell fit`"
            )
        if self.token is not None and not (
            len(self.token) >= _LEAST_TOKEN and self.token.isascii() and self.token.isprintable()
        ):
            raise UsageError(
                f"a token has at least {_LEAST_TOKEN} characters, all of them plain ASCII; make "
                "one with: openssl rand -hex 32"
            )
