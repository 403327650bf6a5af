"""Rules for configurations, one by one and in tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import Option, UsageError
from foretell.spaces.expressions import Expression
from foretell.spaces.rules import Rules


def test_a_missing_value_keeps_no_rule():
    frame = pd.DataFrame({"a": [1.0, 5.0, np.nan]})
    assert Rules(within={"a": (0.0, 3.0)}).applied(frame)["a"].tolist() == [1.0]
    assert Rules(only=(Expression("a < 3"),)).applied(frame)["a"].tolist() == [1.0]


RULES = Rules.of(
    derive={"cpus": "workers * threads"},
    only=["cpus <= 24", "workers != 5"],
    exclude="kind == 'b' and workers > 2",
    least={"threads": 2},
    most={"cpus": 20},
)
rows = st.lists(
    st.fixed_dictionaries(
        {"workers": st.integers(1, 6), "threads": st.integers(1, 6), "kind": st.sampled_from("ab")}
    ),
    min_size=1,
    max_size=12,
)


@given(rows)
def test_tables_and_single_configurations_follow_the_same_rules(rows):
    one_by_one = [RULES.with_derived(row) for row in rows]
    allowed = [row for row in one_by_one if RULES.allows(row)]
    found = RULES.applied(pd.DataFrame(rows))
    assert found.to_dict("records") == allowed
    for row in allowed:
        assert row["cpus"] == row["workers"] * row["threads"] <= 20
        assert row["threads"] >= 2
        assert row["workers"] != 5
        assert row["kind"] == "a" or row["workers"] <= 2


@given(rows)
def test_a_rule_about_a_column_that_is_not_there_yet_forbids_nothing(rows):
    for row in rows:
        part = {"workers": row["workers"]}
        assert RULES.allows(part) == (row["workers"] != 5)
        if RULES.allows(RULES.with_derived(row)):
            assert RULES.allows(part)


def test_rules_about_unknown_columns_are_refused_with_the_option():
    with pytest.raises(UsageError, match="Did you mean 'workers'") as caught:
        Rules.of(most={"wrkers": 3}).check(["workers"])
    assert caught.value.option == Option("most", key="wrkers")
    with pytest.raises(UsageError, match="uses 'n'"):
        Rules.of(exclude=["n > 3"]).check(["workers"])
    with pytest.raises(UsageError, match="both derived and given"):
        Rules.of(derive={"workers": "2"}).check(["workers"])
    RULES.check(["workers", "threads", "kind"])


def test_parts_of_a_condition_drop_rows_before_all_of_its_columns_are_there():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, 1, 3]})
    assert Rules.of(only="a == b and c == a").pruned(frame)["a"].tolist() == [1, 3]
    assert Rules.of(only="c == a or a == b").pruned(frame)["a"].tolist() == [1, 2, 3]
    assert Rules.of(exclude="c == a or a == b").pruned(frame)["a"].tolist() == [2]


def test_a_part_without_a_value_is_left_to_the_whole_condition():
    rules = Rules.of(only="c > 0 and 6 % a in [0, 2]")
    frame = pd.DataFrame({"a": [0, 3, 4]})
    assert rules.pruned(frame)["a"].tolist() == [0, 3, 4]
    assert rules.pruned(frame.assign(c=[0, 1, 1]))["a"].tolist() == [3, 4]
