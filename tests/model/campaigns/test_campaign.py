"""Campaigns: what is legal, and how well the refusals read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.model.campaigns.schema import (
    Campaign,
    HoldOut,
    KFold,
    read_campaign,
    read_toml,
)
from foretell.model.campaigns.search.space import candidates, faults
from foretell.model.techniques import TECHNIQUES


def campaign(**changes):
    """Return the least campaign, changed; None takes a key out."""
    source = {"data": {"target": "y"}, "techniques": {"LRRidge": {}}, **changes}
    return {key: value for key, value in source.items() if value is not None}


def refusal(**changes):
    with pytest.raises(UsageError) as caught:
        read_campaign(campaign(**changes), place="c.toml")
    return str(caught.value)


def splits(method, **options):
    return {"method": method, **options}


def test_the_least_campaign_has_defaults():
    read = read_campaign(campaign())
    assert read.search.splits == KFold(method="KFold", folds=5)
    assert read.validation == HoldOut(method="HoldOut", ratio=0.2)
    assert (read.runs, read.seed, read.score, read.feature_selection) == (1, 0, "mape", None)


def test_another_seed_gives_another_campaign():
    read = read_campaign(campaign(seed=1))
    assert (read.with_seed(5).seed, read.with_seed(None).seed, read.seed) == (5, 1, 1)
    with pytest.raises(UsageError, match="seed=-1: must be a whole number from 0"):
        read.with_seed(-1)


UNKNOWN = [
    ({"serach": {}}, "serach: unknown option 'serach'. Did you mean 'search'?"),
    ({"target": "y"}, "target: unknown option 'target'. It belongs under [data]."),
    ({"folds": 5}, "folds: unknown option 'folds'. Known: data, features,"),
    ({"data": {"traget": "y"}}, "data.traget: unknown option 'traget'. Did you mean 'target'?"),
    ({"data": {"target": "y", "seed": 1}}, "data.seed: unknown option 'seed'. It belongs at the"),
    ({"features": {"skip_columns": []}}, "It belongs under [data]."),
    ({"features": {"logs": []}}, "features.logs: unknown option 'logs'. Did you mean 'log'?"),
    ({"search": {"folds": 3}}, "search.folds: unknown option 'folds'. It belongs under [search.sp"),
    ({"search": {"evals": 3}}, "search.evals: unknown option 'evals'. Did you mean 'evaluations'?"),
    ({"search": {"splits": splits("KFold", fold=3)}}, "search.splits.fold: unknown option 'fold'"),
    ({"search": {"splits": splits("KFold", fold=3)}}, "Did you mean 'folds'?"),
    ({"validation": splits("HoldOut", folds=3)}, "validation.folds: unknown option 'folds'. Known"),
    ({"validation": splits("HoldOut", folds=3)}, "Known: method, ratio."),
    ({"validation": splits("KFold", KFold=3)}, "validation.KFold: unknown option 'KFold'."),
    ({"validation": splits("All", ratio=0.2)}, "Known: method."),
    (
        {"feature_selection": splits("SFS", tolerance=1, max_features=2)},
        "feature_selection.tolerance: unknown option 'tolerance'. Known: method, max_features,",
    ),
    (
        {"feature_selection": splits("XGBoost", tolerence=1)},
        "feature_selection.tolerence: unknown option 'tolerence'. Did you mean 'tolerance'?",
    ),
]

WRONG = [
    ({"data": None}, "data: is required and missing; write it as a table [data]"),
    ({"data": {}}, "data.target: is required and missing; write it under [data]"),
    ({"data": 3}, "data: must be a table, not 3"),
    ({"data": {"target": 3}}, "data.target: must be a text in quotes, not 3"),
    ({"data": {"target": "y", "rename": ["a"]}}, "data.rename: must be a table, not ['a']"),
    ({"data": {"target": "y", "rename": {"a": 1}}}, "data.rename.a: must be a text in quotes, no"),
    ({"data": {"target": "y", "skip_rows_above": {"str": "x"}}}, "above.str: must be a number, no"),
    (
        {"data": {"target": "y", "skip_rows_above": {"x": np.nan}}},
        "must be a finite number, not na",
    ),
    ({"data": {"target": "y", "skip_rows_above": {"x": True}}}, "must be a number, not True"),
    ({"data": {"target": "y", "use_columns": ["a", 3]}}, "data.use_columns[1]: must be a text in"),
    ({"features": {"inverse": "x"}}, "features.inverse: must be a list, not 'x'; write [\"x\"]"),
    ({"features": {"normalization": "maybe"}}, "must be true or false, not 'maybe'"),
    ({"features": {"product_max_degree": -1}}, "must be at least 0 or 'inf', not -1"),
    ({"features": {"product_max_degree": "x"}}, "must be a whole number or 'inf', not 'x'"),
    ({"runs": 0}, "runs: must be at least 1, not 0"),
    ({"runs": True}, "runs: must be a whole number, not True"),
    ({"runs": 1.5}, "runs: must be a whole number, not 1.5"),
    ({"seed": -1}, "seed: must be at least 0, not -1"),
    ({"score": "mse"}, "score: must be 'mape' or 'rmse', not 'mse'"),
    ({"search": {"method": "hyperopt"}}, "search.method: must be 'grid' or 'tpe', not 'hyperopt'"),
    ({"search": {"splits": {}}}, "search.splits: has no method; write method = one of All, HoldOu"),
    ({"search": {"splits": splits("Kfold")}}, "search.splits: unknown method 'Kfold'. Did you mea"),
    ({"search": {"splits": splits(5)}}, "search.splits: unknown method '5'. Known: All, HoldOut,"),
    ({"validation": {"folds": 3}}, "validation: has no method; write method = one of All, HoldOut"),
    ({"validation": "KFold"}, "validation: must be a table, not 'KFold'"),
    ({"validation": splits("KFold")}, "validation.folds: is required and missing; write it under"),
    ({"validation": splits("KFold", folds=1)}, "validation.folds: must be at least 2, not 1"),
    ({"validation": splits("HoldOut", ratio=1)}, "validation.ratio: must be less than 1, not 1"),
    ({"validation": splits("HoldOut", ratio=0)}, "validation.ratio: must be more than 0, not 0"),
    ({"validation": splits("Interpolation", columns={})}, "validation.columns: must not be empty"),
    (
        {"validation": splits("Interpolation", columns={"x": 1.5})},
        "validation.columns.x: must be a step, a whole number of at least 2, or a list of values",
    ),
    (
        {"validation": splits("Interpolation", columns={"x": []})},
        "validation.columns.x: the list of values must not be empty",
    ),
    (
        {"validation": splits("Interpolation", columns={"float": "a"})},
        "validation.columns.float: must be a number or a list, not 'a'",
    ),
    (
        {"validation": splits("Interpolation", columns={"x": [1, "a"]})},
        "validation.columns.x[1]: must be a number, not 'a'",
    ),
    (
        {"validation": splits("Extrapolation", columns={"x": [1]})},
        "validation.columns.x: must be a number, not [1]",
    ),
    ({"feature_selection": {}}, "feature_selection: has no method; write method = one of SFS, XGB"),
    ({"feature_selection": splits("sfs")}, "unknown method 'sfs'. Did you mean 'SFS'?"),
    (
        {"feature_selection": splits("SFS", max_features=2, min_features=3)},
        "feature_selection.min_features: must be at most max_features (2), not 3",
    ),
    (
        {"feature_selection": splits("XGBoost", tolerance=1.5)},
        "feature_selection.tolerance: must be at most 1, not 1.5",
    ),
    (
        {"features": {"ernest": True, "log": ["x"]}},
        "features.ernest: replaces all features, so log would have no effect",
    ),
    (
        {"features": {"ernest": True}, "data": {"target": "y", "use_columns": ["a"]}},
        "features.ernest: replaces all features, so use_columns would have no effect",
    ),
]

TECHNIQUE_FAULTS = [
    (None, "techniques: is required and missing; write it as a table [techniques]"),
    ({}, "techniques: must not be empty"),
    (["LRRidge"], "techniques: must be a table, not ['LRRidge']"),
    ({"LRRidge": 5}, "techniques.LRRidge: must be a table, not 5"),
    ({"LRidge": {}}, "techniques.LRidge: unknown technique 'LRidge'. Did you mean 'LRRidge'?"),
    (
        {"LRRidge": {"alfa": 1}},
        "techniques.LRRidge.alfa: LRRidge has no hyperparameter 'alfa'. Did",
    ),
    ({"Dummy": {"alfa": 1}}, "Dummy has no hyperparameter 'alfa'. It has none."),
    ({"LRRidge": {"alpha": []}}, "LRRidge.alpha: the list of values must not be empty"),
    ({"LRRidge": {"alpha": "x"}}, "techniques.LRRidge.alpha: must be a number, not 'x'"),
    ({"LRRidge": {"alpha": 10**400}}, "techniques.LRRidge.alpha: must be a value, a list of value"),
    ({"LRRidge": {"alpha": [1, -1]}}, "must be at least 0, not -1"),
    ({"LRRidge": {"alpha": {"a": 1}}}, "must be a value, a list of values or a prior, not {'a'"),
    ({"LRRidge": {"alpha": "uniform(1)"}}, "expected uniform(low, high); got 1 argument"),
    ({"LRRidge": {"alpha": "unifrom(1,2)"}}, "unknown prior 'unifrom'"),
    (
        {"LRRidge": {"alpha": [1, "uniform(1,2)"]}},
        "techniques.LRRidge.alpha: 'uniform(1,2)' is a prior, and a grid search needs values; "
        'list values, or write method = "tpe" under [search]',
    ),
]


@pytest.mark.parametrize("changes, part", UNKNOWN)
def test_unknown_option_is_refused_with_its_place_and_a_hint(changes, part):
    message = refusal(**changes)
    assert message.startswith("c.toml, ")
    assert part in message


@pytest.mark.parametrize("changes, part", WRONG)
def test_wrong_value_is_refused_with_place_rule_and_value(changes, part):
    assert part in refusal(**changes)


@pytest.mark.parametrize("techniques, part", TECHNIQUE_FAULTS)
def test_wrong_technique_is_refused(techniques, part):
    assert part in refusal(techniques=techniques)


@pytest.mark.parametrize(
    "name, prior, part",
    [
        ("n_estimators", "uniform(1, 10)", "must be a whole number of at least 1, not 1.9"),
        ("n_estimators", "uniform(-9, -1)", "as uniform(-9, -1) may give"),
        ("criterion", "choice(squared_error, abc)", "'abc', as choice(squared_error, abc) may"),
    ],
)
def test_prior_that_gives_illegal_values_is_refused(name, prior, part):
    message = refusal(search={"method": "tpe"}, techniques={"RandomForest": {name: prior}})
    assert part in message


@pytest.mark.parametrize(
    "selection, validation",
    [
        (splits("Extrapolation", columns={"x": 8}), splits("Extrapolation", columns={"x": 8})),
        (
            splits("Extrapolation", columns={"x": 9}),
            splits("Extrapolation", columns={"x": 8, "z": 1}),
        ),
        (
            splits("Interpolation", columns={"x": [1]}),
            splits("Interpolation", columns={"x": [1, 2]}),
        ),
    ],
)
def test_selection_on_rows_that_validation_takes_is_refused(selection, validation):
    message = refusal(search={"splits": selection}, validation=validation)
    assert message.startswith("c.toml, search.splits.columns: validation holds out the same rows")


@pytest.mark.parametrize(
    "selection, validation",
    [
        (splits("Extrapolation", columns={"x": 4}), splits("Extrapolation", columns={"x": 8})),
        (splits("Extrapolation", columns={"z": 8}), splits("Extrapolation", columns={"x": 8})),
        (splits("Interpolation", columns={"x": 2}), splits("Interpolation", columns={"x": 2})),
        (
            splits("Interpolation", columns={"x": [1, 3]}),
            splits("Interpolation", columns={"x": [1]}),
        ),
        (splits("All"), splits("All")),
    ],
)
def test_selection_that_keeps_rows_is_accepted(selection, validation):
    assert read_campaign(campaign(search={"splits": selection}, validation=validation))


def test_validators_speak_through_pydantic_too():
    with pytest.raises(ValueError, match="must be at least 0"):
        Campaign(data={"target": "y"}, techniques={"LRRidge": {"alpha": -1}})


@pytest.mark.parametrize("degree", ["inf", "INF", float("inf")])
def test_infinite_degree_is_one_word(degree):
    read = read_campaign(campaign(features={"product_max_degree": degree}))
    assert read.features.product_max_degree == "inf"


def test_values_from_python_become_plain():
    read = read_campaign(
        campaign(
            runs=np.int64(3),
            data={"target": "y", "use_columns": ("a", "b")},
            techniques={"LRRidge": {"alpha": np.array([0.5, 1.0])}, "NNLS": {}},
            validation=splits("Interpolation", columns={"x": range(2, 4)}),
        )
    )
    assert read.techniques["LRRidge"] == {"alpha": [0.5, 1.0]}
    assert (read.runs, read.data.use_columns) == (3, ["a", "b"])
    assert read.validation.columns == {"x": [2, 3]}


def test_none_is_kept_as_the_word():
    read = read_campaign(campaign(techniques={"RandomForest": {"max_depth": [3, None]}}))
    assert read.techniques["RandomForest"]["max_depth"] == [3, "none"]


@pytest.mark.parametrize(
    "technique, space, lists",
    [
        ("LRRidge", {"alpha": 0.1}, {"alpha": [0.1]}),
        ("LRRidge", {"alpha": (1, 2)}, {"alpha": [1, 2]}),
        ("LRRidge", {"alpha": "uniform(0,1)"}, {"alpha": ["uniform(0,1)"]}),
        ("NeuralNetwork", {"n_features": [20, 10]}, {"n_features": [[20, 10]]}),
        ("NeuralNetwork", {"n_features": [[20, 10], [5]]}, {"n_features": [[20, 10], [5]]}),
        ("NeuralNetwork", {"n_features": ["choice([5],[6])"]}, {"n_features": ["choice([5],[6])"]}),
    ],
)
def test_every_option_of_a_technique_is_given_as_a_list(technique, space, lists):
    assert candidates(technique, space) == lists


@pytest.mark.parametrize("technique", TECHNIQUES.names())
def test_own_space_of_each_technique_is_legal(technique):
    for h in TECHNIQUES.get(technique).hyperparameters:
        assert not list(faults(technique, {h.name: [h.default, *h.grid]}))
        if h.prior is not None:
            assert not list(faults(technique, {h.name: h.prior}))


NESTED = (
    "data target features inverse product_max_degree feature_selection method search splits "
    "folds validation columns techniques LRRidge alpha ratio max_features KFold seed x"
)
KEYS = st.sampled_from(NESTED.split())
WORDS = st.sampled_from(["SFS", "XGBoost", "KFold", "Interpolation", "uniform(1,2)", "tpe", "y"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_dict_is_read_or_refused_in_words(changes):
    source = {**campaign(), **changes}
    try:
        read_campaign(source, place="c.toml")
    except UsageError as error:
        assert str(error).startswith("c.toml, ")
        assert "Input should" not in str(error)


def test_toml_file_is_read(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[data]\ntarget = "y"\n[techniques.LRRidge]\n', encoding="utf-8-sig")
    assert read_toml(file) == read_campaign(campaign())


def test_broken_toml_file_is_refused_with_the_line(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("[data]\ntarget y\n")
    with pytest.raises(UsageError, match=r"c\.toml is not valid TOML: .*line 2"):
        read_toml(file)
