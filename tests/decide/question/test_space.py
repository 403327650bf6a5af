"""The configurations to choose from."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.question import space as spaces
from foretell.decide.question.space import Grid, Listed, make_grid, read_axis
from foretell.errors import UsageError
from foretell.spaces.expressions import Expression
from foretell.spaces.rules import Rules
from foretell.spaces.values import Range, listed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workers=1..5", [1, 2, 3, 4, 5]),
        ("workers=1..9:4", [1, 5, 9]),
        ("workers = 1..64*4", [1, 4, 16, 64]),
        ("x=0..1:0.25", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("machine=m4,c4", ["m4", "c4"]),
        ("n=1,2.5,-3", [1, 2.5, -3]),
        ("name=a=b", ["a=b"]),
    ],
)
def test_axes_are_read_from_the_command_line(text, expected):
    name, values = read_axis(text)
    assert make_grid({name: values}, {}).values(name) == expected


def test_a_range_between_broken_numbers_is_continuous():
    _, values = read_axis("x=0.5..2.5")
    assert isinstance(values, Range)
    assert make_grid({"x": values}, {}).size == float("inf")


@pytest.mark.parametrize(
    "text", ["workers", "workers=", "=3", "w=1..", "w=..3", "w=5..1", "w=1..8*1", "w=1..8*0",
             "w=1..8:0", "w=0..8*2", "w=a..b", "w=1..nan", "w=1..2..3", "w=1,,2", "w=1..1e300:1"]
)  # fmt: skip
def test_what_is_no_axis_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="write"):
        name, values = read_axis(text)
        make_grid({name: values}, {})


values = st.lists(st.integers(0, 9) | st.sampled_from("abc"), min_size=1, max_size=4, unique=True)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1), st.integers(1, 9))
def test_blocks_of_a_grid_are_every_combination_once_and_in_order(axes, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "BLOCK", block)
        rows = pd.concat(list(Grid(axes).blocks()), ignore_index=True)
    expected = list(itertools.product(*axes.values()))
    assert [tuple(row) for row in rows[list(axes)].to_numpy(dtype=object)] == expected
    assert Grid(axes).size == len(expected)


def test_drawn_configurations_come_from_the_axes_and_cover_them():
    grid = make_grid({"a": list(range(10)), "b": Range.model_validate({"from": 0.5, "to": 1.5}),
                      "c": ["x", "y"]}, {}, Rules(only=(Expression("a != 3"),)))  # fmt: skip
    drawn = grid.draw(200, seed=1)
    assert set(drawn["a"]) == set(range(10)) - {3}
    assert set(drawn["c"]) == {"x", "y"}
    assert drawn["b"].between(0.5, 1.5).all()
    assert drawn.equals(grid.draw(200, seed=1))


def test_listed_values_of_an_axis_keep_their_order_and_lose_copies():
    assert make_grid({"a": [3, 1, 3]}, {}).values("a") == [3, 1]
    assert listed(read_axis("a=3,1")[1]) == [3, 1]
    assert np.isfinite(make_grid({}, {"a": 1}).size)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("xy")), max_size=6),
    st.sampled_from([int, float, object]),
)
def test_excluded_configurations_and_no_others_are_left_out(excluded, kind):
    left_out = pd.DataFrame(excluded, columns=["n", "the kind"]).astype({"n": kind})
    axes = {"n": [0, 1, 2, 3], "the kind": ["x", "y"]}
    grid = make_grid(axes, {}, Rules(excluded=left_out))
    left = [tuple(row) for block in grid.blocks() for row in block.to_numpy().tolist()]
    assert left == [row for row in itertools.product(*axes.values()) if row not in excluded]


def test_excluded_rows_are_left_out_of_a_table_whose_labels_repeat():
    frame = pd.DataFrame({"n": [1, 2, 3], "more": [0, 0, 0]}, index=[5, 5, 5])
    space = Listed(frame, Rules(excluded=pd.DataFrame({"n": [2], "other": [1]})))
    assert next(space.blocks())["n"].tolist() == [1, 3]


def test_very_many_whole_numbers_are_not_listed():
    grid = make_grid({"a": Range.model_validate({"from": 1, "to": 9e15})}, {})
    assert grid.size == 9e15
    assert not grid.is_listed
    assert all(isinstance(v, int) for v in grid.draw(10, seed=0)["a"].tolist())
    with pytest.raises(UsageError, match="goes to 1e"):
        make_grid({"a": Range.model_validate({"from": 1.0, "to": 1e300})}, {})


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(st.integers(1, 9), min_size=1, unique=True), min_size=2
    ),
    st.integers(4, 40),
)
def test_pruning_leaves_what_the_rules_allow(axes, most):
    names = list(axes)
    rules = Rules(
        derive={"sum": Expression(f"{names[0]} + {names[-1]}")},
        only=(Expression(f"{names[0]} * {names[1]} <= {most}"), Expression("sum % 2 == 0")),
        within={names[0]: (2.0, 8.0)},
    )
    grid = Grid(axes, rules)
    allowed = pd.concat([pd.DataFrame(columns=grid.names), *grid.blocks()], ignore_index=True)
    found = grid.pruned(10_000)
    assert sorted(map(tuple, found[grid.names].to_numpy().tolist())) == sorted(
        map(tuple, allowed[grid.names].to_numpy().tolist())
    )
    assert grid.pruned(0) is None
