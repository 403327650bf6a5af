"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from foretell.cli._output import echo
from foretell.spaces.quantities import duration
from foretell.wording import printable

_LINE_EVERY_S = 10.0


class Progress(Protocol):
    """How far any work is."""

    @property
    def n_done(self) -> int:
        """How many pieces of work are finished."""

    @property
    def n_total(self) -> int:
        """How many there are."""

    @property
    def left_s(self) -> float | None:
        """How long the rest will take; None if unknown."""


class Display:
    """Remembers how far the work is, and shows nothing.

    Parameters
    ----------
    piece
        What one piece of the work is called, such as ``trial``.
    remark
        What to add about how the work goes, such as the best error so far.
    """

    def __init__(self, piece: str, remark: Callable[[Any], str]) -> None:
        self.piece = piece
        self._remark = remark
        self.last_line = f"No {piece} is finished."

    def __call__(self, progress: Progress) -> None:
        left_s = progress.left_s or 0.0
        left = f", about {duration(round(left_s))} left" if left_s >= 1 else ""
        remarks = self._remark(progress) + left
        line = f"{progress.n_done}/{progress.n_total} {self.piece}s{remarks}"
        if progress.n_done:
            self.last_line = f"{line}."
        self.show(progress, line, remarks)

    def show(self, progress: Progress, line: str, remarks: str) -> None:
        """Show the progress as a line, or draw it with the remarks beside."""

    def stop(self) -> None:
        """End the display."""


class _Lines(Display):
    """Prints a line every few seconds."""

    def __init__(self, piece: str, remark: Callable[[Any], str]) -> None:
        super().__init__(piece, remark)
        self._next = time.monotonic() + _LINE_EVERY_S

    def show(self, progress: Progress, line: str, remarks: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY_S
            echo(line, err=True)


class _Bar(Display):
    """Draws a bar, with the remarks behind it; it is removed at the end."""

    def __init__(self, piece: str, remark: Callable[[Any], str]) -> None:
        super().__init__(piece, remark)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{piece}s{{task.fields[remarks]}}", markup=False),
            console=Console(stderr=True),
            transient=True,
            # No thread of its own, whose locks a forked worker would inherit, and the streams of
            # the program stay as they are.
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(piece, total=None, remarks="")

    def show(self, progress: Progress, line: str, remarks: str) -> None:
        if not self._bar.live.is_started:
            self._bar.start()
        n_done, n_total, shown = progress.n_done, progress.n_total, printable(remarks)
        self._bar.update(self._task, completed=n_done, total=n_total, remarks=shown, refresh=True)

    def stop(self) -> None:
        self._bar.stop()


@contextmanager
def shown_progress(piece: str, remark: Callable[[Any], str], *, quiet: bool) -> Iterator[Display]:
    """Show progress as suits the output, and after Ctrl-C say how to continue."""
    shown = _display(piece, remark, quiet=quiet)
    with resumable(shown), _stopped(shown):
        yield shown


@contextmanager
def shown_once(piece: str, remark: Callable[[Any], str], *, quiet: bool) -> Iterator[Display]:
    """Show progress of work that cannot be continued, and after Ctrl-C say how far it is."""
    shown = _display(piece, remark, quiet=quiet)
    try:
        with _stopped(shown):
            yield shown
    except KeyboardInterrupt:
        echo(f"\ninterrupted. {shown.last_line}", err=True)
        raise


def _display(piece: str, remark: Callable[[Any], str], *, quiet: bool) -> Display:
    kind = Display if quiet else _Bar if sys.stderr.isatty() else _Lines
    return kind(piece, remark)


@contextmanager
def _stopped(shown: Display) -> Iterator[None]:
    """End a display before anything else is said: a bar would be drawn again below that."""
    try:
        yield
    finally:
        shown.stop()


@contextmanager
def resumable(shown: Display | None = None) -> Iterator[None]:
    """After Ctrl-C, say how far the work is and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        last = "" if shown is None else f" {shown.last_line}"
        echo(
            f"\ninterrupted.{last} What is finished is kept; continue with\n"
            f"  {shlex.join(['foretell', *sys.argv[1:]])}",
            err=True,
        )
        raise
