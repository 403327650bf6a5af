"""What a process that works for the server does first: set limits, keep output clean."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

#: Bytes of address space; a request that needs more fails, and all others are answered.
_MAX_BYTES = 4 * 2**30


def start_child() -> int:
    """Limit this process to one thread and some memory; return a descriptor for its answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C
    _limit_memory()
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get into the answers
    from foretell.executors.cores import limit_threads

    limit_threads()
    return answers


def _limit_memory() -> None:
    """Bound the memory of this process, and let it be killed first if the machine runs out."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MAX_BYTES if hard == resource.RLIM_INFINITY else min(_MAX_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with suppress(OSError):  # only Linux has this file
        Path("/proc/self/oom_score_adj").write_text("500")
