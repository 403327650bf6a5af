"""Reasons of the hook: in the store before a search can end the trial."""

from foretell.tune import open_store, pipeline
from foretell.tune.store import EpochRow


def test_what_was_changed_and_why_is_in_the_store_as_soon_as_the_epoch_is(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        knobs = pipeline("job", {"threads": [1, 2]}, store=store, strict=True)
        for epoch in knobs.epochs(range(3)):
            if epoch < 2:
                knobs.reasons.append((epoch, f"why of {epoch}"))
            else:
                trial = knobs._context.trial
                assert store.reasons("job", trial) == [(0, "why of 0"), (1, "why of 1")]
    with open_store(tmp_path / "store.sqlite") as store:
        assert store.reasons("job", trial) == knobs.reasons
        assert store.reasons("job", "another") == []
        assert store.path is not None


def test_a_trial_has_rows_of_its_own_if_they_have_more_settings_than_its_lease():
    store = open_store(":memory:")
    for trial, phase, system in [
        ("hooked", "steady", {"threads": 2, "cpus": 2.0}),
        ("left out", "left out", {"threads": 2}),
        ("plain", "steady", {"cpus": 2.0}),
    ]:
        store.add_epochs([EpochRow("job", trial, 1, phase, {}, system, 1.0)])
    trials = ("hooked", "left out", "plain", "unknown")
    assert [store.has_own_rows("job", t) for t in trials] == [True, True, False, False]
