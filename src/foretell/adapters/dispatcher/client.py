"""The status of a dispatcher that is reached over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from foretell.adapters.dispatcher.status import ClassStatus, Status
from foretell.errors import Option, UsageError

_TIME_LIMIT_S = 10.0
_MOST_BYTES = 1_000_000


def ask_status(url: str, token: str | None) -> Status:
    """Ask a dispatcher how its queue is; a UsageError says why it does not answer."""
    option = Option("url", url)
    if not url.startswith(("http://", "https://")):
        raise UsageError("must begin with http:// or https://", option=option)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url.rstrip('/')}/status", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIME_LIMIT_S) as answer:  # noqa: S310
            return _read(json.loads(answer.read(_MOST_BYTES)))
    except urllib.error.HTTPError as error:
        with error:
            raise UsageError(_detail(error.read(_MOST_BYTES)), option=option) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"no dispatcher answers there: {reason}", option=option) from None


def _read(found: dict[str, Any]) -> Status:
    classes = [ClassStatus(**c) for c in found.pop("classes")]
    return Status(classes, **found)


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "the server there is no dispatcher"
