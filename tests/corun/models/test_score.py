"""Models of co-runs: judged without what they learned from, learned parts only where they win."""

import json
import math
from collections import Counter

import pytest

from foretell.corun.models.baselines import AdditiveCpu, Fluid, Isolated, RooflineClasses
from foretell.corun.models.cases import read_measurement
from foretell.corun.models.fitted import read_fitted
from foretell.corun.models.residual import Residual
from foretell.corun.models.score import fit_co_runs, score_co_runs
from foretell.corun.models.validation import (
    BASELINES,
    Prediction,
    covered,
    improvement,
    out_of_sample,
)
from foretell.corun.predict import predict_together
from foretell.errors import DatasetError, ModelError, NothingUsableError

from ..jobs import FACTS, made_up, made_up_machine
from ..measured import make_measurement

MACHINE = made_up_machine()


@pytest.fixture(scope="module")
def true_to_the_model(tmp_path_factory):
    return make_measurement(tmp_path_factory.mktemp("true") / "measured")


@pytest.fixture(scope="module")
def slower_than_modelled(tmp_path_factory):
    return make_measurement(tmp_path_factory.mktemp("slow") / "measured", factor=1.2)


def test_the_fluid_model_is_right_where_it_made_the_times(true_to_the_model):
    scores = score_co_runs(true_to_the_model, machine=MACHINE)
    errors = scores.errors()
    for question in ("pairs, seen", "pairs, unseen", "triples", "shifted"):
        assert errors["fluid"][question] < 1e-3  # times in the table are rounded
        assert errors["isolated"][question] > 0.02
    assert set(scores.chosen.values()) == {"fluid"}
    assert math.isnan(errors["fluid"]["pinned"])
    assert "← used" in str(scores)
    assert json.loads(json.dumps(scores.to_json()))["errors"]["fluid"]["pinned"] is None


def test_the_residual_joins_where_it_wins_and_predictions_use_it(slower_than_modelled, tmp_path):
    fitted, scores = fit_co_runs(slower_than_modelled, tmp_path / "x.corun", machine=MACHINE)
    assert scores.errors()["fluid"]["pairs, unseen"] == pytest.approx(1 - 1 / 1.2, abs=1e-3)
    assert scores.errors()["fluid and residual"]["pairs, unseen"] < 0.05
    assert scores.chosen["pair"] == "fluid and residual"
    assert fitted.residual is not None
    jobs = [made_up("a", cores=2.0), made_up("b", cores=2.0)]
    plain = predict_together(jobs, machine=MACHINE)
    learned = predict_together(jobs, machine=MACHINE, model=tmp_path / "x.corun")
    assert learned["a"].end_s == pytest.approx(1.2 * plain["a"].end_s, rel=0.05)
    assert learned["a"].lower_s <= learned["a"].end_s <= learned["a"].upper_s
    # Alone there is nothing to learn.
    alone = predict_together(jobs[:1], machine=MACHINE, model=tmp_path / "x.corun")
    assert alone["a"].end_s == pytest.approx(10.0)


def test_what_is_learned_is_used_only_for_the_kinds_in_which_it_wins(tmp_path):
    """Pairs take longer than modelled here, and everything else does not."""
    factors = {"pair": 1.2, "triple": 1.0, "shifted": 1.0}
    folder = make_measurement(tmp_path / "mixed", factor=factors)
    fitted, scores = fit_co_runs(folder, tmp_path / "x.corun", machine=MACHINE)
    assert scores.chosen["pair"] == "fluid and residual"
    assert {scores.chosen[kind] for kind in ("triple", "shifted", "running")} == {"fluid"}
    assert "used for pair\n" in str(scores)
    assert read_fitted(tmp_path / "x.corun").residual_kinds == fitted.residual_kinds == {"pair"}
    three = [made_up(name, cores=2.0) for name in "abc"]
    for jobs, options, factor in (
        (three[:2], {}, 1.2), (three, {}, 1.0), (three[:2], {"pin": "packed"}, 1.0),
        (three[:2], {"starts": {"b": 1.0}}, 1.0), (three[:2], {"running": {"a": 0.1}}, 1.0),
    ):  # fmt: skip
        plain = predict_together(jobs, machine=MACHINE, **options)
        learned = predict_together(jobs, machine=MACHINE, model=tmp_path / "x.corun", **options)
        assert learned["a"].end_s == pytest.approx(factor * plain["a"].end_s, rel=0.05)


def test_a_program_without_a_profile_is_left_out_by_name(tmp_path):
    folder = make_measurement(tmp_path / "short")
    (folder / "profiles/c.profile").unlink()
    scores = score_co_runs(folder, machine=MACHINE)
    assert "without 'c', which was too short" in str(scores)
    assert not any("c" in case.programs for case in scores.measurement.cases)
    for name in "abde":
        (folder / f"profiles/{name}.profile").unlink()
    with pytest.raises(DatasetError, match="no profile of any program"):
        score_co_runs(folder, machine=MACHINE)


def test_the_best_baseline_is_that_of_each_question(true_to_the_model):
    scores = score_co_runs(true_to_the_model, machine=MACHINE)
    errors = scores.errors()
    names = [model.name for model in BASELINES]
    for question in scores.gains():
        best = scores.best_baselines[question]
        assert errors[best][question] == min(errors[name][question] for name in names)
    assert len(set(scores.best_baselines.values())) > 1


