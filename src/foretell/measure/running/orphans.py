"""Orphans: processes whose parent has ended, and whether this process becomes their parent."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # of Linux


def adopt_orphans(does: bool = True) -> None:
    """Become the parent of descendants whose parent has ended, so that all stay one tree."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0)


@contextmanager
def without_orphans() -> Iterator[None]:
    """Adopt no process for a moment: one whose parent ends meanwhile leaves the tree."""
    adopts = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    adopt_orphans(False)
    try:
        yield
    finally:
        adopt_orphans(bool(adopts.value))
