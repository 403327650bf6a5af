"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from foretell.model.engine import Progress

_LINE_EVERY_S = 10.0


class _Quiet:
    """Remembers how far the work is, and shows nothing."""

    def __init__(self) -> None:
        self.last_line = "No trial is finished."

    def __call__(self, progress: Progress) -> None:
        if progress.n_done:
            self.last_line = _line(progress) + "."

    def stop(self) -> None:
        """End the display."""


class _Lines(_Quiet):
    """Prints a line every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._next = time.monotonic() + _LINE_EVERY_S

    def __call__(self, progress: Progress) -> None:
        super().__call__(progress)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY_S
            click.echo(_line(progress), err=True)


class _Bar(_Quiet):
    """Draws a bar with trials done, best so far and time left."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("trials   best {task.fields[best]}{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("search", total=None, best="–", left="")

    def __call__(self, progress: Progress) -> None:
        super().__call__(progress)
        if not self._bar.live.is_started:
            self._bar.start()  # only now: worker processes must not be forked beside its thread
        self._bar.update(
            self._task,
            completed=progress.n_done,
            total=progress.n_total,
            best=_best(progress),
            left=_left(progress),
        )

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[_Quiet]:
    """Choose the display, and end it whatever happens."""
    shown = _Quiet() if quiet else _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield shown
    finally:
        shown.stop()


def _line(progress: Progress) -> str:
    done = f"{progress.n_done}/{progress.n_total} trials"
    return f"{done}, best {_best(progress)}{_left(progress)}"


def _left(progress: Progress) -> str:
    """Say how long it will take if trials go on as they have so far."""
    if progress.left_s is None or progress.left_s < 1:
        return ""
    minutes, seconds = divmod(round(progress.left_s), 60)
    return f", about {minutes}:{seconds:02d} left"


def _best(progress: Progress) -> str:
    if progress.best_error == float("inf"):
        return "–"
    if progress.score_name == "mape":
        return f"{100 * progress.best_error:.2f} %"
    return f"{progress.best_error:.4g}"
