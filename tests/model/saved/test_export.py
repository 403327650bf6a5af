"""Exported models predict what the model predicts, whatever the columns and levels are called."""

import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foretell
from foretell.errors import ModelError
from foretell.model.saved.export import _tree, export_model, formula_techniques, formula_text
from foretell.model.techniques import TECHNIQUES
from foretell.model.techniques.laws._formula import (
    Clip,
    Column,
    Function,
    Number,
    Product,
    Sum,
    add,
    multiply,
    raised,
)

LAWS = {
    "ScalingLaw": "foretell.model.techniques.laws.scaling_law:ScalingLawTechnique",
    "PowerLaw": "foretell.model.techniques.laws.power_law:PowerLawTechnique",
    "LightTrees": "foretell.model.techniques.trees.light_trees:LightTreesTechnique",
}
LINEAR = {"LRRidge": {"alpha": 0.1}, "NNLS": {"fit_intercept": True}, "Stepwise": {}}
DERIVED = {"inverse": ["nodes"], "log": ["size"], "product_max_degree": 2}
FORMS = ("json", "python", "sql")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, place in LAWS.items():
        if name not in TECHNIQUES.names():
            monkeypatch.setitem(TECHNIQUES._table, name, place)


def runs(n=60):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "nodes": random.choice([1, 2, 4, 8], n),
            "size": random.uniform(1, 100, n).round(3),
            "idle": random.choice([0, 5, 9, 400], n),
            "load": random.uniform(-2, 2, n),
            "cached": random.random(n) < 0.5,
            "machine": random.choice(["c4", "m4", "r4"], n),
            "release": random.choice([3, 4], n),
        }
    )
    machine = frame["machine"].map({"c4": 1, "m4": 1.3, "r4": 2})
    frame["t"] = machine * (9 + frame["size"] / frame["nodes"] + 5 * frame["cached"])
    frame["t"] *= random.lognormal(0, 0.05, n) * (1 + (frame["release"] == 4))
    return frame


def fit(frame, technique, params=None, features=None, categorical=(), rename=None):
    campaign = {
        "data": {"target": "t", "categorical": list(categorical), "rename": rename or {}},
        "features": features or {},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {technique: params or {}},
    }
    return foretell.fit_model(campaign, frame).best


def new_rows(n=40):
    random = np.random.default_rng(1)
    frame = runs(n).drop(columns="t")
    frame["size"] = random.uniform(0.01, 5000, n)
    frame["idle"] = random.integers(0, 5000, n)
    frame.loc[::5, "machine"] = "never seen"
    frame.loc[::7, "release"] = 9
    return frame


# Evaluators, each without foretell


def evaluate(node, row):
    """Follow the documentation that is in the file, and nothing else."""
    op, of = node["op"], node.get("of")
    if op == "number":
        return node["value"]
    if op == "column":
        return float(row[node["name"]])
    if op == "level":
        value = row[node["column"]]
        is_number = node["is_number"] and not isinstance(value, str)
        return float(
            str(value) in node["spellings"] or (is_number and value == float(node["spellings"][0]))
        )
    if op in ("sum", "product"):
        return {"sum": math.fsum, "product": math.prod}[op](evaluate(part, row) for part in of)
    inner = evaluate(of, row)
    if op == "clip":
        low, high = node["low"], node["high"]
        return min(
            max(inner, -math.inf if low is None else low), math.inf if high is None else high
        )
    return {"inverse": lambda v: 1 / v}.get(op, getattr(math, op, None))(inner)


def by_json(text, frame):
    tree = json.loads(text)
    assert set(_ops(tree["prediction"])) <= set(tree["operations"])
    return [evaluate(tree["prediction"], row) for row in frame.to_dict("records")]


def _ops(node):
    yield node["op"]
    of = node.get("of", [])
    for part in of if isinstance(of, list) else [of]:
        yield from _ops(part)


def by_python(text, frame):
    """Run the module in an interpreter that cannot find foretell, nor any package."""
    program = (
        f"{text}\nimport json, sys\nassert 'foretell' not in sys.modules\n"
        "json.dump([predict(row) for row in ROWS], sys.stdout)\n"
    )
    rows = f"import json\nROWS = json.loads({json.dumps(frame.to_dict('records'))!a})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-"],
        input=rows + program, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_sql(text, frame):
    connection = sqlite3.connect(":memory:")
    for name, function in {"LN": math.log, "EXP": math.exp, "SQRT": math.sqrt}.items():
        connection.create_function(name, 1, function, deterministic=True)
    frame.to_sql("runs", connection, index=False)
    return [row[0] for row in connection.execute(f"SELECT {text} FROM runs ORDER BY rowid")]


EVALUATORS = {"json": by_json, "python": by_python, "sql": by_sql}


def assert_exports_agree(model, frame, forms=FORMS):
    expected = model.predict(frame)
    for form in forms:
        found = EVALUATORS[form](export_model(model, form), frame)
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=form)


# Every model with a formula


