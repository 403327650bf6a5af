"""Problems: everything that goes wrong is told in one shape, that of RFC 9457."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from foretell.errors import ForetellError

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:foretell:problem:"

#: Each kind of problem: its status, and what it is called.
KINDS: Mapping[str, tuple[int, str]] = {
    "malformed": (400, "The request is not proper HTTP"),
    "token": (401, "A token is needed"),
    "foreign-page": (403, "Other pages may not ask for this"),
    "read-only": (403, "This server fits no models"),
    "not-found": (404, "There is nothing here"),
    "unknown-model": (404, "There is no such model"),
    "unknown-job": (404, "There is no such job"),
    "method": (405, "This is not done here"),
    "slow": (408, "The request came too slowly"),
    "taken": (409, "That name is taken"),
    "ended": (409, "The job has ended"),
    "too-large": (413, "That is too much at once"),
    "media-type": (415, "This kind of content is not read here"),
    "host": (421, "The server does not answer to this name"),
    "wrong-input": (422, "The input is wrong"),
    "internal": (500, "The server made a mistake"),
    "broken-model": (500, "The model cannot be read"),
    "storage": (500, "The model directory cannot be used"),
    "lost": (503, "The work was lost"),
    "busy": (503, "The server has too much to do"),
    "took-too-long": (504, "The answer took too long"),
}
_BY_STATUS = {404: "not-found", 405: "method", 413: "too-large", 415: "media-type"}


class ProblemError(ForetellError):
    """A problem on its way to the client."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The status of the answer."""
        return KINDS[self.kind][0]

    def to_dict(self) -> dict[str, Any]:
        """Return what the client gets to see."""
        status, title = KINDS[self.kind]
        return {
            "type": _PREFIX + self.kind,
            "title": title,
            "status": status,
            "detail": self.detail,
        }

    def to_bytes(self) -> bytes:
        """Return the body of the answer."""
        return json.dumps(self.to_dict()).encode()


def problem_of_status(status: int, detail: str) -> ProblemError:
    """Find the problem that the web framework means by a status."""
    kind = _BY_STATUS.get(status, "internal" if status >= 500 else "wrong-input")
    return ProblemError(kind, detail)
