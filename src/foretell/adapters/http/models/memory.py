"""A bound on the memory of a process that works for the server."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

#: Bytes of address space; a request that needs more fails, and all others are answered.
_MAX_BYTES = 4 * 2**30


def limit_memory() -> None:
    """Bound the memory of this process, and let it be killed first if the machine runs out."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MAX_BYTES if hard == resource.RLIM_INFINITY else min(_MAX_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with suppress(OSError):  # only Linux has this file
        Path("/proc/self/oom_score_adj").write_text("500")
