import math
import tracemalloc
from itertools import combinations, combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.dataset import Dataset
from foretell.errors import DatasetError, UsageError
from foretell.model.campaigns.schema import Features
from foretell.model.features.feature import (
    CATEGORY,
    FLAG,
    MOST_FACTORS,
    NUMBER,
    Column,
    Factor,
    Feature,
)
from foretell.model.features.feature_map import FeatureMap, compile_features, recognize

COLUMNS = [
    Column("nodes", NUMBER),
    Column("size", NUMBER),
    Column("gpu", FLAG),
    Column("kind", CATEGORY, ("a", "b", "c")),
]
FRAME = pd.DataFrame(
    {
        "nodes": [1.0, 2.0, 4.0],
        "size": [10.0, 20.0, 50.0],
        "gpu": [True, False, True],
        "kind": ["b", "a", "c"],
    }
)


def table(frame):
    return Dataset(frame, "the table")


def compiled(columns=COLUMNS, **options):
    return compile_features(columns, Features(**options))


def column(feature_map, name, frame=FRAME):
    return feature_map.matrix(table(frame))[:, feature_map.names.index(name)].tolist()


def test_columns_come_as_they_are_and_categories_as_one_indicator_per_level():
    plain = compiled()
    assert plain.names == ["nodes", "size", "gpu", "kind_class_a", "kind_class_b", "kind_class_c"]
    assert plain.matrix(table(FRAME))[0].tolist() == [1, 10, 1, 0, 1, 0]


def test_inverse_of_named_columns():
    assert column(compiled(inverse=["nodes"]), "inverse_nodes") == [1, 0.5, 0.25]


def test_star_means_every_number_but_no_flag_and_no_category():
    names = compiled(inverse=["*"]).names
    assert [n for n in names if n.startswith("inverse")] == ["inverse_nodes", "inverse_size"]


def test_log_is_natural_and_star_includes_the_inverses():
    both = compiled(inverse=["nodes"], log=["*"])
    assert column(both, "log_nodes") == pytest.approx([0, math.log(2), math.log(4)])
    assert column(both, "log_inverse_nodes") == pytest.approx([0, -math.log(2), -math.log(4)])


def test_products_are_named_by_their_factors_in_alphabetical_order():
    squares = compiled([Column("b", NUMBER), Column("a", NUMBER)], product_max_degree=2)
    assert squares.names == ["b", "a", "a__a", "a__b", "b__b"]
    frame = pd.DataFrame({"a": [3.0], "b": [5.0]})
    assert squares.matrix(table(frame)).tolist() == [[5, 3, 9, 15, 25]]


def test_interactions_only_have_no_column_twice():
    names = compiled(product_max_degree=3, product_interactions_only=True).names
    assert "nodes__size" in names
    assert "nodes__nodes" not in names
    assert "gpu__nodes__size" in names


def test_infinite_degree_goes_up_to_the_number_of_features():
    three = [Column(n, NUMBER) for n in "abc"]
    names = compiled(three, product_max_degree="inf", product_interactions_only=True).names
    assert names == ["a", "b", "c", "a__b", "a__c", "b__c", "a__b__c"]


def test_no_product_of_a_column_with_its_own_inverse():
    names = compiled(inverse=["nodes"], product_max_degree=2).names
    assert "inverse_nodes__nodes" not in names
    assert "inverse_nodes__size" in names
    assert "inverse_nodes__inverse_nodes" in names


def test_no_product_of_two_levels_of_one_category():
    names = compiled(product_max_degree=2).names
    assert not any(name.count("kind_class") == 2 for name in names)
    assert "kind_class_a__nodes" in names


def test_selected_products_are_exactly_those_and_override_the_degree():
    chosen = compiled(selected_products=["size nodes", "gpu size"], product_max_degree=2)
    assert chosen.names[6:] == ["size__nodes", "gpu__size"]
    assert column(chosen, "size__nodes") == [10, 40, 200]


def test_ernest_replaces_everything_by_its_four_features():
    columns = [Column("datasize", NUMBER), Column("cores", NUMBER), Column("other", NUMBER)]
    ernest = compiled(columns, ernest=True)
    frame = pd.DataFrame({"datasize": [100.0], "cores": [4.0], "other": [1.0]})
    assert [c.name for c in ernest.columns] == ["datasize", "cores"]
    assert dict(zip(ernest.names, ernest.matrix(table(frame))[0], strict=True)) == pytest.approx(
        {
            "datasize_over_cores": 25,
            "log_cores": math.log(4),
            "square_datasize_over_cores": 5,
            "squared_datasize_over_cores": 2.5,
        }
    )


def test_unseen_level_has_all_indicators_at_zero_and_is_reported():
    plain = compiled()
    new = FRAME.assign(kind=["z", "a", "z"])
    assert plain.matrix(table(new))[0, 3:].tolist() == [0, 0, 0]
    values = plain.values(table(new))
    assert plain.unknown_levels(values) == {"kind": ["z"]}


