"""How long a search takes: compared with sums by hand, made-up truth, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.tune_eta import MODEL, judge, made_up

from foretell.decide.tuning.schedulers import SCHEDULERS
from foretell.errors import ForetellError, ModelError, UsageError
from foretell.model.fit import fit_model
from foretell.tune import predict_search

from .known import MEAN_S, SPACE, KnownTimes

ASKED = {"trials": 200, "max_epochs": 9, "cores": 4}


def predicted(space=SPACE, model=None, **options):
    given = {**ASKED, "scheduler": "random", "n_draws": 60, **options}
    return predict_search(space, model=model or KnownTimes(), **given)


def test_random_search_takes_all_epochs_by_the_slots():
    found = predicted()
    expected = 200 * 9 * MEAN_S / 4
    assert found.time.median_s == pytest.approx(expected, rel=0.05)
    assert found.time.lower_s < expected < found.time.upper_s
    assert found.n_epochs == found.most_epochs == 1800


def test_start_up_counts_for_each_trial():
    longer = predicted(start_up_s=8.0).time.median_s - predicted().time.median_s
    assert longer == pytest.approx(200 * 8 / 4, rel=0.1)
    assert predicted({**SPACE, "start_up_s": 8.0}).time == predicted(start_up_s=8.0).time


def test_hyperband_trains_the_epochs_of_its_brackets():
    """Ray Tune fills brackets of 3, 5 and 9 trials: 3·9, 5·3 + 2·6 and 9·1 + 3·2 + 1·6 epochs."""
    found = predicted(scheduler="hyperband", trials=17)
    assert found.n_epochs == 27 + (5 * 3 + 2 * 6) + (9 + 3 * 2 + 6)


@pytest.mark.parametrize("name", SCHEDULERS.names())
def test_more_cores_never_take_longer_and_stopping_saves(name):
    asked = {"trials": 40, "n_draws": 20}
    slow, quick = (predicted(scheduler=name, cores=n, **asked).time.median_s for n in (2, 16))
    assert quick < slow <= predicted(cores=2, **asked).time.median_s * 1.01


def test_threads_that_do_not_help_are_told_to_be_left_out():
    space = {**SPACE, "system": {"threads": [4, 1]}}
    times = KnownTimes(columns=("width", "batch_size", "threads"), per_thread=0.0)
    (change,) = [c for c in predicted(space, times).changes if c.kind == "threads"]
    assert change.text == "1 thread per trial"
    assert change.saves == pytest.approx(0.75, abs=0.03)  # four times as many at a time


def test_threads_that_divide_the_time_save_nothing():
    space = {**SPACE, "system": {"threads": 2}}  # others than those in use are half and twice
    times = KnownTimes(columns=("width", "batch_size", "threads"), per_thread=1.0)
    changes = [c for c in predicted(space, times).changes if c.kind == "threads"]
    assert [c.text for c in changes] == ["1 thread per trial", "4 threads per trial"]
    assert [c.saves for c in changes] == pytest.approx([0, 0], abs=0.05)


def test_values_that_cost_most_are_those_to_leave_out():
    changes = [c for c in predicted().changes if c.kind == "space"]
    assert [c.text for c in changes][:2] == ["without batch_size=16", "without width=30"]
    assert changes[0].saves == pytest.approx(1 - 0.2 / 1.1, abs=0.03)
    assert changes[1].saves == pytest.approx(0.25, abs=0.05)


def test_an_end_of_a_range_can_be_left_out():
    space = {"hyperparameters": {"width": {"from": 10, "to": 50}, "batch_size": [16]}}
    changes = [c for c in predicted(space).changes if c.kind == "space"]
    assert [c.text for c in changes] == ["without width above 40"]


def test_one_rung_fewer_is_offered_where_there_are_rungs():
    (change,) = [c for c in predicted(scheduler="asha").changes if c.kind == "epochs"]
    assert "at most 3 epochs" in change.text
    assert change.saves > 0.2
    assert not [c for c in predicted().changes if c.kind == "epochs"]


def test_one_rung_fewer_is_not_offered_by_other_schedulers_without_rungs(monkeypatch):
    monkeypatch.setattr(SCHEDULERS.get("asha"), "has_eta", False)
    assert not [c for c in predicted(scheduler="asha").changes if c.kind == "epochs"]


def test_the_same_seed_gives_the_same_answer():
    assert predicted(seed=3).to_json() == predicted(seed=3).to_json()
    assert predicted(seed=3).to_json() != predicted(seed=4).to_json()


def test_what_a_change_saves_is_what_the_times_beside_it_say():
    for scheduler in ("asha", "hyperband", "optuna-halving-auto"):
        found = predicted(scheduler=scheduler, trials=16)
        assert found.changes
        for change in found.changes:
            saved = 1 - change.time.median_s / found.time.median_s
            assert change.saves == pytest.approx(saved)


def test_text_and_json_tell_the_same():
    found = predicted(scheduler="asha", trials=30)
    values = json.loads(json.dumps(found.to_json()))
    assert values["time_s"] == found.time.median_s
    assert values["label"] == "simulated"
    assert values["at_a_time"] == 4
    first, second, *_ = str(found).splitlines()
    assert first.startswith("About ")
    assert "simulated" in first
    assert "asha: 30 trials, 4 at a time" in second


def test_a_model_that_is_less_sure_gives_a_wider_interval():
    sure, unsure = (predicted(model=KnownTimes(s)).time for s in (0.02, 0.4))
    assert unsure.upper_s - unsure.lower_s > 2 * (sure.upper_s - sure.lower_s)


@pytest.mark.slow
def test_intervals_hold_what_is_made_up_and_get_better():
    """Searches whose truth is known, played by another loop than the one that predicts."""
    made = [made_up(name, seed) for seed in range(5) for name in ("hyperband", "asha")]
    frame = pd.DataFrame([row for one in made for row in judge(*one, shares=(0.1, 0.5))])
    frame = frame[frame["basis"] == MODEL]
    by_moment = frame.groupby("after")["error"].mean()
    assert by_moment[0.5] < by_moment[0.1] <= 1.05 * by_moment[0.0]
    assert by_moment[0.0] < 0.25
    assert 0.8 <= frame["covered"].mean() <= 1.0
    assert frame["error"].mean() < frame["mean_error"].replace(np.inf, np.nan).mean()


# Models and bad input


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    rows = [
        {"width": w, "batch_size": b, "epoch_s": w / 10 * 16 / b * random.lognormal(0, 0.02)}
        for w in (10, 20, 30)
        for b in (16, 32, 64, 160)
        for _ in range(2)
    ]
    return fit_model(pd.DataFrame(rows), target="epoch_s")


def test_a_fitted_model_predicts_as_its_law(model):
    found = predicted(model=model)
    assert found.time.median_s == pytest.approx(200 * 9 * MEAN_S / 4, rel=0.1)
    assert not found.notes


def test_a_model_far_outside_its_data_says_so(model):
    space = {"hyperparameters": {"width": [10, 9000], "batch_size": [16]}}
    (note,) = predicted(space, model).notes
    assert note.startswith("Trust: ")
    assert "width" in note


def test_a_model_that_knows_no_threads_says_so(model):
    found = predicted({**SPACE, "system": {"threads": [2, 1]}}, model)
    assert any("does not know threads" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scheduler": "hyperbend"}, "Did you mean 'hyperband'?"),
        ({"eta": 1}, "eta=1: must be at least 2"),
        ({"max_epochs": 0}, "max_epochs: must be at least 1"),
        ({"min_epochs": 10}, "min_epochs: must be from 1 to 9"),
        ({"trials": 0}, "trials: must be from 1"),
        ({"cores": 0}, "cores: must be at least 1"),
        ({"start_up_s": -1.0}, "start_up_s: must be at least 0"),
        ({"n_draws": 1}, "n_draws: must be at least 20"),
        ({"seed": -1}, "seed: must be at least 0"),
        ({"space": {"hyperparameters": {}}}, "has no hyperparameter"),
        ({"space": {}}, "hyperparameters"),
        ({"space": {"hyperparameters": {"width": []}}}, "has no values"),
        ({"space": {"hyperparameters": {"width": [10], "batch_size": 16}}}, "one configuration"),
        ({"space": {"hyperparameters": {"width": [10, 20]}}}, "the model needs batch_size"),
        (
            {"space": {**SPACE, "system": {"threads": 8}}},
            "a trial has 8 threads, and there are 4 cores",
        ),
        ({"space": {**SPACE, "system": {"threads": 0}}}, "whole numbers from 1"),
        ({"space": {**SPACE, "fixed": {"width": 3}}}, "'width' is given twice"),
        ({"space": {**SPACE, "fixed": {"threads": 4}}}, "must be under [system]"),
        (
            {"space": {"hyperparameters": {**SPACE["hyperparameters"], "threads": [1, 2]}}},
            "must be under [system]",
        ),
        ({"space": {**SPACE, "start_up_s": -1}}, "start_up_s"),
        ({"space": {**SPACE, "hyperparameter": {}}}, "hyperparameter"),
        ({"space": "missing.toml"}, "there is no space file"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_remedy(options, told):
    with pytest.raises(UsageError) as caught:
        predicted(**options)
    assert told in str(caught.value)


def test_models_of_other_things_are_refused(model, tmp_path):
    class Energy(type(model)):
        target = "energy_j"

    other = object.__new__(Energy)
    other.__dict__.update(model.__dict__)
    with pytest.raises(ForetellError, match="no time of an epoch"):
        predicted(model=other)
    with pytest.raises(ModelError, match="holds no"):
        predicted(model=tmp_path)
