"""The process that holds models: it reads requests from its input, and writes answers.

    python -m foretell.adapters.http.worker DIRECTORY MOST_MODELS MOST_ROWS

It ends when its input does, so that it never outlives the server.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from foretell.adapters.http import frames

#: Bytes of addresses; a request that needs more is refused, and all others are answered.
_MOST_MEMORY = 4 * 2**30


def main() -> None:
    """Answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server to answer
    limit_memory()
    asked, answered = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    from foretell.executors.threads import limit_threads

    limit_threads()
    from foretell.adapters.http.desk import Desk
    from foretell.adapters.http.shelf import Shelf

    directory, most_models, most_rows = sys.argv[1:]
    desk = Desk(Shelf(Path(directory), int(most_models)), int(most_rows))
    answered.write(frames.pack({"status": 200}))
    answered.flush()
    with suppress(BrokenPipeError):
        while (message := frames.read(asked)) is not None:
            answered.write(frames.pack(*desk.answer(*message)))
            answered.flush()
    os._exit(0)  # nothing is left to be written, and nobody to be told


def limit_memory() -> None:
    """Bound what this process may take; if memory runs out all the same, it goes first."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MOST_MEMORY if hard == resource.RLIM_INFINITY else min(_MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with suppress(OSError):  # where there is no such file
        Path("/proc/self/oom_score_adj").write_text("500")


if __name__ == "__main__":
    main()
