"""The command line: one file per verb; each only parses, calls and prints."""

from __future__ import annotations

import os
import time

__all__ = ["main"]

#: When the command began, before anything heavy was loaded; a time limit counts from there.
started_at: float | None = None


def main() -> None:
    """Run the command line."""
    global started_at
    started_at = time.monotonic()
    # Before numpy loads: processes use the cores, so a BLAS with threads of its own only gets
    # in their way, and the memory of its buffers is wasted.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from foretell.cli._main import cli

    cli()
