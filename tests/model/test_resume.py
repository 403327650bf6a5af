"""Killed at any moment and run again, a campaign ends as if nothing had happened."""

import random
import shutil

import pytest

from foretell import fit_model, load_model
from foretell.errors import StorageError
from foretell.files.journal import decode


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def records(directory, kind):
    """Return the records of one kind that a journal holds so far."""
    journal = directory / "journal"
    content = journal.read_bytes() if journal.exists() else b""
    return [record for record in decode(content)[0] if record["kind"] == kind]


def without_closing(journal):
    """Return what a journal holds when the search has just ended."""
    content = journal.read_bytes()
    first = content.index(b'"kind":"judgement"')
    return content[: content.rindex(b"\n", 0, first) + 1]


def cut_last_line(journal, chance):
    """Leave part of the last line, as a crash in the middle of a write does."""
    content = journal.read_bytes()
    start = content.rfind(b"\n", 0, -1) + 1
    journal.write_bytes(content[: chance.randrange(start, len(content))])


# Real processes, really killed

KILLS = 7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_moments_leave_no_trace(
    seed, foretell, fit_arguments, campaign_directory, uninterrupted, expected, outcome
):
    chance = random.Random(seed)
    end = len(without_closing(uninterrupted / "journal"))
    journal = campaign_directory / "out" / "journal"
    for kill in range(KILLS):
        start = size_of(journal)
        target = start + chance.randint(1, (end - start) // (KILLS - kill + 1))
        run = foretell(*fit_arguments("out", chance.choice([1, 2])))
        assert run.reaches(lambda target=target: size_of(journal) >= target), run.text
        assert run.kill(), run.text
        assert run.leaves_nobody_behind()
        if chance.random() < 0.5:
            cut_last_line(journal, chance)
    last = foretell(*fit_arguments("out", chance.choice([1, 2])))
    assert last.wait() == 0, last.text
    assert outcome(campaign_directory / "out") == expected


@pytest.mark.slow
def test_kills_during_the_last_fits_and_while_files_are_written_leave_no_trace(
    foretell, fit_arguments, campaign_directory, uninterrupted, expected, outcome
):
    output = campaign_directory / "out"
    output.mkdir()
    (output / "journal").write_bytes(without_closing(uninterrupted / "journal"))
    moments = {
        "the first winner is judged": lambda: records(output, "judgement"),
        "half a file is there": lambda: list(output.glob("*.part")),
        "the first model is there": lambda: list(output.glob("*.foretell")),
        "the second model is recorded": lambda: len(records(output, "model")) > 1,
        "the leaderboard is there": lambda: (output / "leaderboard.csv").exists(),
        "all is there": lambda: (output / "best.foretell").exists(),
    }
    n_landed = 0
    for number, is_there in enumerate(moments.values()):
        run = foretell(*fit_arguments("out", 1 + number % 2))
        run.reaches(is_there)
        n_landed += run.kill()  # the last moments are short: it may have ended
        assert run.leaves_nobody_behind()
    assert n_landed > 0
    last = foretell(*fit_arguments("out", 2))
    assert last.wait() == 0, last.text
    assert outcome(output) == expected


# The same in this process: a killed run leaves a journal that is a prefix of the whole one

GRID_RACING = {
    "search": {"splits": {"method": "KFold", "folds": 3}, "racing": True},
    "techniques": {
        "LRRidge": {"alpha": [0.001, 0.01, 0.1, 1, 10, 100, 1000, 0.5, 0.01, 0.05, 5]},
        "XGBoost": {"n_estimators": [5, 20, 10], "max_depth": [2, 4, 6]},
    },
    "runs": 2,
}
TPE_RACING = {
    "search": {
        "method": "tpe",
        "evaluations": 8,
        "splits": {"method": "KFold", "folds": 3},
        "racing": True,
    },
    # Two searches each, that may well try the same values.
    "techniques": {
        "LRRidge": {"alpha": ["quniform(0,4,1)", "quniform(2,6,1)"]},
        "XGBoost": {"n_estimators": "quniform(5,20,5)", "max_depth": ["uniformint(2,4)", 3]},
    },
    "validation": {"method": "KFold", "folds": 2},
}
PLAIN_GRID = {
    "features": {"normalization": True},
    "feature_selection": {"method": "SFS", "max_features": 2, "folds": 2},
    "search": {"splits": {"method": "HoldOut", "ratio": 0.3}},
    "techniques": {"LRRidge": {"alpha": [0.1, 10]}, "DecisionTree": {"max_depth": [1, 2, 4]}},
    "save_training_models": True,
    "runs": 3,
}
CAMPAIGNS = {"grid racing": GRID_RACING, "tpe racing": TPE_RACING, "grid": PLAIN_GRID}


def fit(campaign, runs, output, **options):
    return fit_model({"data": {"target": "time_s"}, **campaign}, runs, output=output, **options)


@pytest.mark.slow
@pytest.mark.parametrize("campaign", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_any_prefix_of_a_journal_continues_to_the_same_end(campaign, runs, tmp_path, outcome):
    fit(campaign, runs, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    content = (tmp_path / "whole" / "journal").read_bytes()
    chance = random.Random(1)
    for number in range(8):
        output = tmp_path / str(number)
        if number % 2:  # the models are there, but maybe not the records of them
            shutil.copytree(tmp_path / "whole", output)
        else:
            output.mkdir()
        (output / "journal").write_bytes(content[: chance.randrange(len(content))])
        fit(campaign, runs, output, n_jobs=1 + number // 6)
        assert outcome(output) == expected, number


@pytest.mark.parametrize("campaign", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_number_of_workers_changes_nothing(campaign, runs, tmp_path, outcome):
    for n_jobs in (1, 2, 3):
        fit(campaign, runs, tmp_path / str(n_jobs), n_jobs=n_jobs)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2") == outcome(tmp_path / "3")


@pytest.mark.parametrize("campaign", [GRID_RACING, PLAIN_GRID], ids=["grid racing", "grid"])
def test_finished_campaign_adds_nothing_to_its_journal(campaign, runs, tmp_path, outcome):
    fit(campaign, runs, tmp_path / "out")
    expected = outcome(tmp_path / "out")
    journal = (tmp_path / "out" / "journal").read_bytes()
    fit(campaign, runs, tmp_path / "out")
    assert outcome(tmp_path / "out") == expected
    assert (tmp_path / "out" / "journal").read_bytes() == journal


def test_training_model_is_the_same_when_a_finished_campaign_is_called_again(runs, tmp_path):
    campaign = {
        "techniques": {"LRRidge": {"alpha": [0.1, 10]}},
        "search": {"splits": {"method": "KFold", "folds": 4}},
        "validation": {"method": "HoldOut", "ratio": 0.2},
        "save_training_models": True,
    }
    few = runs[:20]
    fit(campaign, few, tmp_path / "out")
    path = tmp_path / "out" / "LRRidge-training.foretell"
    first = load_model(path)
    assert first.has_intervals
    fit(campaign, few, tmp_path / "out")
    assert load_model(path).calibration == first.calibration


def test_model_file_that_was_changed_is_built_again(runs, tmp_path, outcome):
    fit(GRID_RACING, runs, tmp_path / "out")
    expected = outcome(tmp_path / "out")
    (tmp_path / "out" / "LRRidge.foretell").write_bytes(b"no model")
    (tmp_path / "out" / "XGBoost.foretell").unlink()
    fit(GRID_RACING, runs, tmp_path / "out")
    assert outcome(tmp_path / "out") == expected


def test_damage_in_the_middle_of_a_journal_is_refused_and_nothing_is_touched(runs, tmp_path):
    fit(GRID_RACING, runs, tmp_path / "out")
    journal = tmp_path / "out" / "journal"
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(content)
    with pytest.raises(StorageError, match="damaged at byte"):
        fit(GRID_RACING, runs, tmp_path / "out")
    assert journal.read_bytes() == content


# The time limit


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("campaign", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_search_cut_by_the_time_limit_says_so_gives_a_model_and_can_be_completed(
    campaign, runs, tmp_path, outcome, n_jobs
):
    cut = fit(campaign, runs, tmp_path / "cut", n_jobs=n_jobs, time_limit_s=1e-3)
    assert cut.results["search_cut_by_time_limit"]
    n_trials = len(cut.results["trials"])
    note = f"The time limit cut the search after {n_trials} trials."
    assert note in cut.results["notes"]
    assert note in (tmp_path / "cut" / "results.txt").read_text()
    assert (cut.predict(runs) > 0).all()
    reasons = {e["reason"] for e in cut.results["leaderboard"] if e["status"] == "failed"}
    assert reasons <= {"the time limit left no time for it"}

    whole = fit(campaign, runs, tmp_path / "whole")
    assert n_trials < len(whole.results["trials"])
    assert not whole.results["search_cut_by_time_limit"]
    fit(campaign, runs, tmp_path / "cut", n_jobs=n_jobs)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_generous_time_limit_changes_nothing(runs, tmp_path, outcome):
    fit(GRID_RACING, runs, tmp_path / "free")
    fit(GRID_RACING, runs, tmp_path / "limited", time_limit_s=1e6)
    assert outcome(tmp_path / "limited") == outcome(tmp_path / "free")


def test_time_limit_that_cuts_only_the_last_comparison_says_so_too(runs, tmp_path):
    """Continue a finished search with no time left: the winners differ, and stay uncompared."""
    whole = fit(TPE_RACING, runs, tmp_path / "out")
    compared = [t for t in whole.results["trials"] if t["split"] == "all"]
    assert compared, "this campaign has winners that differ"
    journal = tmp_path / "out" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"outer":"all"' not in line))
    cut = fit(TPE_RACING, runs, tmp_path / "out", time_limit_s=1e-3)
    assert cut.results["search_cut_by_time_limit"]
    assert len(cut.results["trials"]) == len(whole.results["trials"]) - len(compared)
    assert cut.results["best"] is not None
