import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.dataset import Dataset
from foretell.errors import ForetellError
from foretell.model.campaigns.schema import read_campaign
from foretell.model.campaigns.validation.splits import make_splits, split_campaign
from foretell.model.table import prepare_table


def campaign(**sections):
    data = {"target": "time_s", **sections.pop("data", {})}
    return read_campaign({"data": data, "techniques": {"LRRidge": {}}, **sections})


def table_of(frame, **sections):
    return prepare_table(campaign(**sections), Dataset(frame, "runs.csv"))


def runs(n=24):
    nodes = np.arange(n) % 8 + 1
    return pd.DataFrame({"nodes": nodes, "size": np.arange(n) // 8 + 1, "time_s": 10.0 + nodes})


def splits_of(table, rows=None, **options):
    spec = campaign(validation=options).validation
    rows = np.arange(len(table.y)) if rows is None else rows
    return make_splits(spec, table, rows, random=np.random.default_rng(0), at=("validation",))


def assert_partition(split, n):
    assert not set(split.train) & set(split.test)
    assert sorted([*split.train, *split.test]) == list(range(n))


def test_all_tests_on_its_training_rows():
    (split,) = splits_of(table_of(runs()), method="All")
    assert split.train.tolist() == split.test.tolist() == list(range(24))


def test_hold_out_takes_the_share_rounded_down():
    (split,) = splits_of(table_of(runs()), method="HoldOut", ratio=0.2)
    assert len(split.test) == 4
    assert_partition(split, 24)


@given(n=st.integers(4, 60), folds=st.integers(2, 10))
def test_folds_are_disjoint_cover_all_rows_and_differ_by_at_most_one(n, folds):
    if folds > n:
        return
    splits = splits_of(table_of(runs(n)), method="KFold", folds=folds)
    tests = np.concatenate([s.test for s in splits])
    assert sorted(tests) == list(range(n))
    sizes = [len(s.test) for s in splits]
    assert max(sizes) - min(sizes) <= 1
    for split in splits:
        assert_partition(split, n)


@pytest.mark.parametrize("step", [3, 3.0])
def test_interpolation_step_takes_every_hth_level_from_the_smallest(step):
    table = table_of(runs())
    (split,) = splits_of(table, method="Interpolation", columns={"nodes": step})
    assert set(table.frame["nodes"].to_numpy()[split.test]) == {1, 4, 7}
    assert_partition(split, 24)


def test_interpolation_list_names_the_levels_and_columns_add_up():
    table = table_of(runs())
    options = {"nodes": [2, 5], "size": [3]}
    (split,) = splits_of(table, method="Interpolation", columns=options)
    frame = table.frame
    expected = frame.index[frame["nodes"].isin([2, 5]) | (frame["size"] == 3)]
    assert split.test.tolist() == expected.tolist()


def test_extrapolation_tests_strictly_above_any_bound():
    table = table_of(runs())
    (split,) = splits_of(table, method="Extrapolation", columns={"nodes": 6, "size": 2})
    frame = table.frame
    expected = frame.index[(frame["nodes"] > 6) | (frame["size"] > 2)]
    assert split.test.tolist() == expected.tolist()


def test_skipped_rows_stay_out_of_interpolation_and_extrapolation():
    table = table_of(runs(), data={"skip_rows_above": {"nodes": 5}})
    (split,) = splits_of(table, method="Extrapolation", columns={"nodes": 3})
    used = table.frame["nodes"].to_numpy()[np.concatenate([split.train, split.test])]
    assert used.max() == 5


def test_split_by_a_column_the_model_does_not_use_works():
    table = table_of(runs(), data={"skip_columns": ["size"]})
    (split,) = splits_of(table, method="Extrapolation", columns={"size": 2})
    assert len(split.test) == 8


def test_split_by_a_category_is_refused():
    frame = runs().assign(kind=["a", "b"] * 12)
    with pytest.raises(ForetellError, match="'kind' must hold numbers"):
        splits_of(table_of(frame), method="Interpolation", columns={"kind": 2})


def test_selection_splits_lie_inside_the_training_rows_of_their_outer_split():
    spec = campaign(
        validation={"method": "KFold", "folds": 4},
        search={"splits": {"method": "KFold", "folds": 3}},
        runs=2,
    )
    plan = split_campaign(spec, prepare_table(spec, Dataset(runs(), "runs.csv")))
    assert len(plan.outer) == 8
    for outer in plan.outer:
        train = set(plan.splits[outer.key].train)
        for key in outer.selection_keys:
            inner = plan.splits[key]
            assert set(inner.train) | set(inner.test) == train


def test_runs_have_new_random_splits_and_the_seed_decides_them():
    def tests(seed):
        spec = campaign(validation={"method": "HoldOut", "ratio": 0.25}, runs=3, seed=seed)
        plan = split_campaign(spec, prepare_table(spec, Dataset(runs(), "runs.csv")))
        return [tuple(plan.splits[o.key].test) for o in plan.outer]

    assert len(set(tests(0))) == 3
    assert tests(0) == tests(0)
    assert tests(0) != tests(1)


def test_hp_selection_may_extrapolate_too():
    spec = campaign(
        validation={"method": "Extrapolation", "columns": {"nodes": 6}},
        search={"splits": {"method": "Extrapolation", "columns": {"nodes": 4}}},
    )
    plan = split_campaign(spec, prepare_table(spec, Dataset(runs(), "runs.csv")))
    nodes = prepare_table(spec, Dataset(runs(), "runs.csv")).frame["nodes"].to_numpy()
    inner = plan.splits[plan.outer[0].selection_keys[0]]
    assert set(nodes[inner.test]) == {5, 6}
    assert set(nodes[inner.train]) == {1, 2, 3, 4}
