"""The process that makes one fit, and tells how far it is, line by line, as JSON.

    python -m foretell.adapters.http.fit_process REQUEST

It ends when its input does, so that it never outlives the server; what was finished is journaled,
and the same request continues there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.adapters.http.worker import limit_memory

if TYPE_CHECKING:
    from foretell.model.run_options import Progress

_MOST_DETAIL = 2_000  # characters, of what may quote a hostile table


def main() -> None:
    """Fit what the request says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server to answer
    os.nice(10)  # predictions come first
    limit_memory()
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_server, daemon=True).start()

    def tell(**news: Any) -> None:
        told.write(json.dumps(news) + "\n")
        told.flush()

    from foretell.errors import ForetellError

    try:
        _fit(json.loads(sys.argv[1]), tell)
    except ForetellError as error:
        tell(state="failed", detail=str(error)[:_MOST_DETAIL])
    except MemoryError:
        tell(state="failed", detail="the table needs more memory than there is; fit fewer rows")
    else:
        tell(state="done")


def _fit(request: dict[str, Any], tell: Any) -> None:
    from foretell.dataset import TextTable, read_dataset
    from foretell.executors.threads import limit_threads
    from foretell.model.fit import fit_model

    limit_threads()

    def progress(news: Progress) -> None:
        tell(n_done=news.n_done, n_total=news.n_total)

    table = TextTable(Path(request["table"]).read_bytes(), "the table")
    fit_model(
        read_dataset(table),
        target=request["target"],
        output=request["output"],
        seed=request["seed"],
        time_limit_s=request["time_limit_s"],
        n_jobs=1,
        progress=progress,
    )


def _end_with_server() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
