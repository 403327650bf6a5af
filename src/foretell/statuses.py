"""How a run ended: the words of the column ``status``, in one place."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a run ended.

    Only the numbers of an ``ok`` run describe the job. The time of a run that timed out is a lower
    bound. A run is ``lost`` when the nodes it ran on failed again and again.

    >>> Status.TIMED_OUT == "timed out", str(Status.OK)
    (True, 'ok')
    """

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    LOST = "lost"
