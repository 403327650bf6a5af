"""aMLLibrary's files and dicts: what each option becomes, what is warned about and refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.files.complaints import dotted
from foretell.model.campaigns.ini.campaign import parse_ini, read_ini, read_sections, split_frame
from foretell.model.campaigns.ini.options import OPTIONS
from foretell.model.campaigns.schema import Campaign

GENERAL = {
    "techniques": "['LRRidge']",
    "y": "time_s",
    "hp_selection": "KFold",
    "validation": "HoldOut",
    "folds": "4",
    "hold_out_ratio": "0.25",
}
LEAST = {"General": GENERAL, "DataPreparation": {"input_path": "runs.csv"}}


def changed(changes):
    """Return the least file's sections with options changed; None takes one out."""
    sections = {name: dict(options) for name, options in LEAST.items()}
    for section, options in changes.items():
        sections.setdefault(section, {}).update(options)
    return {
        name: {o: v for o, v in options.items() if v is not None}
        for name, options in sections.items()
    }


def as_text(sections):
    return "\n".join(
        f"[{name}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
        for name, options in sections.items()
    )


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a file that differs from the least one; give the campaign and its warnings."""
    monkeypatch.chdir(tmp_path)

    def read(text=None, **changes):
        path = Path("c.ini")
        path.write_text(as_text(changed(changes)) if text is None else text, encoding="utf-8")
        return read_ini(path)

    return read


@pytest.fixture
def refusal(read):
    """Read such a file that is wrong; give the message."""

    def refusal(text=None, **changes):
        with pytest.raises(UsageError) as caught:
            read(text, **changes)
        return str(caught.value)

    return refusal


def at(campaign, place):
    """Look up a place such as ``validation.folds``."""
    value = campaign
    for step in place.split("."):
        value = value[step] if isinstance(value, dict) else getattr(value, step)
    return value


def in_general(**options):
    return {"General": options}


def in_preparation(**options):
    return {"DataPreparation": options}


OPTION_MEANINGS = [
    (in_general(y="'time s'"), "data.target", "time s"),
    (in_general(y="3"), "data.target", "3"),
    (in_general(y="1e3"), "data.target", "1e3"),
    (in_general(y="time # s"), "data.target", "time"),
    (in_general(techniques="[LRRidge, NNLS,]"), "techniques", {"LRRidge": {}, "NNLS": {}}),
    (in_general(techniques="LRRidge"), "techniques", {"LRRidge": {}}),
    (in_general(techniques="('NNLS', 'SVR')"), "techniques", {"NNLS": {}, "SVR": {}}),
    (in_general(techniques="[\n  NNLS,\n  # no\n  SVR ]"), "techniques", {"NNLS": {}, "SVR": {}}),
    (in_general(run_num="3"), "runs", 3),
    (in_general(seed="7"), "seed", 7),
    (in_general(score="rmse"), "score", "rmse"),
    (in_general(racing="true"), "search.racing", True),
    (in_general(save_training_regressors="TRUE"), "save_training_models", True),
    (in_general(save_training_regressors="None"), "save_training_models", False),
    (in_general(hp_selection="kfold  # any case"), "search.splits.method", "KFold"),
    (in_general(folds="6"), "search.splits.folds", 6),
    (in_general(validation="KFold", folds="6"), "validation.folds", 6),
    (in_general(hp_selection="HoldOut"), "search.splits.ratio", 0.25),
    (in_general(hp_selection="All"), "search.splits.method", "All"),
    (in_general(), "validation.ratio", 0.25),
    (in_general(hp_selection_folds="3"), "search.splits.folds", 3),
    (
        in_general(hp_selection="HoldOut", hp_selection_hold_out_ratio="0.1"),
        "search.splits.ratio",
        0.1,
    ),
    (
        in_general(validation="Extrapolation", extrapolation_columns="{nodes: 8, 'data mb': 1e3}"),
        "validation.columns",
        {"nodes": 8, "data mb": 1000},
    ),
    (
        in_general(validation="interpolation", interpolation_columns="{nodes: 2.0, 3: [1, 2]}"),
        "validation.columns",
        {"nodes": 2, "3": [1, 2]},
    ),
    (
        {
            **in_general(validation="Extrapolation", extrapolation_columns="{old: 8, z: 1}"),
            **in_preparation(rename_columns="{old: new}"),
        },
        "validation.columns",
        {"new": 8, "z": 1},
    ),
    (
        in_general(
            validation="Extrapolation",
            hp_selection="Extrapolation",
            extrapolation_columns="{x: 8}",
            hp_selection_extrapolation_columns="{x: 4}",
        ),
        "search.splits.columns",
        {"x": 4},
    ),
    (
        in_general(
            validation="Interpolation",
            hp_selection="Interpolation",
            interpolation_columns="{x: [8]}",
            hp_selection_interpolation_columns="{x: [4]}",
        ),
        "search.splits.columns",
        {"x": [4]},
    ),
    (in_general(hyperparameter_tuning="HyperOpt", hyperopt_max_evals="9"), "search.method", "tpe"),
    (in_general(hyperparameter_tuning="tpe", hyperopt_max_evals="9"), "search.evaluations", 9),
    (in_general(hyperparameter_tuning="grid"), "search.method", "grid"),
    (in_general(hyperparameter_tuning="None"), "search.method", "grid"),
    (in_general(), "search.method", "grid"),
    (in_preparation(input_path='"my runs.csv"  # here'), "data.path", "my runs.csv"),
    (in_preparation(input_path="data/50%.csv ; here"), "data.path", "data/50%.csv"),
    (in_preparation(input_path="[old]/runs.csv"), "data.path", "[old]/runs.csv"),
    (in_preparation(rename_columns="{a: b, 'c d': 3}"), "data.rename", {"a": "b", "c d": "3"}),
    (in_preparation(skip_rows="{nodes: 8}"), "data.skip_rows_above", {"nodes": 8}),
    (in_preparation(use_columns="[a, 3, 1e3]"), "data.use_columns", ["a", "3", "1e3"]),
    (in_preparation(use_columns="['a', \"3\"]"), "data.use_columns", ["a", "3"]),
    (in_preparation(skip_columns="a"), "data.skip_columns", ["a"]),
    (in_preparation(skip_columns="None"), "data.skip_columns", []),
    (in_preparation(skip_columns=""), "data.skip_columns", []),
    (in_preparation(categorical_columns="[a]"), "data.categorical", ["a"]),
    (in_preparation(inverse="[*]"), "features.inverse", ["*"]),
    (in_preparation(inverse="[ * ]"), "features.inverse", ["*"]),
    (in_preparation(inverse='["*"]'), "features.inverse", ["*"]),
    (in_preparation(inverse="*"), "features.inverse", ["*"]),
    (in_preparation(inverse="x"), "features.inverse", ["x"]),
    (in_preparation(log="[a, b]"), "features.log", ["a", "b"]),
    (in_preparation(product_max_degree="3"), "features.product_max_degree", 3),
    (in_preparation(product_max_degree="inf"), "features.product_max_degree", "inf"),
    (in_preparation(product_max_degree="'inf'"), "features.product_max_degree", "inf"),
    (in_preparation(product_interactions_only="True"), "features.product_interactions_only", True),
    (
        in_preparation(selected_products="[a b, 'c d']"),
        "features.selected_products",
        ["a b", "c d"],
    ),
    (in_preparation(ernest="True"), "features.ernest", True),
    (in_preparation(ernest="True", product_max_degree="1"), "features.ernest", True),
    (in_preparation(normalization="false"), "features.normalization", False),
    (in_preparation(normalization="True   # on"), "features.normalization", True),
    (
        {"FeatureSelection": {"method": "sfs", "max_features": "4", "folds": "3"}},
        "feature_selection.max_features",
        4,
    ),
    (
        {"FeatureSelection": {"method": "'XGBOOST'", "XGBoost_tolerance": "0.9"}},
        "feature_selection.tolerance",
        0.9,
    ),
    (
        {
            "FeatureSelection": {
                "method": "XGBoost",
                "XGBoost_tolerance": "0.9",
                "max_features": "3",
                "folds": "5",
            }
        },
        "feature_selection.max_features",
        3,
    ),
    ({"LRRidge": {"alpha": "[0.1, 1]"}}, "techniques.LRRidge", {"alpha": [0.1, 1]}),
    ({"LRRidge": {"alpha": "0.1"}}, "techniques.LRRidge", {"alpha": 0.1}),
    ({"LRRidge": {"alpha": ""}}, "techniques.LRRidge", {}),
]


@pytest.mark.parametrize("changes, place, value", OPTION_MEANINGS)
def test_option_becomes_a_place_of_the_campaign(read, changes, place, value):
    campaign, warnings = read(**changes)
    assert at(campaign, place) == value
    assert warnings == []


TUNED = in_general(hyperparameter_tuning="hyperopt", hyperopt_max_evals="9")


@pytest.mark.parametrize(
    "written, value",
    [
        ("['loguniform(0.01,1)']", ["loguniform(0.01,1)"]),
        ("loguniform(0.01, 1)", "loguniform(0.01, 1)"),
        ("[loguniform(0.01, 1), 3]  # both", ["loguniform(0.01, 1)", 3]),
    ],
)
def test_prior_is_read_with_or_without_quotes(read, written, value):
    campaign, _ = read(**TUNED, LRRidge={"alpha": written})
    assert campaign.techniques["LRRidge"] == {"alpha": value}


@pytest.mark.parametrize(
    "options, space",
    [
        ({"n_features": "[[20, 10], [5]]"}, {"n_features": [[20, 10], [5]]}),
        ({"n_features": "[20, 10]"}, {"n_features": [20, 10]}),
        ({"activation": "relu"}, {"activation": "relu"}),
    ],
)
def test_networks_are_read(read, options, space):
    campaign, _ = read(General={"techniques": "NeuralNetwork"}, NeuralNetwork=options)
    assert campaign.techniques["NeuralNetwork"] == space


WARNINGS = [
    (
        in_general(normalization="True"),
        "[General] normalization: not an option of this section and ignored; it belongs to "
        "[DataPreparation].",
    ),
    (
        in_general(sed="1"),
        "[General] sed: not an option of this section and ignored; did you mean 'seed'?",
    ),
    (
        {"LRRidge": {"alfa": "1"}},
        "[LRRidge] alfa: not a hyperparameter of LRRidge and ignored; did you mean 'alpha'?",
    ),
    (
        {"LRRige": {"alpha": "1"}},
        "[LRRige]: not a known section and ignored; did you mean 'LRRidge'?",
    ),
    (
        in_general(hyperparameter_tuning="hyperpot"),
        "[General] hyperparameter_tuning: 'hyperpot' is not a known search, and a grid is "
        "searched; did you mean 'hyperopt'?",
    ),
    (
        {"FeatureSelection": {"method": "PCA", "folds": "x"}},
        "[FeatureSelection] method: 'PCA' is not a known selection, and all features are used; "
        "known: SFS, XGBoost.",
    ),
    (
        in_preparation(use_columns="[a]", skip_columns="[b]"),
        "[DataPreparation] skip_columns: ignored, because use_columns lists the columns to use.",
    ),
    (
        in_preparation(selected_products="[a b]", product_max_degree="3"),
        "[DataPreparation] product_max_degree: ignored, because selected_products lists the "
        "products to add.",
    ),
    (
        in_preparation(ernest="True", log="[cores]"),
        "[DataPreparation] log: ignored, because ernest replaces all features.",
    ),
    (
        {"General": {"techniques": "XGBoost"}, "XGBoost": {"min_child_weight": "NONE"}},
        "[XGBoost] min_child_weight: none is not one of its values, and the default, 1, is used.",
    ),
    (
        {"General": {"techniques": "XGBoost"}, "XGBoost": {"gamma": "[1, None]"}},
        "[XGBoost] gamma: none is not one of its values.",
    ),
    (
        in_general(techniques="NeuralNetwork", keras_backend="tensorflow"),
        "[General] keras_backend: ignored, because foretell uses scikit-learn's networks.",
    ),
]


@pytest.mark.parametrize("changes, warning", WARNINGS)
def test_what_is_ignored_is_warned_about(read, changes, warning):
    assert read(**changes)[1] == [f"c.ini, {warning}"]


@pytest.mark.parametrize(
    "changes",
    [
        in_general(details="True", debug="False", j="4", output="out", configuration_file="c.ini"),
        in_general(generate_plots="True", hyperopt_save_interval="5", hyperopt_max_evals="8"),
        in_general(keras_backend="tensorflow", keras_use_cpu="True"),
        {"XGBoost": {"whatever": "[1", "gamma": "loguniform(0.1,1)"}},
        in_general(extrapolation_columns="{x: 1}", interpolation_columns="{x: 2}"),
        in_preparation(selected_products="[a b]", product_max_degree="1"),
        in_preparation(ernest="False", log="[a]"),
    ],
)
def test_what_a_user_does_not_miss_is_ignored_silently(read, changes):
    assert read(**changes)[1] == []


def test_none_among_values_is_dropped_where_it_means_nothing(read):
    campaign, _ = read(
        General={"techniques": "[XGBoost, RandomForest]"},
        XGBoost={"gamma": "[1, NONE]", "min_child_weight": "None"},
        RandomForest={"max_depth": "[3, None]"},
    )
    assert campaign.techniques["XGBoost"] == {"gamma": [1]}
    assert campaign.techniques["RandomForest"] == {"max_depth": [3, "none"]}


MISSING = [
    (
        in_general(techniques=None),
        "[General] techniques: is required and missing; write techniques",
    ),
    (in_general(y=None), "[General] y: is required and missing; write y = the column to predict"),
    (in_general(y=""), "[General] y: is required and missing"),
    (
        in_general(hp_selection=None),
        "[General] hp_selection: is required and missing; write hp_sel",
    ),
    (
        in_general(validation=None),
        "[General] validation: is required and missing; write validation",
    ),
    (
        in_general(folds=None),
        "[General] folds: is required and missing, because hp_selection is KFold; write folds = 5",
    ),
    (
        in_general(hold_out_ratio=None),
        "[General] hold_out_ratio: is required and missing, because validation is HoldOut; write",
    ),
    (
        in_general(validation="Extrapolation"),
        "[General] extrapolation_columns: is required and missing, because validation is Extrapol",
    ),
    (in_general(validation="Interpolation"), "write interpolation_columns = {column: 2}"),
    (
        in_general(hyperparameter_tuning="Hyperopt"),
        "[General] hyperopt_max_evals: is required and missing, because hyperparameter_tuning is "
        "Hyperopt; write hyperopt_max_evals = 20",
    ),
    (in_preparation(input_path=None), "[DataPreparation] input_path: is required and missing; wri"),
    ({"FeatureSelection": {"folds": "3"}}, "[FeatureSelection] method: is required and missing; w"),
    (
        {"FeatureSelection": {"method": "SFS", "folds": "3"}},
        "[FeatureSelection] max_features: is required and missing, because method is SFS; write m",
    ),
    ({"FeatureSelection": {"method": "SFS", "max_features": "3"}}, "[FeatureSelection] folds: is"),
    (
        {"FeatureSelection": {"method": "XGBoost"}},
        "[FeatureSelection] XGBoost_tolerance: is required and missing, because method is XGBoost",
    ),
    (in_general(Techniques="[NNLS]", techniques=None), "(is 'Techniques' meant?)"),
]


@pytest.mark.parametrize("changes, part", MISSING)
def test_what_is_required_is_asked_for(refusal, changes, part):
    message = refusal(**changes)
    assert message.startswith("c.ini, [")
    assert part in message


def test_missing_section_is_named(refusal):
    message = refusal("[general]\ny = a\n[DataPreparation]\ninput_path = b\n")
    assert message.startswith("c.ini, [General] y: is required and missing; write y = the column ")
    assert message.endswith(" under [General], which is not there (is [general] meant?)")


FAULTS = [
    (
        in_general(techniques="[LRidge]"),
        "[General] techniques: unknown technique 'LRidge'. Did you",
    ),
    (in_general(techniques="[]"), "[General] techniques: must not be empty"),
    (in_general(techniques="[LRRidge, [NNLS]]"), "[General] techniques: must be a list of names"),
    (in_general(techniques="[LRRidge"), "[General] techniques: ',' or ']' is missing at the end, "),
    (in_general(hp_selection="KFolds"), "[General] hp_selection: unknown method 'KFolds'. Did you"),
    (in_general(validation="Bootstrap"), "[General] validation: unknown method 'Bootstrap'. Known"),
    (in_general(folds="1"), "[General] folds: must be at least 2, not 1"),
    (in_general(folds="five"), "[General] folds: must be a whole number, not 'five'"),
    (in_general(hp_selection_folds="1"), "[General] hp_selection_folds: must be at least 2, not 1"),
    (in_general(hold_out_ratio="20"), "[General] hold_out_ratio: must be less than 1, not 20"),
    (in_general(run_num="0"), "[General] run_num: must be at least 1, not 0"),
    (in_general(seed="x"), "[General] seed: must be a whole number, not 'x'"),
    (in_general(score="mae"), "[General] score: must be 'mape' or 'rmse', not 'mae'"),
    (
        in_general(hyperparameter_tuning="hyperopt", hyperopt_max_evals="0"),
        "[General] hyperopt_max_evals: must be at least 1, not 0",
    ),
    (
        in_general(validation="Extrapolation", extrapolation_columns="[x]"),
        "[General] extrapolation_columns: must be a table, such as {nodes: 8}, not '[x]'",
    ),
    (
        in_general(validation="Extrapolation", extrapolation_columns="{x: many}"),
        "[General] extrapolation_columns, x: must be a number, not 'many'",
    ),
    (
        in_general(validation="Interpolation", interpolation_columns="{x: 1.5}"),
        "[General] interpolation_columns, x: must be a step, a whole number of at least 2, or",
    ),
    (
        in_general(
            validation="Extrapolation",
            hp_selection="Extrapolation",
            extrapolation_columns="{x: 8}",
        ),
        "[General] extrapolation_columns: validation holds out the same rows, so none are "
        "left to select on; give hp_selection columns of its own, with "
        "hp_selection_extrapolation_columns",
    ),
    (in_preparation(normalization="maybe"), "normalization: must be true or false, not 'maybe'"),
    (in_preparation(skip_rows="{x: y}"), "[DataPreparation] skip_rows, x: must be a number, not"),
    (in_preparation(skip_rows="5"), "[DataPreparation] skip_rows: must be a table, such as"),
    (in_preparation(rename_columns="a"), "[DataPreparation] rename_columns: must be a table, such"),
    (in_preparation(inverse="{a: 1}"), "[DataPreparation] inverse: must be a list of names, such"),
    (
        in_preparation(product_max_degree="-1"),
        "[DataPreparation] product_max_degree: must be at least 0 or 'inf', not -1",
    ),
    (
        in_preparation(ernest="True", use_columns="[cores]"),
        "[DataPreparation] ernest: replaces all features, so use_columns would have no effect; ",
    ),
    (in_preparation(ernest="True", skip_columns="[a]"), "so skip_columns would have no effect"),
    (in_preparation(ernest="True", inverse="[a]"), "so inverse would have no effect"),
    (in_preparation(ernest="True", product_max_degree="2"), "so product_max_degree would have no"),
    (in_preparation(ernest="True", normalization="True"), "so normalization would have no effect"),
    (
        {
            "FeatureSelection": {
                "method": "SFS",
                "max_features": "2",
                "min_features": "3",
                "folds": "2",
            }
        },
        "[FeatureSelection] min_features: must be at most max_features (2), not 3",
    ),
    (
        {"FeatureSelection": {"method": "XGBoost", "XGBoost_tolerance": "7"}},
        "[FeatureSelection] XGBoost_tolerance: must be at most 1, not 7",
    ),
    ({"LRRidge": {"alpha": "[-1]"}}, "[LRRidge] alpha: must be at least 0, not -1"),
    ({"LRRidge": {"alpha": "[1, 2"}}, "[LRRidge] alpha: ',' or ']' is missing at the end, in '[1"),
    ({"LRRidge": {"alpha": "[]"}}, "[LRRidge] alpha: the list of values must not be empty"),
    (
        {"LRRidge": {"alpha": "loguniform(0.1,1)"}},
        "[LRRidge] alpha: 'loguniform(0.1,1)' is a prior, and a grid search needs values; list "
        "values, or write hyperparameter_tuning = hyperopt under [General]",
    ),
    (
        {**TUNED, "LRRidge": {"alpha": "unifrom(0.1,1)"}},
        "[LRRidge] alpha: unknown prior 'unifrom' in 'unifrom(0.1,1)'. Did you mean 'uniform'?",
    ),
]


@pytest.mark.parametrize("changes, part", FAULTS)
def test_what_is_wrong_is_refused_in_the_words_of_the_file(refusal, changes, part):
    message = refusal(**changes)
    assert message.startswith("c.ini, [")
    assert part in message


@pytest.mark.parametrize(
    "text, message",
    [
        ("[General]\ny = a\ny = b\n", "c.ini, line 3, [General] y: given twice"),
        ("[General]\n[NNLS]\n[General]\n", "c.ini, line 3: a second section [General]"),
        ("y = a\n", "c.ini, line 1: a section such as [General] must come first, not 'y = a'"),
        (
            "[General]\ny = a\nwhat\n",
            "c.ini, line 3: must be 'option = value' or '[Section]', not ",
        ),
        ("[General]\n= a\n", "c.ini, line 2: must be 'option = value'"),
        ("\n \n", "c.ini is empty"),
    ],
)
def test_what_is_no_ini_file_is_refused_with_its_line(refusal, text, message):
    assert refusal(text).startswith(message)


def test_defaults_hold_in_every_section_where_they_mean_something(read):
    text = "[DEFAULT]\nowner = me\nseed = 3\nalpha = [5]\n" + as_text(
        changed({"General": {"techniques": "[LRRidge, NNLS]"}, "LRRidge": {}, "NNLS": {}})
    )
    campaign, warnings = read(text)
    assert campaign.seed == 3
    assert campaign.techniques == {"LRRidge": {"alpha": [5]}, "NNLS": {}}
    assert warnings == []


def test_option_of_a_section_wins_over_the_default():
    text = "[DEFAULT]\nseed = 3\n[General]\nseed = 4\n"
    assert parse_ini(text, place="c.ini") == {"General": {"seed": "4"}}


def test_lines_may_end_as_on_windows_and_names_have_spaces_around(read):
    text = as_text(LEAST).replace("[General]", "[ General ]")
    Path("w.ini").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_ini(Path("w.ini")) == read(text)


def test_comments_and_continued_lines_are_understood():
    text = "# top\n[General] \n; full line\ny : a # note\nlog = [1,\n  # no\n  '# 2']  ; end\n"
    assert parse_ini(text, place="c.ini") == {"General": {"y": "a", "log": "[1,\n'# 2']"}}


FULL = """\
# A campaign as people write them
[General]
run_num = 2
techniques = ['LRRidge', 'XGBoost', 'DecisionTree', 'RandomForest', 'SVR', 'NNLS', 'Stepwise']
hp_selection = KFold
validation = Interpolation
folds = 5
interpolation_columns = {"cores": 2}
y = "exec_time"
hyperparameter_tuning = Hyperopt
hyperopt_max_evals = 10
hyperopt_save_interval = 5
save_training_regressors = True

