"""Real searches under Ray Tune and Optuna, recorded: ours decide the same, event by event."""

from collections import Counter

import pytest
from benchmarks.tune_eta import DATA, read_records, search_of

from foretell.decide.tuning.schedulers import GO_ON

RECORDS = list(read_records([DATA]))


def name_of(record):
    return "-".join(str(record[k]) for k in ("library", "scheduler", "workload", "seed"))


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_trials_end_where_ours_decides(record):
    scheduler = search_of(record).make()
    # Names of trials tell their order; that of their first epochs may differ.
    names = sorted({e["trial"] for e in record["events"]}, key=lambda n: (len(n), n))
    numbers = {name: i for i, name in enumerate(names)}
    epochs, decisions = Counter(), {}
    for event in record["events"]:
        trial = numbers[event["trial"]]
        if event["event"] == "ended":
            assert decisions[trial] != GO_ON  # those that wait are ended by the last of a rung
            continue
        until = scheduler.until(trial, epochs[trial])
        epochs[trial] = event["epoch"]
        assert event["epoch"] <= until
        if event["epoch"] == until:
            decisions[trial] = scheduler.reached(trial, until, event["value"])
    assert len(epochs) == record["trials"]
    assert GO_ON not in {decisions[trial] for trial in epochs}


def test_several_schedulers_of_both_libraries_are_recorded():
    kinds = {(r["library"], r["scheduler"]) for r in RECORDS}
    assert {("ray", "asha"), ("ray", "hyperband"), ("optuna", "optuna-hyperband")} <= kinds
