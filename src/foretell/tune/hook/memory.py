"""Whether memory ran out in a training: errors that say so, and what Torch counts of a GPU."""

from __future__ import annotations

import gc
import sys
from types import FrameType, TracebackType
from typing import Any

#: What errors of Torch say whose type is a plain RuntimeError.
_WORDS = ("out of memory", "can't allocate memory", "killed by signal", "exited unexpectedly")


def n_gpu_failures() -> int:
    """Return how often memory of the GPU ran out in this process."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.memory_stats().get("num_ooms", 0))


def ran_out() -> bool:
    """Tell whether an error that passes through the code under way says that memory ran out.

    A loop that is left closes the generator that it goes through, and a generator does not see
    the error that ends the loop. Its traceback has the frames that run now, so it is found among
    all objects. Before Python 3.12, an error that C code raises straight into the loop is not.
    """
    frames: set[FrameType] = set()
    passed: set[TracebackType] = set()
    objects, frame = gc.get_objects(), sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        frames.add(frame)
    for each in objects:
        if type(each) is TracebackType and each.tb_frame in frames:
            link: TracebackType | None = each
            while link is not None:
                passed.add(link)
                link = link.tb_next
    for each in objects:
        if issubclass(type(each), Exception) and _says_so(each):
            trace = each.__traceback__
            if trace in passed or (trace is None and _is_kept_by_none(each, objects)):
                return True
    return False


def _is_kept_by_none(error: Exception, objects: list[Any]) -> bool:
    """Tell whether no object holds an error, as it is while it passes through Python 3.11.

    Others without a traceback were made and never raised, or are kept for later.
    """
    holders = gc.get_referrers(error)
    return all(each is objects or type(each) is FrameType for each in holders)


def _says_so(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"MemoryError", "OutOfMemoryError"}:
        return True
    return type(error) is RuntimeError and any(word in str(error) for word in _WORDS)
