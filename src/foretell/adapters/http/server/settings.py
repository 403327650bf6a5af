"""Who may send requests to a server, and how large and how slow they may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretell.errors import Option, UsageError

#: A shorter token could be guessed.
_MIN_TOKEN_LENGTH = 16


@dataclass(frozen=True)
class Access:
    """Who may send requests.

    Attributes
    ----------
    token
        What clients must send; None lets everybody in who can reach the server.
    allowed_hosts
        Host names besides ``localhost`` and plain addresses by which clients may reach the server.
    """

    token: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.token is not None and not (
            len(self.token) >= _MIN_TOKEN_LENGTH
            and self.token.isascii()
            and self.token.isprintable()
        ):
            raise UsageError(
                f"a token must have at least {_MIN_TOKEN_LENGTH} characters, all of them "
                "printable ASCII; make one with: openssl rand -hex 32"
            )


@dataclass(frozen=True)
class RequestLimits:
    """How large and how slow requests may be.

    Attributes
    ----------
    max_head_bytes
        Size of the request line and all headers.
    request_s
        Seconds that reading a request may take, and again seconds that answering it may take.
    too_large
        What a client whose body is too large should do.
    """

    max_body_bytes: int = 20_000_000
    max_head_bytes: int = 16_384
    max_connections: int = 500
    request_s: float = 30.0
    too_large: str = "send less at once"

    def __post_init__(self) -> None:
        require_positive(self)


def require_positive(limits: object) -> None:
    """Refuse limits that are zero, negative or not a number."""
    for name, value in vars(limits).items():
        if not isinstance(value, str) and not value > 0:
            raise UsageError(
                f"must be a positive number, not {value:g}", option=Option(name, f"{value:g}")
            )
