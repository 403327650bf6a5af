"""What must hold of co-runs: a bar that fails shows in the exit code."""

from benchmarks.corun import report


def test_a_bar_that_fails_shows_in_the_exit_code(capsys):
    assert report([("fast", True), ("small", True)]) == 0
    assert report([("fast", True), ("small", False)]) == 1
    assert "FAILS   small" in capsys.readouterr().out
