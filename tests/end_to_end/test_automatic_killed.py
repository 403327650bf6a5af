"""An automatic fit that is killed and run again ends as if nothing had happened."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from foretell.files.journal import decode

FIT = ("fit", "runs.csv", "--target", "time_s", "-q")


def write_runs(directory):
    frame = pd.DataFrame(
        [(n, s) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80)], columns=["nodes", "size"]
    )
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    frame = frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * noise)
    frame.to_csv(directory / "runs.csv", index=False)


def answers(output):
    """Return the answers that a journal holds so far, each by its fold and member."""
    journal = output / "journal"
    content = journal.read_bytes() if journal.exists() else b""
    return [(r["fold"], r["member"]) for r in decode(content)[0] if r["kind"] == "answer"]


def outcome(output):
    """Read all that must not depend on how it came about."""
    results = json.loads((output / "results.json").read_text())
    del results["times"]
    board = pd.read_csv(output / "leaderboard.csv").drop(columns="fit_s").to_csv()
    models = {p.name: p.read_bytes() for p in output.glob("*.foretell")}
    return {"results.json": json.dumps(results), "leaderboard.csv": board, **models}


@pytest.mark.slow
def test_kills_in_the_middle_of_rehearsals_leave_no_trace_and_no_answer_is_given_twice(
    foretell, tmp_path
):
    write_runs(tmp_path)
    undisturbed = foretell(*FIT, "-o", "whole", "-j", 1)
    assert undisturbed.wait() == 0, undisturbed.text
    n_all = len(answers(tmp_path / "whole"))
    assert n_all > 20

    output = tmp_path / "out"
    for n_jobs in (1, 2):
        before = len(answers(output))
        if before == n_all:  # all were journaled before the first kill came
            break
        run = foretell(*FIT, "-o", "out", "-j", n_jobs)
        # Answers are journaled in groups: each kill comes at the first new one.
        assert run.reaches(lambda before=before: len(answers(output)) > before), run.text
        assert run.kill(), run.text
        assert run.leaves_nobody_behind()
        assert len(answers(output)) > before
        assert not (output / "results.json").exists()
    kept = (output / "journal").read_bytes()

    last = foretell(*FIT, "-o", "out", "-j", 1)
    assert last.wait() == 0, last.text
    assert outcome(output) == outcome(tmp_path / "whole")
    journaled = answers(output)
    assert len(journaled) == len(set(journaled)) == n_all
    sound = len(kept[: kept.rfind(b"\n") + 1])
    assert (output / "journal").read_bytes()[:sound] == kept[:sound]