@pytest.mark.parametrize("normalization", [True, False])
@pytest.mark.parametrize("features", [{}, DERIVED], ids=["plain", "derived"])
@pytest.mark.parametrize("technique", LINEAR)
def test_linear_models_predict_the_same_everywhere(technique, features, normalization):
    features = {**features, "normalization": normalization}
    model = fit(runs(), technique, LINEAR[technique], features, ["machine", "release"])
    assert_exports_agree(model, new_rows())


@pytest.mark.parametrize("features", [{}, {"inverse": ["nodes"]}], ids=["plain", "derived"])
@pytest.mark.parametrize("technique", ["ScalingLaw", "PowerLaw"])
def test_laws_predict_the_same_everywhere(technique, features):
    model = fit(runs(), technique, {}, features, ["machine", "release"])
    assert_exports_agree(model, new_rows())


@pytest.mark.parametrize("technique", ["LRRidge", "ScalingLaw", "PowerLaw"])
def test_saved_models_export_the_same_text(technique, tmp_path):
    model = fit(runs(), technique)
    model.save(tmp_path / "m.foretell")
    rebuilt = foretell.load_model(tmp_path / "m.foretell")
    for form in FORMS:
        assert export_model(rebuilt, form) == export_model(model, form)


def test_ernest_features_are_exported():
    frame = runs()[["nodes", "size", "t"]].rename(columns={"nodes": "cores", "size": "datasize"})
    model = fit(frame, "NNLS", features={"ernest": True})
    assert_exports_agree(model, frame.drop(columns="t"))


def test_predictions_are_raised_to_the_floor_of_the_model():
    falling = runs()
    falling["t"] = 1000 - 9 * falling["size"]
    model = fit(falling, "LRRidge", {"alpha": 0.1}, {"normalization": True})
    assert model.fitted.floor is not None
    low = new_rows().assign(size=1e6)
    assert set(model.predict(low)) == {model.fitted.floor}
    assert_exports_agree(model, low)


def test_thousands_of_terms_are_not_nested_too_deep_for_any_parser():
    random = np.random.default_rng(0)
    x = random.uniform(1, 2, (80, 12))
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(12)]).assign(t=1 + x.sum(axis=1))
    model = fit(frame, "LRRidge", {"alpha": 1.0}, {"product_max_degree": 4})
    assert len(model.feature_map.features) > 1500
    assert_exports_agree(model, frame.drop(columns="t").head(3))


# Names and levels


HOSTILE = [
    "'", '"', "\\", "\\'", '\\"', "a'b\"c", "line\nbreak", "'''", '"""', "x\\", "{0}", "%s", "é∑",
    "'); DROP TABLE runs; --", "]", "`", "${x}", "\r\n\t",
]  # fmt: skip


@pytest.mark.parametrize("technique", ["LRRidge", "ScalingLaw", "PowerLaw"])
def test_hostile_names_stay_names(technique):
    random = np.random.default_rng(0)
    n = 4 * len(HOSTILE)
    level = np.array(HOSTILE * 4, dtype=object)
    size = random.uniform(1, 9, n)
    for name in HOSTILE:
        frame = pd.DataFrame({name: size, f"k{name}": level, "t": size + np.arange(n) % 7 + 1.0})
        model = fit(frame, technique)
        forms = FORMS if name in HOSTILE[:4] else ("json", "sql")
        assert_exports_agree(model, frame.drop(columns="t").head(30), forms)
        compile(export_model(model, "python"), "exported", "exec")


#: No table can hold a null character, and no file a lone surrogate.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_any_name_and_level_is_only_data_in_python(template, name, level):
    column = replace(template.feature_map.columns[0], name=name, levels=(level, level + "x"))
    features = tuple(
        replace(f, factors=(replace(f.factors[0], column=name, level=of),))
        for f, of in zip(template.feature_map.features, column.levels, strict=True)
    )
    feature_map = replace(template.feature_map, columns=(column,), features=features)
    model = replace(template, target=name, feature_map=feature_map)
    space = {}
    exec(compile(export_model(model, "python"), "exported", "exec"), space)
    assert space["COLUMNS"] == [name] and space["TARGET"] == name
    for value in (level, level + "x", level + "y"):
        expected = model.predict(pd.DataFrame({name: pd.Series([value], dtype=object)}))
        assert space["predict"]({name: value}) == pytest.approx(expected[0], rel=1e-9)


@pytest.fixture(scope="module")
def template():
    frame = pd.DataFrame({"k": ["a", "b"] * 6, "t": [10.0, 20.0] * 6})
    return fit(frame, "LRRidge", {"alpha": 0.001})


def test_name_that_sql_cannot_hold_is_refused():
    frame = pd.DataFrame({"a\0b": [1.0, 2, 3, 4] * 3, "t": [1.0, 2, 3, 4] * 3})
    model = fit(frame, "LRRidge")
    with pytest.raises(ModelError, match="NUL"):
        export_model(model, "sql")
    assert_exports_agree(model, frame, ("json", "python"))


def predict_python(model, row):
    space = {}
    exec(export_model(model, "python"), space)
    return space["predict"](row)


