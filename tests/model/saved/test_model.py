"""Saved models meet tables that are named, typed and written differently from the training's."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pydantic
import pytest

import foretell
from foretell.dataset import read_dataset
from foretell.errors import DatasetError, ModelError
from foretell.model.campaigns import closing
from foretell.model.campaigns.schema import read_campaign
from foretell.model.features.feature import Factor, Feature
from foretell.model.fingerprint import fingerprint
from foretell.model.saved import file as archive
from foretell.model.saved.header import Header

SPLITS = {"splits": {"method": "KFold", "folds": 2}}


def fit(frame, output=None, techniques=None, data=None, **sections):
    campaign = {
        "data": {"target": "t", **(data or {})},
        "search": SPLITS,
        "techniques": techniques or {"LRRidge": {"alpha": 1e-6}},
        **sections,
    }
    return foretell.fit_model(campaign, frame, output=output)


def table(**columns):
    return pd.DataFrame(columns)


# Renamed columns


def law(n=24):
    random = np.random.default_rng(0)
    a, b = random.uniform(1, 9, (2, n))
    return a, b, 10 + 3 * a + 0.5 * b


def test_swapped_names_are_swapped_in_prediction_too():
    a, b, t = law()
    model = fit(table(p=a, q=b, t=t), data={"rename": {"p": "q", "q": "p"}}).best
    new = table(p=a, q=b)
    assert model.predict(new) == pytest.approx(t, rel=1e-4)
    assert model.predict(model.configurations(new)) == pytest.approx(t, rel=1e-4)
    assert not any(model.outside(model.configurations(new)))


def test_chain_of_names_is_followed_and_new_names_are_taken_as_they_are():
    a, b, t = law()
    rename = {"cores": "threads", "nodes": "cores"}
    model = fit(table(nodes=a, cores=b, t=t), data={"rename": rename}).best
    for new in (table(nodes=a, cores=b), table(cores=a, threads=b)):
        assert model.predict(new) == pytest.approx(t, rel=1e-4)


def test_table_with_both_names_is_read_by_the_new_ones():
    a, b, t = law()
    model = fit(table(sz=a, n=b, t=t), data={"rename": {"sz": "size"}}).best
    assert model.predict(table(sz=b, size=a, n=b)) == pytest.approx(t, rel=1e-4)


def test_missing_column_is_named():
    a, b, t = law()
    model = fit(table(sz=a, n=b, t=t), data={"rename": {"sz": "size", "n": "nodes"}}).best
    with pytest.raises(ModelError, match="no column 'size'"):
        model.predict(table(sz=a, nodes=b))


# Levels


def model_of_levels(tmp_path, *levels, data=None):
    """Fit a file with a column of levels, the first at 10, the second at 20 and so on."""
    rows = [f"{level},{10 * (i + 1)}" for i, level in enumerate(levels)] * 6
    (tmp_path / "runs.csv").write_text("\n".join(["k,t", *rows]))
    return fit(tmp_path / "runs.csv", techniques={"DecisionTree": {}}, data=data).best


def predicted(model, tmp_path, *values):
    (tmp_path / "new.csv").write_text("\n".join([" k ", *values]) + "\n")
    return model.predict(tmp_path / "new.csv").round(3).tolist()


def test_level_does_not_depend_on_the_other_rows_of_the_file(tmp_path):
    model = model_of_levels(tmp_path, "true", "false", "auto")
    assert predicted(model, tmp_path, "true", "true") == [10, 10]
    assert model.outside(tmp_path / "new.csv") == ["", ""]
    assert model.predict(pd.DataFrame({"k": [False, True]})).round(3).tolist() == [20, 10]


def test_level_of_text_is_taken_as_it_is_written(tmp_path):
    levels = ("1.10", "1.1", "007", "7", "1.8.1")
    model = model_of_levels(tmp_path, *levels, data={"categorical": ["k"]})
    for i, level in enumerate(levels):
        assert predicted(model, tmp_path, level) == [10 * (i + 1)]
    predicted(model, tmp_path, "1.100")
    assert model.outside(tmp_path / "new.csv") == ["k: unknown level 1.100 (did you mean 1.10?)"]


def test_levels_that_were_numbers_match_however_the_number_is_written(tmp_path):
    model = model_of_levels(tmp_path, "3", "1.10", "40", data={"categorical": ["k"]})
    assert predicted(model, tmp_path, "3.0", "1.1", "040", "4e1") == [10, 20, 30, 30]
    assert predicted(model, tmp_path, "1.10", "3") == [20, 10]
    predicted(model, tmp_path, "x", "3")
    assert model.outside(tmp_path / "new.csv") == ["k: unknown level x", ""]


def test_levels_that_were_truth_values_match_in_each_spelling(tmp_path):
    model = model_of_levels(tmp_path, "true", "false", data={"categorical": ["k"]})
    assert predicted(model, tmp_path, "TRUE", "False", "true") == [10, 20, 10]


def test_renamed_category_is_read_as_text_and_other_columns_are_not(tmp_path):
    frame = table(k=["1.10", "1.1", "x"] * 8, flag=[True, False] * 12, t=[1.0, 2, 3] * 8)
    data = {"rename": {"k": "flag", "flag": "k"}, "categorical": ["flag"]}
    model = fit(frame, data=data, techniques={"DecisionTree": {}}).best
    (tmp_path / "new.csv").write_text("k,flag\n1.10,true\n1.10,false\n")
    assert model.predict(tmp_path / "new.csv").tolist() == [1, 1]


# What the file says


def test_training_model_tells_the_rows_it_was_trained_on(tmp_path):
    a, b, t = law(40)
    frame = table(a=a, b=b, t=t)
    extrapolation = {"method": "Extrapolation", "columns": {"a": 5}}
    fit(frame, tmp_path / "out", validation=extrapolation, save_training_models=True)
    training = foretell.load_model(tmp_path / "out" / "LRRidge-training.foretell")
    assert training.n_rows == (a <= 5).sum()
    assert training.ranges["a"] == (a.min(), a[a <= 5].max())
    assert foretell.load_model(tmp_path / "out").ranges["a"] == (a.min(), a.max())


def test_model_too_large_to_be_read_is_a_failure_with_its_reason(tmp_path, monkeypatch):
    a, b, t = law()
    techniques = {"LRRidge": {"alpha": 0.1}, "RandomForest": {"n_estimators": 50}}
    monkeypatch.setattr(archive, "_MOST_BYTES", 10_000)
    fitted = fit(table(a=a, b=b, t=t), tmp_path / "out", techniques)
    assert list(fitted.models) == ["LRRidge"]
    failed = fitted.results["leaderboard"][-1]
    assert failed["technique"] == "RandomForest"
    assert "2 GiB" in failed["reason"]
    assert not (tmp_path / "out" / "RandomForest.foretell").exists()


def test_model_with_millions_of_factors_is_refused(tmp_path):
    a, b, t = law()
    model = fit(table(a=a, b=b, t=t)).best
    long = Feature("long", (Factor("a"),) * 2_000)
    features = replace(model.feature_map, features=(model.feature_map.features[0], long))
    header = json.loads(zipfile.ZipFile(io.BytesIO(model.to_bytes())).read("model.json"))
    header["features"][1]["factors"] *= 2_000
    with pytest.raises(pydantic.ValidationError, match="at most 1024"):
        Header.model_validate(header)
    with pytest.raises(pydantic.ValidationError, match="at most 1024"):
        replace(model, feature_map=features).save(tmp_path / "m.foretell")


def test_unreadable_model_is_built_again_and_a_sound_one_is_read_once(tmp_path, monkeypatch):
    a, b, t = law()
    fit(table(a=a, b=b, t=t), tmp_path / "out")
    asked = []

    def load(path):
        asked.append(path)
        if len(asked) > 1:
            raise ModelError("unreadable")
        return foretell.load_model(path)

    monkeypatch.setattr(closing, "load_model", load)
    again = fit(table(a=a, b=b, t=t), tmp_path / "out")
    assert len(asked) == 1
    assert fit(table(a=a, b=b, t=t), tmp_path / "out").best.formula == again.best.formula
    assert len(asked) == 2


def test_huge_targets_give_results_without_infinite_scores(tmp_path):
    a, b, t = law()
    fitted = fit(table(a=a, b=b, t=t * 1e200), tmp_path / "out", {"Dummy": {}})
    validation = fitted.results["leaderboard"][0]["validation"]
    assert validation["rmse"]["mean"] is None
    assert validation["mape"]["mean"] > 0


# What results depend on


def data_digest(values):
    campaign = read_campaign({"data": {"target": "t"}, "techniques": {"Dummy": {}}}, place="it")
    return fingerprint(campaign, pd.DataFrame({"x": values}))["data"]


def test_tables_of_different_types_have_different_digests():
    digests = {data_digest(v) for v in ([True, False], [1, 0], [1.0, 0.0], ["1", "0"])}
    assert len(digests) == 4


def test_lists_in_a_column_to_skip_have_a_digest():
    assert data_digest([[1], [2]]) == data_digest([[1], [2]]) != data_digest([[1], [3]])
    a, _, t = law()
    fit(table(a=a, lists=[[1]] * len(a), t=t), data={"skip_columns": ["lists"]})


# Headers of text files


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ('"time, in, s";n', ["time, in, s", "n"]),
        ('"a;b;c", n', ["a;b;c", "n"]),
        ('n, "a, b"', ["n", "a, b"]),
        ("a|b", ["a", "b"]),
    ],
)
def test_delimiters_inside_quotes_do_not_count(header, columns, tmp_path):
    delimiter = next(d for d in ";|," if d in header.replace('"a;b;c"', ""))
    (tmp_path / "x.csv").write_text(f"{header}\n1{delimiter}2\n")
    dataset = read_dataset(tmp_path / "x.csv")
    assert dataset.columns == columns
    assert dataset.frame.to_numpy().tolist() == [[1, 2]]


def test_header_that_is_no_csv_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a" * 200_000 + ",b\n1,2\n")
    with pytest.raises(DatasetError, match="must name the columns"):
        read_dataset(tmp_path / "x.csv")
