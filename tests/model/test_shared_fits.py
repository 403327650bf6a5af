"""Points of a search that give the same model share one fit, and nothing else changes."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import foretell
from foretell.dataset import read_dataset
from foretell.model.campaigns.schema import read_campaign
from foretell.model.campaigns.validation.splits import split_campaign
from foretell.model.fitter import Fitter
from foretell.model.shared_fits import Point, SharedResults, fit_group, groups, serves
from foretell.model.table import prepare_table
from foretell.model.techniques import TECHNIQUES, complete

GRID = {
    "criterion": ["mse", "mae"],
    "max_depth": [2, 5, 10, 20],
    "max_features": ["auto", "sqrt", "log2"],
    "min_samples_split": [0.01, 0.1, 0.2, 0.5],
    "min_samples_leaf": [0.01, 0.05, 0.1, 0.2, 0.3],
}


@pytest.fixture
def runs():
    """Return 30 runs of different configurations."""
    random = np.random.default_rng(3)
    table = pd.DataFrame(random.uniform(1, 9, (30, 3)).round(2), columns=["a", "b", "c"])
    table["time_s"] = 5 + table["a"] * table["b"] + random.normal(0, 0.3, 30).round(3)
    return table


@pytest.fixture
def n_tree_fits(monkeypatch):
    """Count the trees that scikit-learn grows."""
    made = []
    fit = DecisionTreeRegressor.fit

    def counted(self, *args, **options):
        made.append(self)
        return fit(self, *args, **options)

    monkeypatch.setattr(DecisionTreeRegressor, "fit", counted)
    return made


def campaign(**sections):
    return {
        "data": {"target": "time_s"},
        "techniques": {"DecisionTree": GRID},
        "search": {"splits": {"method": "KFold", "folds": 3}},
        **sections,
    }


def tree(**options):
    technique = TECHNIQUES.get("DecisionTree")()
    return Point(technique, complete(technique, options))


def forest(**options):
    technique = TECHNIQUES.get("RandomForest")()
    return Point(technique, complete(technique, options))


# Which points share fits


def test_limits_that_are_the_same_number_of_runs_share_a_fit():
    shares = [tree(min_samples_leaf=share, min_samples_split=2) for share in (0.05, 0.1, 0.11)]
    assert groups(shares, 10, 3) == [shares[:2], shares[2:]]
    assert groups(shares, 20, 3) == [[shares[0]], [shares[1]], [shares[2]]]


def test_numbers_of_features_that_are_the_same_share_a_fit():
    points = [tree(max_features=value, min_samples_split=9) for value in ("sqrt", "log2", 2)]
    assert groups(points, 30, 4) == [points]
    assert groups(points, 30, 9) == [[points[0], points[1]], [points[2]]]


def test_merged_repeats_and_single_runs_are_different_fits():
    merged, apart = tree(max_features="auto"), tree(max_features=4)
    assert (merged.merges, apart.merges) == (True, False)
    assert len(groups([merged, apart], 30, 4)) == 2


@pytest.mark.parametrize(
    ("kernel", "n_different"), [("linear", 1), ("rbf", 2), ("sigmoid", 2), ("poly", 4)]
)
def test_options_that_a_kernel_ignores_share_a_fit(kernel, n_different):
    technique = TECHNIQUES.get("SVR")()
    points = [
        Point(technique, complete(technique, {"kernel": kernel, "gamma": gamma, "degree": degree}))
        for gamma, degree in product((0.1, 1.0), (2, 3))
    ]
    assert len(groups(points, 30, 4)) == n_different


# What one fit serves


class Grown:
    """A fit that gets to a depth, with some trees."""

    def __init__(self, depth, n_trees):
        self.depth, self.n_trees = depth, n_trees

    def reached(self):
        return self.depth

    def at(self, n_trees):
        assert n_trees <= self.n_trees
        return Grown(self.depth, n_trees)


def grown(points, *, depth):
    """Return the fits that a group takes, and what its points get, with an own depth."""
    made = []

    def fit(params):
        made.append((params["max_depth"], params["n_estimators"]))
        return Grown(min(depth, params["max_depth"] or depth), params["n_estimators"])

    (group,) = groups(points, 30, 4)
    fits = fit_group(group, 30, 4, fit)
    return made, [(f.depth, f.n_trees) for f in fits]


def test_fit_that_stays_below_its_limit_serves_other_limits():
    points = [forest(max_depth=depth) for depth in (3, 6, 7, 8, None)]
    made, got = grown(points, depth=6)
    assert made == [(None, 5), (6, 5), (3, 5)]
    assert got == [(3, 5), (6, 5), (6, 5), (6, 5), (6, 5)]


def test_longest_path_serves_the_shorter_ones_of_its_limit():
    points = [forest(max_depth=d, n_estimators=n) for d, n in ((9, 4), (9, 2), (20, 4), (20, 3))]
    assert grown(points, depth=6) == ([(20, 4)], [(6, 4), (6, 2), (6, 4), (6, 3)])


def test_longer_path_of_another_limit_is_fitted_there():
    points = [forest(max_depth=d, n_estimators=n) for d, n in ((9, 50), (20, 3))]
    assert grown(points, depth=6) == ([(20, 3), (9, 50)], [(6, 50), (6, 3)])


def test_limit_that_was_reached_may_have_changed_the_fit():
    assert not serves(6, 6, 9)
    assert not serves(9, 6, 6)  # where the fit might have tried to go on
    assert serves(6, 6, 6)


def test_results_are_found_by_key_and_limit():
    results = SharedResults()
    results.add("a", 9.0, 4.0, "first")
    results.add("a", 3.0, 3.0, "second")
    assert [results.find("a", limit) for limit in (9.0, 5.0, 4.0, 3.0)] == [
        "first", "first", None, "second",
    ]  # fmt: skip
    assert results.find("b", 9.0) is None


def test_number_of_results_is_bounded(monkeypatch):
    monkeypatch.setattr("foretell.model.shared_fits._MOST_RESULTS", 2)
    results = SharedResults()
    for name in "abc":
        results.add(name, 1.0, 0.0, name)
    assert [results.find(name, 1.0) for name in "abc"] == [None, "b", "c"]


# Whole campaigns

SFS = {"method": "SFS", "max_features": 2, "folds": 4}
FOLD = "0.0/1"


def fitter_of(runs, **sections):
    checked = read_campaign(campaign(**sections))
    table = prepare_table(checked, read_dataset(runs))
    splits = split_campaign(checked, table).splits
    return Fitter(checked, table.x, table.y, table.configuration, splits, table.feature_map)


def plain_tree(x, y, options):
    """Grow a tree with scikit-learn alone, from options as a file has them."""
    settings = {
        **options,
        "criterion": {"mse": "squared_error", "mae": "absolute_error"}[options["criterion"]],
        "max_features": {"auto": None}.get(options["max_features"], options["max_features"]),
    }
    unit = 2.0 ** np.floor(np.log2(y.std()))  # see SingleRows; a power of two
    model = DecisionTreeRegressor(random_state=0, **settings).fit(x.astype(np.float32), y / unit)
    return lambda rows: model.predict(rows.astype(np.float32)) * unit


def mape(truth, predicted):
    return np.mean(np.abs(predicted / truth - 1))


def selected_by_hand(fitter, options):
    """Select forward and fit, without anything that foretell shares between points."""
    x, y, rows = fitter.x, fitter.y, fitter.splits[FOLD].train
    tests = np.array_split(np.random.default_rng(0).permutation(rows), SFS["folds"])

    def error(columns):
        errors = []
        for test in tests:
            train = np.setdiff1d(rows, test)
            predict = plain_tree(x[np.ix_(train, columns)], y[train], options)
            errors.append(mape(y[test], predict(x[np.ix_(test, columns)])))
        return np.mean(errors)

    one = min(range(x.shape[1]), key=lambda j: error([j]))
    two = min((sorted([one, j]) for j in range(x.shape[1]) if j != one), key=error)
    columns = two if error(two) < error([one]) else [one]
    predict = plain_tree(x[np.ix_(rows, columns)], y[rows], options)
    return columns, predict(x[:, columns])


def test_shared_fits_are_those_of_each_point_alone(runs):
    fitter = fitter_of(runs, feature_selection=SFS)
    technique = TECHNIQUES.get("DecisionTree")
    written = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())][::7]
    fitted = fitter.fit("DecisionTree", [complete(technique, w) for w in written], FOLD)
    for options, model in zip(written, fitted, strict=True):
        columns, expected = selected_by_hand(fitter, options)
        assert model.columns.tolist() == columns
        assert model.predict(fitter.x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["DecisionTree", "RandomForest"])
def test_shared_fits_of_all_columns_are_those_of_each_point_alone(name, runs):
    technique = TECHNIQUES.get(name)
    grid = GRID if name == "DecisionTree" else GRID | {"n_estimators": [2, 4]}
    points = [
        complete(technique, dict(zip(grid, values, strict=True)))
        for values in product(*grid.values())
    ][::11]
    repeated = pd.concat([runs, runs.head(9)], ignore_index=True)
    together = fitter_of(repeated).fit(name, points, FOLD)
    for params, model in zip(points, together, strict=True):
        fitter = fitter_of(repeated)
        (alone,) = fitter.fit(name, [params], FOLD)
        assert model.predict(fitter.x).tolist() == alone.predict(fitter.x).tolist()


def test_forward_selection_grows_each_tree_once(runs, n_tree_fits):
    once = SFS | {"max_features": 1}
    fit = foretell.fit_model(campaign(feature_selection=once), runs)
    n_points, n_folds, n_columns = 480, 3, 3
    n_alone = n_points * n_folds * (n_columns * SFS["folds"] + 1)
    assert len(n_tree_fits) < n_alone / 10
    assert fit.results.leaderboard[0].n_trials == n_points


def test_rows_that_were_prepared_and_dropped_are_prepared_again(runs, monkeypatch):
    technique = TECHNIQUES.get("LRRidge")
    points = [complete(technique, {"alpha": alpha}) for alpha in (0.1, 10.0)]
    expected = fitter_of(runs, feature_selection=SFS).fit("LRRidge", points, FOLD)
    monkeypatch.setattr("foretell.model.fitter._KEPT_BYTES", 1)
    fitter = fitter_of(runs, feature_selection=SFS)
    for model, same in zip(fitter.fit("LRRidge", points, FOLD), expected, strict=True):
        assert model.predict(fitter.x).tolist() == same.predict(fitter.x).tolist()


def test_grid_grows_each_tree_once(runs, n_tree_fits):
    foretell.fit_model(campaign(), runs)
    assert len(n_tree_fits) < 480 * 3 / 3


@pytest.mark.parametrize("selection", [None, SFS], ids=["all", "SFS"])
def test_number_of_workers_changes_nothing(selection, runs, tmp_path):
    few = GRID | {"max_features": ["auto"], "min_samples_split": [0.01, 0.5]}
    source = campaign(feature_selection=selection, techniques={"DecisionTree": few})
    boards = [
        foretell.fit_model(source, runs, n_jobs=n_jobs).results.to_json()["leaderboard"]
        for n_jobs in (1, 2)
    ]
    for board in boards:
        for row in board:
            row.pop("seconds", None)
    assert boards[0] == boards[1]