[DataPreparation]
input_path = inputs/runs.csv
inverse = [*]
log = ["data"]
product_max_degree = 2
product_interactions_only = True
normalization = True

[FeatureSelection]
method = "SFS"
min_features = 1
max_features = 5
folds = 3

[LRRidge]
alpha = ['loguniform(0.01,1)']

[XGBoost]
min_child_weight = [1]
gamma = ['loguniform(0.1,10)']
n_estimators = [100]
learning_rate = ['loguniform(0.01,1)']
max_depth = ['quniform(3,10,1)']
lambda = ['loguniform(0.1,10)']
alpha = [0]

[DecisionTree]
criterion = ['mse']
max_depth = ['quniform(3,6,1)']
max_features = ['auto']
min_samples_split = ['loguniform(0.01,1)']
min_samples_leaf = ['loguniform(0.01,0.5)']

[RandomForest]
n_estimators = ['quniform(5,20,1)']
criterion = ['squared_error', 'mae']
max_depth = [None, 5]
max_features = ['auto', 'sqrt', 0.5]
min_samples_split = ['loguniform(0.1,1)']
min_samples_leaf = [1]

[SVR]
C = ['loguniform(0.001,1)']
epsilon = ['loguniform(0.01,1)']
gamma = [1e-7]
kernel = ['linear', 'rbf']
degree = [2]

