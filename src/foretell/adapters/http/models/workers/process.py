"""A worker process: it reads requests about models from its input, and writes answers.

    python -m foretell.adapters.http.models.workers.process DIRECTORY MAX_MODELS MAX_ROWS

It ends when its input does, so it never outlives the server.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from foretell.adapters.http.models.memory import limit_memory
from foretell.adapters.http.models.workers import messages


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C
    limit_memory()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get into the answers
    from foretell.executors.cores import limit_threads

    limit_threads()
    from foretell.adapters.http.models.store import ModelStore
    from foretell.adapters.http.models.workers.handler import RequestHandler

    directory, max_models, max_rows = sys.argv[1:]
    handler = RequestHandler(ModelStore(Path(directory), int(max_models)), int(max_rows))
    answers.write(messages.pack({"status": 200}))
    answers.flush()
    with suppress(BrokenPipeError):
        while (message := messages.read(requests)) is not None:
            answers.write(messages.pack(*handler.answer(*message)))
            answers.flush()
    os._exit(0)  # skip the clean-up of libraries: everything is written


if __name__ == "__main__":
    main()