@pytest.mark.parametrize("value", [3, 3.0, "3", "3.0", "03", True, "x", 4, "1_0", 5.5, "5.50"])
def test_levels_that_were_numbers_match_however_they_are_written(value):
    frame = pd.DataFrame({"k": [3, 4, 5.5, 10] * 6, "t": [10.0, 20.0, 40.0, 70.0] * 6})
    model = fit(frame, "LRRidge", {"alpha": 0.001}, categorical=["k"])
    expected = model.predict(pd.DataFrame({"k": pd.Series([value], dtype=object)}))[0]
    assert predict_python(model, {"k": value}) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("value", ["1.10", "1.1", "1.100", 1.1, "7", "007", 7])
def test_levels_that_are_texts_match_as_written(value):
    frame = pd.DataFrame({"k": ["1.10", "1.1", "007", "7"] * 6, "t": [10.0, 20.0, 30, 40] * 6})
    model = fit(frame, "LRRidge", {"alpha": 0.001}, categorical=["k"])
    expected = model.predict(pd.DataFrame({"k": pd.Series([value], dtype=object)}))[0]
    assert predict_python(model, {"k": value}) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("value", [True, False, "true", "True", "FALSE"])
@pytest.mark.parametrize("as_category", [True, False])
def test_truth_values_match_in_each_spelling(value, as_category):
    frame = pd.DataFrame({"k": [True, False] * 6, "n": range(12), "t": [10.0, 20.0] * 6})
    model = fit(frame, "LRRidge", {"alpha": 0.001}, categorical=["k"] if as_category else [])
    truth = str(value).lower() == "true"
    expected = model.predict(pd.DataFrame({"k": [truth], "n": [3]}))[0]
    assert predict_python(model, {"k": value, "n": 3}) == pytest.approx(expected, rel=1e-9)


def test_columns_have_the_names_they_were_trained_with():
    model = fit(runs()[["nodes", "t"]], "PowerLaw", rename={"nodes": "machines"})
    expected = model.predict(pd.DataFrame({"machines": [4]}))[0]
    assert predict_python(model, {"machines": 4}) == pytest.approx(expected, rel=1e-9)


# What is said


def test_model_without_a_formula_is_refused_with_those_that_have_one():
    model = fit(runs(), "DecisionTree")
    with pytest.raises(ModelError, match="DecisionTree and has no formula") as caught:
        export_model(model, "sql")
    for name in ("LRRidge", "NNLS", "Stepwise", "ScalingLaw", "PowerLaw"):
        assert name in str(caught.value)
    assert not {"RandomForest", "LightTrees", "XGBoost"} & set(formula_techniques())


def test_formula_text_names_levels_and_target():
    text = formula_text(fit(runs(), "PowerLaw"))
    assert text.startswith("t ≈ ")
    assert "machine=c4: " in text
    assert formula_text(fit(runs(), "LRRidge")).startswith("t = ")
    assert formula_text(fit(runs(), "DecisionTree")) is None


def test_model_file_with_endless_steps_is_refused():
    model = fit(runs()[["nodes", "t"]], "LRRidge")
    feature = model.feature_map.features[0]
    factor = replace(feature.factors[0], steps=("sqrt",) * 5000)
    feature_map = replace(model.feature_map, features=(replace(feature, factors=(factor,)),))
    with pytest.raises(ModelError, match="5000 steps"):
        export_model(replace(model, feature_map=feature_map), "python")


@given(st.floats(-9, 9), st.floats(0.1, 9), st.floats(0.1, 5), st.floats(0, 5))
def test_floor_joins_the_bounds_that_are_there(value, floor, low, size):
    column, row = Column("x"), {"x": value}
    for bounded in (
        column,
        Clip(column, low, low + size),
        Clip(column, None, low),
        Function("exp", Clip(column, low, 6)),
    ):
        expected = max(evaluate(_tree(bounded), row), floor)
        assert evaluate(_tree(raised(bounded, floor)), row) == pytest.approx(expected, rel=1e-12)


def test_constants_are_folded():
    x = Column("x")
    assert add([Number(1.0), add([x, Number(2.0)])]) == Sum((x, Number(3.0)))
    assert multiply([Number(2.0), multiply([Number(3.0), x])]) == Product((Number(6.0), x))
    with pytest.raises(ValueError, match="not finite"):
        multiply([Number(1e300), Number(1e300), x])


def test_sql_says_which_columns_it_needs_and_warns_of_missing_ones():
    model = fit(runs(), "LRRidge")
    lines = export_model(model, "sql").splitlines()
    comments = " ".join(line for line in lines if line.startswith("--"))
    assert all(f'"{name}"' in comments for name in model.columns)
    assert "missing column" in comments
    assert len([line for line in lines if not line.startswith("--")]) == 1


def test_name_with_a_line_break_does_not_end_the_comment_of_sql():
    name = "x\n; DROP TABLE runs; --"
    frame = pd.DataFrame({name: [1.0, 2, 4, 8] * 3, "t": [1.0, 2, 4, 8] * 3})
    comments = export_model(fit(frame, "LRRidge"), "sql").splitlines()[:3]
    assert all(line.startswith("-- ") for line in comments)
    assert "\\n; DROP" in comments[0]
