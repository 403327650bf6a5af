"""One row is read as a table of one row would be, or not at all."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.dataset import Dataset
from foretell.errors import DatasetError
from foretell.model.features.feature import CATEGORY, FLAG, NUMBER, Column, Factor, Feature
from foretell.model.features.feature_map import FeatureMap, read_row

COLUMNS = (
    Column("size", NUMBER),
    Column("is_big", FLAG),
    Column("machine", CATEGORY, ("1", "2.5", "m4")),
)
MAP = FeatureMap(COLUMNS, tuple(Feature(c.name, (Factor(c.name),)) for c in COLUMNS))
ANYTHING = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["1", "2.5", "m4", "x", "", "true", "1_0", "10" * 300]),
)


@given(st.fixed_dictionaries({c.name: ANYTHING for c in COLUMNS}))
def test_a_row_has_the_values_that_a_table_reads(row):
    values = read_row(COLUMNS, row)
    if values is not None:
        table = MAP.values(Dataset(pd.DataFrame([row]), "the row"))
        assert {k: v.tolist() for k, v in values.items()} == {
            k: v.tolist() for k, v in table.items()
        }


@given(st.fixed_dictionaries({c.name: ANYTHING for c in COLUMNS}))
def test_what_a_table_refuses_is_left_to_the_table(row):
    try:
        MAP.values(Dataset(pd.DataFrame([row]), "the row"))
    except DatasetError:
        assert read_row(COLUMNS, row) is None


@pytest.mark.parametrize("missing", ["size", "is_big", "machine"])
def test_a_missing_column_is_left_to_the_table(missing):
    row = {"size": 1.5, "is_big": True, "machine": "m4"}
    assert read_row(COLUMNS, row) is not None
    assert read_row(COLUMNS, {k: v for k, v in row.items() if k != missing}) is None