def test_a_model_never_learns_from_the_program_it_is_judged_on(true_to_the_model):
    seen = []

    class Spy(Fluid):
        def fit(self, cases):
            self.programs = {name for case in cases for name in case.programs}

        def predict(self, case):
            seen.append((self.programs, case))
            return super().predict(case)

    cases = read_measurement(true_to_the_model, MACHINE).cases
    found = out_of_sample(Spy, cases)
    for programs, case in seen[sum(c.kind == "pair" for c in cases) :]:
        assert not set(case.programs) <= programs
    # Every job of every pair is predicted once, by the model that left its program out.
    pairs = [case for case in cases if case.kind == "pair"]
    assert Counter((p.key, p.program) for p in found["pairs, unseen"]) == Counter(
        (case.key, name) for case in pairs for name in case.programs
    )


def test_baselines_do_what_their_names_say(true_to_the_model):
    cases = read_measurement(true_to_the_model, MACHINE).cases
    pair = next(c for c in cases if c.programs == ("d", "e") and c.kind == "pair")
    assert Isolated().predict(pair) == pytest.approx([9.0, 10.0])
    assert AdditiveCpu().predict(pair) == pytest.approx([9.0 * 1.8, 10.0 * 1.8], rel=0.02)
    classes = RooflineClasses()
    assert classes.predict(pair) == pytest.approx([9.0, 10.0])
    classes.fit([pair])
    # Both are of one class: its factor is the geometric mean of the two slowdowns.
    mean = math.sqrt(pair.walls_s[0] / 9.0 * pair.walls_s[1] / 10.0)
    assert classes.predict(pair) == pytest.approx([9.0 * mean, 10.0 * mean])


def test_what_is_left_of_a_shifted_pair_is_a_case_of_its_own(true_to_the_model):
    cases = read_measurement(true_to_the_model, MACHINE).cases
    whole = next(c for c in cases if c.kind == "shifted")
    rest = next(c for c in cases if c.kind == "running" and c.key == whole.key)
    assert rest.walls_s[0] == pytest.approx(whole.walls_s[0] - 2.0)
    assert Fluid().predict(rest) == pytest.approx(list(rest.walls_s), rel=1e-3)


def some(errors):
    return [Prediction(f"run-{k}", f"p{k % 4}", 1.0, math.exp(e)) for k, e in enumerate(errors)]


def test_errors_of_a_program_do_not_shape_the_interval_that_it_is_judged_by():
    """Nor do those of its neighbors in the same runs."""
    calm = [Prediction(f"run-{k}", "calm", 1.0, 1.0) for k in range(40)]
    wild = [Prediction(f"wild-{k}", p, 1.0, 3.0) for k in range(40) for p in ("wild", "beside")]
    assert covered([*calm, *wild], "pair") == 0.0


def test_an_improvement_is_clear_of_zero_only_if_it_is_one():
    better, low, high = improvement(some([0.01] * 20), some([0.1] * 20))
    assert 0.85 < low <= better <= high
    same = [0.1 if k % 2 else -0.1 for k in range(20)]
    _, low, high = improvement(some(same), some(same[::-1]))
    assert low <= 0 <= high


def test_intervals_cover_nine_of_ten_new_errors():
    import random

    draw = random.Random(0)
    assert 0.82 <= covered(some([draw.gauss(0, 0.1) for _ in range(400)]), "pair") <= 0.97


def test_folders_without_usable_runs_are_refused(tmp_path, true_to_the_model):
    with pytest.raises(DatasetError, match="cannot be read"):
        score_co_runs(tmp_path)
    text = (true_to_the_model / "runs.csv").read_text()
    few = make_measurement(tmp_path / "few")
    (few / "runs.csv").write_text(text.replace(",ok,", ",disturbed,"))
    with pytest.raises(NothingUsableError, match="usable pairs"):
        score_co_runs(few, machine=MACHINE)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x04", b"PK\x03\x04 cut short", b"text"],
)
def test_files_that_are_no_models_are_refused(content, tmp_path):
    (tmp_path / "x.corun").write_bytes(content)
    with pytest.raises(ModelError):
        read_fitted(tmp_path / "x.corun")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"co-runs": 2}, "does not say"),
        ({"errors": {}}, "no errors"),
        ({"errors": {"pear": [0.1]}}, "no errors"),
        ({"errors": {"pair": [1e9]}}, "cannot be"),
        ({"machine": {}}, "machine.cpu"),
        ({"residual_kinds": ["pear"]}, "for which kinds"),
        ({"gru_weights": {"pear": 0.5}}, "for which kinds"),
        ({"gru_weights": {"pair": 0.5}}, "weights of its network"),
        ({"residual": {"weights": [1.0]}}, "not complete"),
        ({"residual": {**Residual().state(), "weights": [1.0]}}, "other features"),
        ({"residual": {**Residual().state(), "scale": [0.0] * 13}}, "cannot be"),
    ],
)
def test_headers_that_are_wrong_are_refused(change, reason, tmp_path):
    from foretell.model.saved.file import pack

    good = {
        "co-runs": 1,
        "errors": {"pair": [0.1]},
        "source": "",
        "residual": None,
        "machine": FACTS,
    }
    (tmp_path / "x.corun").write_bytes(pack({**good, **change}, {}))
    with pytest.raises(ModelError, match=reason):
        read_fitted(tmp_path / "x.corun")