def test_numeric_levels_match_whatever_number_type_the_file_gave():
    column_of_numbers = compiled([Column("zone", CATEGORY, ("1", "2"))])
    for values in ([1, 2], [1.0, 2.0]):
        assert column_of_numbers.matrix(table(pd.DataFrame({"zone": values}))).tolist() == [
            [1, 0],
            [0, 1],
        ]


def test_column_order_of_the_table_does_not_matter():
    plain = compiled(product_max_degree=2)
    assert (plain.matrix(table(FRAME)) == plain.matrix(table(FRAME[FRAME.columns[::-1]]))).all()


@pytest.mark.parametrize(
    ("step", "bad", "rule"), [("log", 0.0, "logarithm"), ("inverse", 0.0, "inverse")]
)
def test_step_on_a_value_it_is_not_defined_for_names_column_and_rows(step, bad, rule):
    frame = FRAME.assign(nodes=[1.0, bad, bad])
    with pytest.raises(DatasetError, match=rule) as error:
        compiled(**{step: ["nodes"]}).matrix(table(frame))
    assert "'nodes'" in str(error.value)
    assert "2, 3" in str(error.value)


def test_too_many_products_are_refused_with_their_number():
    columns = [Column(f"c{i}", NUMBER) for i in range(40)]
    with pytest.raises(UsageError, match="products"):
        compiled(columns, product_max_degree=5)


@given(
    values=st.lists(st.floats(0.1, 10), min_size=4, max_size=4),
    degree=st.integers(1, 4),
    only=st.booleans(),
)
def test_products_are_the_products_of_their_factors(values, degree, only):
    names = ["a", "b", "c", "d"]
    fmap = compiled(
        [Column(n, NUMBER) for n in names],
        product_max_degree=degree,
        product_interactions_only=only,
    )
    row = dict(zip(names, values, strict=True))
    combine = combinations if only else combinations_with_replacement
    expected = {"__".join(g): math.prod(row[n] for n in g)
                for d in range(1, degree + 1) for g in combine(names, d)}  # fmt: skip
    found = dict(zip(fmap.names, fmap.matrix(table(pd.DataFrame([row])))[0], strict=True))
    assert found == pytest.approx(expected)


def test_thousands_of_products_of_many_rows_equal_a_plain_computation():
    random = np.random.default_rng(0)
    x = random.uniform(1, 2, (500, 26))
    frame = pd.DataFrame(x, columns=[f"c{i:02d}" for i in range(26)])
    fmap = compiled([Column(c, NUMBER) for c in frame.columns], product_max_degree=3)
    matrix = fmap.matrix(table(frame))
    assert matrix.shape == (500, 26 + 351 + 3276)
    i = fmap.names.index("c03__c11__c25")
    assert matrix[:, i] == pytest.approx(x[:, 3] * x[:, 11] * x[:, 25])


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["a", "b__c", "a__b", "c"], {"product_max_degree": 2}),
        (["a", "b", "a__b"], {"product_max_degree": 2}),
        (["x", "inverse_x"], {"inverse": ["x"]}),
    ],
)
def test_two_features_of_one_name_are_refused(names, options):
    with pytest.raises(UsageError, match=r"two features would be called .*rename one"):
        compiled([Column(n, NUMBER) for n in names], **options)


def test_feature_asked_for_twice_is_there_once():
    assert compiled(inverse=["nodes", "nodes"]).names.count("inverse_nodes") == 1
    twice = compiled(selected_products=["nodes size", "nodes size"])
    assert twice.names.count("nodes__size") == 1


def test_large_numbers_are_different_levels():
    for values in ([1700000000000000, 1700000000000001], [2**62, 2**62 + 1], [0.1 + 0.2, 0.3]):
        assert len(recognize("id", pd.Series(values), as_category=True).levels) == 2


@pytest.mark.parametrize(("column", "bad"), [("cores", 0.0), ("datasize", -1.0)])
def test_value_that_ernest_cannot_use_names_ernest(column, bad):
    ernest = compiled([Column("datasize", NUMBER), Column("cores", NUMBER)], ernest=True)
    frame = pd.DataFrame({"datasize": [1.0, 2.0], "cores": [1.0, 2.0]})
    frame.loc[1, column] = bad
    with pytest.raises(DatasetError, match="do without ernest") as error:
        ernest.matrix(table(frame))
    assert error.value.at == ("features", "ernest")


def test_one_long_product_takes_no_memory_for_the_others():
    long = Feature("long", (Factor("c"),) * MOST_FACTORS)
    features = (*(Feature(f"f{i}", (Factor("c"),)) for i in range(50_000)), long)
    fmap = FeatureMap((Column("c", NUMBER),), features)
    tracemalloc.start()
    try:
        assert (fmap.matrix(table(pd.DataFrame({"c": [1.0]}))) == 1).all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6


def test_product_of_too_many_factors_is_refused():
    with pytest.raises(UsageError, match="at most 1024"):
        compiled([Column("a", NUMBER)], product_max_degree=MOST_FACTORS + 1)
    with pytest.raises(UsageError, match="at most 1024"):
        compiled(selected_products=["nodes " * (MOST_FACTORS + 1)])


def test_degree_zero_adds_no_products():
    assert compiled(product_max_degree=0).names == compiled().names
