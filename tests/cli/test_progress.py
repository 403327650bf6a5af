"""Progress as it is shown: where to, and what it says."""

import errno
import os
from contextlib import contextmanager

import pytest

from foretell.cli._progress import _Lines, shown_once, shown_progress
from foretell.cli.fit import _best
from foretell.model.run_options import Progress


def progress(**changes):
    values = {
        "n_done": 10,
        "n_total": 40,
        "best_error": 0.0806,
        "score_name": "mape",
        "left_s": 90.0,
    }
    return Progress(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "10/40 trials, best 8.06 %, about 1 min 30 s left."),
        ({"n_done": 40, "left_s": 0.0}, "40/40 trials, best 8.06 %."),
        (
            {"score_name": "rmse", "best_error": 123.45},
            "10/40 trials, best 123.5, about 1 min 30 s left.",
        ),
        ({"best_error": float("inf"), "left_s": None}, "10/40 trials."),
    ],
)
def test_line_says_trials_done_best_so_far_and_time_left(changes, line):
    with shown_progress("trial", _best, quiet=True) as shown:
        shown(progress(**changes))
    assert shown.last_line == line


def test_no_line_before_a_trial_is_finished():
    with shown_progress("trial", _best, quiet=True) as shown:
        shown(progress(n_done=0))
    assert shown.last_line == "No trial is finished."


def test_without_a_terminal_lines_go_to_stderr_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("foretell.cli._progress.time.monotonic", lambda: now[0])
    lines = _Lines("trial", _best)
    for now[0] in (1.0, 11.0, 12.0, 21.5):
        lines(progress())
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("10/40 trials") == 2


def test_quiet_prints_nothing(capsys):
    with shown_progress("trial", _best, quiet=True) as shown:
        shown(progress())
    assert capsys.readouterr().err == ""


def read_to_the_end(leader):
    """Read all that was written to a terminal whose other end is closed; a read gives a piece."""
    pieces = []
    try:
        while piece := os.read(leader, 1 << 16):
            pieces.append(piece)
    except OSError as error:
        assert error.errno == errno.EIO  # how Linux says that nobody writes any more
    return b"".join(pieces).decode()


@contextmanager
def a_terminal():
    """Let stderr be a terminal, and hand over a list that gets what was written in the end."""
    leader, follower = os.openpty()
    written = []
    with os.fdopen(follower, "w") as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "120")
        patch.setattr("sys.stderr", terminal)
        yield written
    written.append(read_to_the_end(leader))
    os.close(leader)


def test_a_terminal_gets_a_bar_that_is_gone_afterwards():
    with (
        a_terminal() as all_written,
        shown_progress("run", lambda _: ", 2 failed", quiet=False) as shown,
    ):
        shown(progress())
    (written,) = all_written
    assert " runs, 2 failed, about 1 min 30 s left" in written
    assert written.endswith("\x1b[2K")  # the line is wiped


@pytest.mark.parametrize("shown_as", [shown_progress, shown_once])
def test_the_bar_is_gone_before_an_interruption_is_told(shown_as):
    with a_terminal() as all_written:  # noqa: SIM117 - the terminal is read after the error
        with pytest.raises(KeyboardInterrupt), shown_as("run", lambda _: "", quiet=False) as shown:
            shown(progress())
            raise KeyboardInterrupt
    bar, _, told = all_written[0].partition("interrupted. 10/40 runs")
    assert bar.rstrip().endswith("\x1b[2K")  # the line is wiped
    assert told
    assert "\x1b" not in told
