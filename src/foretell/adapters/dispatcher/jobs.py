"""Jobs: what a user asks for, and how far each job is."""

from __future__ import annotations

import math
import re
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pydantic

from foretell.errors import UsageError
from foretell.files.complaints import Words
from foretell.wording import plain

State = Literal["queued", "running", "paused", "done", "failed", "canceled"]
ENDED: tuple[State, ...] = ("done", "failed", "canceled")
#: A longer text is no small job: large inputs belong in files that the job reads.
MOST_BYTES = 16_000
#: Lists and objects in one another; whatever reads the journal can follow so many.
_MOST_DEPTH = 100
_MOST_BITS = 10_000  # of a whole number; Python reads about 14,000

_EXAMPLES = {"class": '"class": "low"', "run": '"run": ["sleep", "1"]'}
JOB_WORDS = Words(
    "an object",
    lambda place, _: f"write it, such as {_EXAMPLES[str(place[-1])]}",
    lambda place: f"in {'.'.join(map(str, place))}",
)

_ID = re.compile(r"[0-9]{8}T[0-9]{12}-[0-9a-f]{8}")
Text = Annotated[str, pydantic.Field(max_length=200)]


class Request(pydantic.BaseModel):
    """A job as a file of the spool folder or a request has it.

    Attributes
    ----------
    class_name
        The name of its class, written ``class``.
    run
        A command as a list, or a function as ``file.py:function``, as the engine expects it.
    arguments
        Keyword arguments of the function; a command finds them as JSON in ``FORETELL_ARGUMENTS``.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    class_name: Annotated[Text, pydantic.Field(alias="class", min_length=1)]
    run: (
        Annotated[list[str], pydantic.Field(min_length=1)]
        | Annotated[str, pydantic.Field(min_length=1)]
    )
    arguments: dict[str, Any] = {}
    name: Text = ""

    @pydantic.field_validator("run")
    @classmethod
    def _can_be_passed(cls, value: list[str] | str) -> list[str] | str:
        for word in [value] if isinstance(value, str) else value:
            if "\0" in word or not _is_encodable(word):
                raise ValueError(
                    f"{word!r} has a character that no program can be given; remove it"
                )
        return value

    @pydantic.field_validator("arguments")
    @classmethod
    def _can_be_written(cls, value: dict[str, Any]) -> dict[str, Any]:
        _check_json(value, _MOST_DEPTH)
        return value

    @pydantic.field_validator("name")
    @classmethod
    def _can_be_printed(cls, value: str) -> str:
        return plain(value)


@dataclass(slots=True)
class Job:
    """A job on its way; the records of the journal change it, and nothing else does.

    Attributes
    ----------
    level
        The place of its class among all, the lowest priority first.
    attempt
        The number of the latest start; 0 before the first.
    n_failed, n_preempted
        How many attempts failed, and how often it made way for a higher class.
    number
        Which job of its class it was to end, from 1.
    first_start, started_at, ended_at
        Moments of the first start, of the latest (or when it went on), and of the end.
    busy_s, wasted_s
        Time in the engine of this attempt before a pause, and of attempts that were thrown away.
    """

    id: str
    class_name: str
    level: int
    run: list[str] | str
    arguments: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    arrived_at: float = 0.0
    state: State = "queued"
    attempt: int = 0
    n_failed: int = 0
    n_preempted: int = 0
    number: int = 0
    drop: float = 0.0
    seed: int = 0
    first_start: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    busy_s: float = 0.0
    wasted_s: float = 0.0
    sprint_s: float = 0.0
    reason: str = ""

    @property
    def title(self) -> str:
        """Its name, or else its id."""
        return self.name or self.id

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, for clients."""
        return {
            "id": self.id, "class": self.class_name, "name": self.name, "state": self.state,
            "run": self.run, "arguments": self.arguments,
            "arrived_at": self.arrived_at, "started_at": self.first_start,
            "ended_at": self.ended_at, "attempts": self.attempt, "drop": self.drop,
            "sprint_s": round(self.sprint_s, 6), "reason": self.reason,
        }  # fmt: skip


def _check_json(value: Any, depth: int) -> None:
    """Raise a ValueError if a value cannot be written as JSON and read again."""
    if depth == 0:
        raise ValueError(f"must not nest lists and objects deeper than {_MOST_DEPTH}; write a file")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"must have texts as names, not {plain(repr(key), 50)}")
            _check_json(key, depth)
            _check_json(inner, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_json(inner, depth - 1)
    else:
        _check_single(value)


def _check_single(value: Any) -> None:
    if isinstance(value, str):
        if not _is_encodable(value):
            raise ValueError(f"{value[:50]!r} has half a character, which is no text; remove it")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"must have finite numbers, not {value}, which JSON does not know")
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise ValueError("must not have a number of thousands of digits; write it as a text")
    elif value is not None:
        raise ValueError(
            "must have texts, numbers, lists and objects, as JSON has, not a value of the type "
            f"'{type(value).__name__}'; write it as a text"
        )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_size(n_bytes: int) -> None:
    """Raise a UsageError if a job has too many bytes."""
    if n_bytes > MOST_BYTES:
        raise UsageError(
            f"a job may have at most {MOST_BYTES:,} bytes, and this has {n_bytes:,}; put what it "
            "needs into a file"
        )


def new_id() -> str:
    """Return an id that sorts by age."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"


def is_id(text: str) -> bool:
    """Whether a text is the id of a job."""
    return _ID.fullmatch(text) is not None


def now() -> float:
    """Return the time of the wall clock, which other processes and a later start share."""
    return round(time.time(), 6)
