"""Problems: every error that a client sees has one shape, that of RFC 9457."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pydantic
from starlette.responses import Response

from foretell.errors import ForetellError, Option, Remedy

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:foretell:problem:"
_MAX_TEXT = 2_000  # characters; a message may quote a hostile request


@dataclass(frozen=True)
class Kind:
    """A kind of problem: a name for programs, the status of the answer, and a title for people."""

    name: str
    status: int
    title: str


MALFORMED = Kind("malformed", 400, "The request is not valid HTTP")
TOKEN = Kind("token", 401, "A token is required")
FOREIGN_PAGE = Kind("foreign-page", 403, "Pages of other sites may not send this request")
NOT_FOUND = Kind("not-found", 404, "Nothing was found at this path")
METHOD = Kind("method", 405, "This method is not supported here")
SLOW = Kind("slow", 408, "The request arrived too slowly")
TOO_LARGE = Kind("too-large", 413, "The request is too large")
MEDIA_TYPE_UNKNOWN = Kind("media-type", 415, "This content type is not supported")
HOST = Kind("host", 421, "The server does not answer to this host name")
WRONG_INPUT = Kind("wrong-input", 422, "The input is wrong")
HEAD_TOO_LARGE = Kind("head-too-large", 431, "The headers of the request are too large")
INTERNAL = Kind("internal", 500, "The server failed")
LOST = Kind("lost", 503, "The process that worked on the request ended")
BUSY = Kind("busy", 503, "The server is busy")
TOOK_TOO_LONG = Kind("took-too-long", 504, "The answer took too long")

#: The kind that the web framework means by a status.
BY_STATUS = {kind.status: kind for kind in (NOT_FOUND, METHOD, TOO_LARGE, MEDIA_TYPE_UNKNOWN)}


class Problem(pydantic.BaseModel):
    """What went wrong, in the shape of RFC 9457.

    ``type`` names the kind of problem, for programs. ``detail`` is the whole message, for people.
    ``option`` is the entry of the request or the setting of the server that it is about, and
    ``remedy`` is what to do; both are left out where there is none.
    """

    type: str
    title: str
    status: int
    detail: str
    option: str | None = None
    remedy: str | None = None


class ProblemError(ForetellError):
    """A problem on its way to the client."""

    def __init__(
        self,
        kind: Kind,
        text: str,
        *,
        at: tuple[str, ...] = (),
        option: Option | None = None,
        remedy: Remedy = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text, at=at, option=option, remedy=remedy)
        self.kind, self.headers = kind, dict(headers or {})

    @classmethod
    def of(cls, error: ForetellError, kind: Kind = WRONG_INPUT) -> ProblemError:
        """Turn an error of the library into a problem."""
        return cls(kind, error.text, at=error.at, option=error.option, remedy=error.remedy)

    def to_problem(self) -> Problem:
        """Return what the client gets to see, with options written as in JSON."""
        place = Option(self.option.name, key=self.option.key) if self.option else None
        worded = ForetellError(self.text, at=self.at, option=place, remedy=self.remedy)
        remedy = "".join(p if isinstance(p, str) else in_json(p) for p in self.remedy)
        return Problem(
            type=_PREFIX + self.kind.name,
            title=self.kind.title,
            status=self.kind.status,
            detail=worded.worded(in_json)[:_MAX_TEXT],
            option=in_json(place) if place else None,
            remedy=remedy[:_MAX_TEXT] or None,
        )

    def response(self) -> Response:
        """Return the answer to the client."""
        return Response(self.to_bytes(), self.kind.status, self.headers, MEDIA_TYPE)

    def to_bytes(self) -> bytes:
        """Return the body of the answer."""
        return self.to_problem().model_dump_json(exclude_none=True).encode()


def in_json(option: Option) -> str:
    """Write an option as in a JSON body; without a value, as the place of an entry.

    >>> print(in_json(Option("allow_far")), in_json(Option("fix", key="nodes")))
    allow_far fix.nodes
    >>> print(in_json(Option("deadline", "5s")), in_json(Option("fix", "8", key="nodes")))
    "deadline": "5s" "fix": {"nodes": 8}
    """
    if option.value is None:
        return option.name if option.key is None else f"{option.name}.{option.key}"
    value = _json_value(option.value)
    if option.key is not None:
        value = f"{{{json.dumps(option.key)}: {value}}}"
    return f"{json.dumps(option.name)}: {value}"


def _json_value(text: str) -> str:
    """Write a value as in JSON: numbers as they are, other texts in quotes."""
    try:
        is_number = isinstance(json.loads(text), int | float)
    except ValueError:
        is_number = False
    return text if is_number or text == "..." else json.dumps(text, ensure_ascii=False)
