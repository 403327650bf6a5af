"""A process that makes one fit, and reports its progress line by line as JSON.

    python -m foretell.adapters.http.models.fits.process REQUEST

It ends when its input does, so it never outlives the server. Finished work is in the journal of
the fit, and the same request continues from there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.adapters.http.models.child import start_child

if TYPE_CHECKING:
    from foretell.model.run_options import Progress


def main() -> None:
    """Make the fit that the request describes."""
    os.nice(10)  # predictions come first
    output = os.fdopen(start_child(), "w")
    threading.Thread(target=_end_with_server, daemon=True).start()

    def report(**values: Any) -> None:
        output.write(json.dumps(values) + "\n")
        output.flush()

    from foretell.adapters.http.server.problems import ProblemError
    from foretell.errors import ForetellError

    try:
        _fit(json.loads(sys.argv[1]), report)
    except ForetellError as error:
        report(state="failed", detail=ProblemError.of(error).to_problem().detail)
    except MemoryError:
        report(state="failed", detail="the table needs more memory than there is; fit fewer rows")
    else:
        report(state="done")


def _fit(request: dict[str, Any], report: Callable[..., None]) -> None:
    from foretell.dataset import TextTable, read_dataset
    from foretell.model.fit import fit_model

    def on_progress(progress: Progress) -> None:
        report(n_done=progress.n_done, n_total=progress.n_total)

    table = TextTable(Path(request["table"]).read_bytes(), "the table")
    fit_model(
        read_dataset(table),
        target=request["target"],
        output=request["output"],
        seed=request["seed"],
        time_limit_s=request["time_limit_s"],
        n_jobs=1,
        progress=on_progress,
    )


def _end_with_server() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
