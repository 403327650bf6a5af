"""Campaigns written as TOML come back equal, and the schema accepts what the reader accepts."""

import tomllib

import jsonschema
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.campaigns.schema import Campaign, read_campaign
from foretell.model.campaigns.search.priors import PRIORS
from foretell.model.campaigns.toml import _short_lists, campaign_schema, write_toml
from foretell.model.techniques import TECHNIQUES

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.lists(TEXTS, max_size=3)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6)
COUNTS = st.integers(2, 50)


def method(name, **options):
    return st.fixed_dictionaries({"method": st.just(name), **options})


EXTRAPOLATION = method(
    "Extrapolation", columns=st.dictionaries(TEXTS, NUMBERS, min_size=1, max_size=3)
)
SPLITS = st.one_of(
    method("All"),
    method("HoldOut", ratio=st.floats(0.01, 0.99)),
    method("KFold", folds=COUNTS),
    method(
        "Interpolation",
        columns=st.dictionaries(
            TEXTS, COUNTS | st.lists(NUMBERS, min_size=1, max_size=3), min_size=1, max_size=3
        ),
    ),
)
TECHNIQUE_TABLES = st.fixed_dictionaries(
    {},
    optional={
        "LRRidge": st.fixed_dictionaries(
            {},
            optional={
                "alpha": st.lists(st.floats(0, 1e6), min_size=1, max_size=9)
                | st.just("loguniform(0.01, 1)")
            },
        ),
        "RandomForest": st.fixed_dictionaries(
            {},
            optional={
                "max_depth": st.lists(st.none() | COUNTS, min_size=1, max_size=3),
                "criterion": st.sampled_from(["mse", ["mae", "squared_error"]]),
            },
        ),
        "NNLS": st.fixed_dictionaries({}, optional={"fit_intercept": st.booleans()}),
        "NeuralNetwork": st.fixed_dictionaries(
            {}, optional={"n_features": st.just([[20, 10], [5]]) | st.just([20, 10])}
        ),
    },
).filter(bool)
SOURCES = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {"target": TEXTS},
            optional={
                "path": TEXTS,
                "rename": st.dictionaries(TEXTS, TEXTS, max_size=3),
                "skip_rows_above": st.dictionaries(TEXTS, NUMBERS, max_size=3),
                "use_columns": NAMES,
                "skip_columns": NAMES,
                "categorical": NAMES,
            },
        ),
        "techniques": TECHNIQUE_TABLES,
        "search": st.fixed_dictionaries(
            {"method": st.just("tpe")},
            optional={"evaluations": COUNTS, "splits": SPLITS, "racing": st.booleans()},
        ),
    },
    optional={
        "features": st.fixed_dictionaries(
            {},
            optional={
                "inverse": NAMES,
                "log": st.just(["*"]),
                "product_max_degree": st.integers(1, 5) | st.just("inf"),
                "product_interactions_only": st.booleans(),
                "selected_products": NAMES,
                "normalization": st.booleans(),
            },
        ),
        "feature_selection": method("SFS", max_features=COUNTS, folds=COUNTS)
        | method("XGBoost", tolerance=st.floats(0.1, 1)),
        "validation": method("All") | method("KFold", folds=COUNTS) | EXTRAPOLATION,
        "runs": COUNTS,
        "seed": st.integers(0, 2**31),
        "score": st.sampled_from(["mape", "rmse"]),
        "save_training_models": st.booleans(),
    },
)
SCHEMA = campaign_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@settings(deadline=None)
@given(SOURCES)
def test_written_campaign_reads_back_equal(source):
    campaign = read_campaign(source)
    text = write_toml(campaign)
    again = read_campaign(tomllib.loads(text))
    assert again == campaign
    assert write_toml(again) == text
    VALIDATOR.validate(tomllib.loads(text))


@given(st.lists(TEXTS | NUMBERS | st.lists(TEXTS | NUMBERS, max_size=3), max_size=6))
def test_lists_keep_their_items_on_one_line_or_many(items):
    document = {"a": {"before": 1, "list": items, "after": "[ = ["}}
    assert tomllib.loads(_short_lists(tomli_w.dumps(document))) == document


def test_defaults_are_left_out_and_sections_are_in_order():
    campaign = read_campaign(
        {
            "techniques": {"RandomForest": {"max_depth": [3, None]}, "NNLS": {}},
            "seed": 4,
            "runs": 1,
            "validation": {"method": "Extrapolation", "columns": {"data mb": 8}},
            "search": {"method": "grid", "splits": {"method": "KFold", "folds": 3}},
            "features": {"inverse": ["*"], "log": []},
            "data": {"target": "time_s", "path": "runs.csv"},
        }
    )
    assert write_toml(campaign) == (
        "seed = 4\n"
        "\n[data]\n"
        'path = "runs.csv"\n'
        'target = "time_s"\n'
        "\n[features]\n"
        'inverse = ["*"]\n'
        "\n[search.splits]\n"
        'method = "KFold"\n'
        "folds = 3\n"
        "\n[validation]\n"
        'method = "Extrapolation"\n'
        "\n[validation.columns]\n"
        '"data mb" = 8.0\n'
        "\n[techniques.RandomForest]\n"
        'max_depth = [3, "none"]\n'
        "\n[techniques.NNLS]\n"
    )


def test_long_list_has_a_line_for_each_item():
    alphas = [i / 7 for i in range(20)]
    source = {"data": {"target": "y"}, "techniques": {"LRRidge": {"alpha": alphas}}}
    assert len(write_toml(read_campaign(source)).splitlines()) > 20


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("technique", TECHNIQUES.names())
def test_schema_knows_every_technique_and_hyperparameter(technique):
    table = SCHEMA["properties"]["techniques"]["properties"][technique]
    hyperparameters = TECHNIQUES.get(technique).hyperparameters
    assert list(table["properties"]) == [h.name for h in hyperparameters]
    assert all(
        str(h.default) in table["properties"][h.name]["description"] for h in hyperparameters
    )


@pytest.mark.parametrize(
    "change",
    [
        {"techniques": {"LRidge": {}}},
        {"techniques": {"LRRidge": {"alfa": 1}}},
        {"techniques": {}},
        {"data": {}},
        {"data": {"target": "y", "pth": "a"}},
        {"validation": {"method": "KFold"}},
        {"validation": {"method": "Kfold", "folds": 3}},
        {"search": {"splits": {"method": "KFold", "folds": 1}}},
        {"seeds": 3},
    ],
)
def test_schema_refuses_what_the_reader_refuses(change):
    source = {"data": {"target": "y"}, "techniques": {"LRRidge": {}}, **change}
    assert not VALIDATOR.is_valid(source)


def test_schema_describes_every_option_of_the_first_two_levels():
    for name, field in Campaign.model_fields.items():
        assert field.description or name in {"data", "features", "feature_selection", "search"}


def test_priors_of_every_kind_are_valid_strings_for_the_schema():
    for signature, _ in PRIORS.values():
        source = {"data": {"target": "y"}, "techniques": {"LRRidge": {"alpha": [signature, 1]}}}
        assert VALIDATOR.is_valid(source)