[NNLS]
fit_intercept = [True, False]

[Stepwise]
p_to_add = [0.05]
p_to_remove = [0.1]
fit_intercept = [True]
max_iter = [100]
"""


def test_a_full_file_is_read_without_warnings(read):
    campaign, warnings = read(FULL)
    assert warnings == []
    assert list(campaign.techniques) == [
        "LRRidge", "XGBoost", "DecisionTree", "RandomForest", "SVR", "NNLS", "Stepwise",
    ]  # fmt: skip
    assert campaign.techniques["RandomForest"]["max_depth"] == ["none", 5]
    assert campaign.validation.columns == {"cores": 2}


def dict_of(**changes):
    return changed({"General": {"folds": 4, "hold_out_ratio": 0.25}, **changes})


def read_dict(sections):
    return read_sections(sections, place="campaign", refuse_unknown=True)


def test_a_dict_is_read_like_the_file(read):
    sections = dict_of(
        General={"techniques": ["LRRidge"], "validation": "Extrapolation"},
        DataPreparation={"input_path": Path("runs.csv"), "inverse": "[*]", "use_columns": ("a", 3)},
        LRRidge={"alpha": np.array([0.1, 1.0])},
    )
    sections["General"]["extrapolation_columns"] = {"nodes": np.int64(8)}
    from_file, _ = read(
        General={"validation": "Extrapolation", "extrapolation_columns": "{nodes: 8}"},
        DataPreparation={"inverse": "[*]", "use_columns": "[a, 3]"},
        LRRidge={"alpha": "[0.1, 1.0]"},
    )
    assert read_dict(sections) == (from_file, [])


def test_a_dict_needs_no_path():
    campaign, _ = read_dict({"General": LEAST["General"]})
    assert campaign.data.path is None


@pytest.mark.parametrize(
    "changes, part",
    [
        (
            {"General": {"sed": 1}},
            "[General] sed: not an option of this section. Did you mean 'seed",
        ),
        ({"LRRidge": {"alfa": 1}}, "[LRRidge] alfa: not a hyperparameter of LRRidge. Did you mean"),
        ({"LRidge": {}}, "[LRidge]: not a known section. Did you mean 'LRRidge'?"),
        (
            {"General": {"hyperparameter_tuning": "hyperpot"}},
            "[General] hyperparameter_tuning: 'hy",
        ),
        (
            {"FeatureSelection": {"method": "PCA"}},
            "[FeatureSelection] method: 'PCA' is not a known",
        ),
        ({"General": {"techniques": 3.5}}, "[General] techniques: unknown technique '3.5'"),
        ({"General": {"y": ["a"]}}, "[General] y: must be one name, not ['a']"),
    ],
)
def test_unknown_name_in_a_dict_is_refused(changes, part):
    with pytest.raises(UsageError) as caught:
        read_dict(dict_of(**changes))
    assert str(caught.value).startswith(f"campaign, {part}")


def test_section_of_a_dict_must_be_a_dict():
    with pytest.raises(
        UsageError, match=r"campaign, \[General\]: must be a dict of options, not 3"
    ):
        read_dict({"General": 3})


def test_frame_is_taken_out_and_the_dict_stays_as_it_was():
    frame = pd.DataFrame({"x": [1], "time_s": [2]})
    sections = dict_of(DataPreparation={"input_path": frame, "log": ["x"]})
    without, taken = split_frame(sections)
    assert taken is frame
    assert without["DataPreparation"] == {"log": ["x"]}
    assert sections["DataPreparation"]["input_path"] is frame


@pytest.mark.parametrize("sections", [{}, {"DataPreparation": 3}, LEAST])
def test_without_a_frame_nothing_is_taken_out(sections):
    assert split_frame(sections) == (sections, None)


def test_every_option_leads_to_a_field_of_the_campaign():
    fields = _fields(Campaign.model_json_schema())
    places = {p for options in OPTIONS.values() for o in options.values() for p in o.places}
    assert places <= fields


def _fields(schema):
    found = set()

    def walk(node, place):
        if "$ref" in node:
            walk(schema["$defs"][node["$ref"].rsplit("/", 1)[1]], place)
        for alternative in [*node.get("anyOf", []), *node.get("oneOf", [])]:
            walk(alternative, place)
        for name, child in node.get("properties", {}).items():
            found.add(dotted((*place, name)))
            walk(child, (*place, name))

    walk(schema, ())
    return found


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    section=st.sampled_from(["General", "DataPreparation", "FeatureSelection", "LRRidge"]),
    option=st.sampled_from([o for options in OPTIONS.values() for o in options] + ["alpha"]),
    text=st.text("[]{}(),:'\" #;*abT1.-%\\\n", max_size=12),
)
def test_any_value_is_read_or_refused(read, section, option, text):
    try:
        read(**{section: {option: text.replace("\n", "\n ")}})
    except UsageError as error:
        assert str(error).startswith("c.ini")


def test_names_with_commas_need_no_brackets():
    sections = changed({"General": {"techniques": "LRRidge, NNLS"}})
    campaign, _ = read_sections(sections, place="c.ini", refuse_unknown=False)
    assert list(campaign.techniques) == ["LRRidge", "NNLS"]
