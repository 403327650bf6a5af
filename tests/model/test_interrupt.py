"""Ctrl-C, and two processes that want the same directory."""

import re
import shlex
import signal

import pytest

from foretell.files.journal import decode

pytestmark = pytest.mark.slow

INTERRUPTED, WRONG_INPUT = 130, 2


def records(output, kind="trial"):
    """Return the records of one kind that a journal holds so far."""
    journal = output / "journal"
    content = journal.read_bytes() if journal.exists() else b""
    return [record for record in decode(content)[0] if record["kind"] == kind]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_at_once_and_the_command_it_prints_continues(
    n_jobs, foretell, fit_arguments, campaign_directory, expected, outcome
):
    output = campaign_directory / "out"
    run = foretell(*fit_arguments("out", n_jobs))
    assert run.reaches(lambda: len(records(output)) >= 5), run.text
    run.interrupt()
    assert run.wait() == INTERRUPTED, run.text
    assert run.leaves_nobody_behind()
    told = re.fullmatch(
        r"\ninterrupted\. (\d+)/(\d+) trials, best [\d.]+ %(, about .+ left)?\. "
        r"What is finished is kept; continue with\n  foretell (.+)\n",
        run.text,
    )
    assert told is not None, run.text
    assert 1 <= int(told[1]) <= int(told[2])
    continued = foretell(*shlex.split(told[4]))
    assert continued.wait() == 0, continued.text
    assert outcome(output) == expected


@pytest.mark.parametrize("attempt", range(3))
def test_ctrl_c_while_workers_are_being_started_is_not_lost(
    attempt, foretell, fit_arguments, campaign_directory
):
    run = foretell(*fit_arguments("out", 4))
    assert run.reaches(lambda: len(run.members()) > 1), run.text
    run.interrupt()
    assert run.wait() == INTERRUPTED, run.text
    assert run.leaves_nobody_behind()
    assert run.text.startswith("\ninterrupted. "), run.text


def test_ctrl_c_while_the_last_models_are_built_is_no_different(
    foretell, fit_arguments, campaign_directory, expected, outcome
):
    output = campaign_directory / "out"
    run = foretell(*fit_arguments("out", 2))
    assert run.reaches(lambda: records(output, "judgement")), run.text
    run.interrupt()
    assert run.wait() in {INTERRUPTED, 0}, run.text  # it may have been done just then
    assert run.leaves_nobody_behind()
    assert "Traceback" not in run.text
    continued = foretell(*fit_arguments("out", 1))
    assert continued.wait() == 0, continued.text
    assert outcome(output) == expected


def test_second_process_in_the_same_directory_is_refused_and_harms_nothing(
    foretell, fit_arguments, campaign_directory, expected, outcome
):
    output = campaign_directory / "out"
    first = foretell(*fit_arguments("out", 2))
    assert first.reaches(lambda: len(records(output)) >= 3), first.text
    first.process.send_signal(signal.SIGSTOP)  # it stays, however long the second takes
    before = (output / "journal").read_bytes()
    second = foretell(*fit_arguments("out", 1))
    assert second.wait() == WRONG_INPUT, second.text
    assert second.text.startswith("error: another foretell")
    assert "-o" in second.text
    assert (output / "journal").read_bytes() == before
    first.process.send_signal(signal.SIGCONT)
    assert first.wait() == 0, first.text
    assert outcome(output) == expected
