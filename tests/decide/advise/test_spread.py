"""Runs that span columns and their products."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.advise.spread import spread_runs


def test_a_total_is_spanned_where_its_largest_value_is_at_no_end_of_a_column():
    shapes = [(4, 4), (48, 4), (4, 32), (16, 16), (8, 8), (12, 4)]
    rows = [{"nodes": nodes, "memory_gb": memory_gb} for nodes, memory_gb in shapes]
    runs = spread_runs(rows)
    assert runs[0] == rows[0]
    assert runs[1] == {"nodes": 16, "memory_gb": 16}  # 256 GB
    assert len(runs) == 3


def test_a_total_counts_by_its_product_whatever_the_ranges_of_its_columns():
    shapes = [(8, 1), (16, 100), (9, 1000), (10, 30), (12, 20), (11, 8), (8, 10), (16, 2)]
    rows = [{"nodes": nodes, "memory_gb": memory_gb} for nodes, memory_gb in shapes]
    assert spread_runs(rows)[1] == {"nodes": 9, "memory_gb": 1000}


def test_what_changes_in_no_run_is_changed_in_one_more():
    # The smallest, the largest and the one in the middle all have b=1.
    rows = [{"a": a, "b": 1} for a in (1, 10, 100)] + [{"a": 2, "b": 1.1}]
    runs = spread_runs(rows)
    assert runs[:3] == [rows[0], rows[2], rows[1]]
    assert runs[3:] == [rows[3]]


def test_rows_are_told_apart_whatever_the_order_of_their_columns():
    rows = [{"b": 2, "a": 1}, {"a": 2, "b": 1}]
    assert len(spread_runs(rows)) == 2


def test_one_run_is_enough_where_nothing_changes_and_none_where_there_is_none():
    assert spread_runs([{"nodes": 2, "kind": "x"}] * 3) == [{"nodes": 2, "kind": "x"}]
    assert spread_runs([]) == []


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"a": st.integers(0, 3), "b": st.integers(1, 4), "kind": st.sampled_from("xyz")}
        ),
        min_size=1,
        max_size=30,
    )
)
def test_runs_are_different_rows_with_every_level(rows):
    runs = spread_runs(rows)
    assert all(run in rows for run in runs)
    assert len({tuple(sorted(run.items())) for run in runs}) == len(runs)
    assert {run["kind"] for run in runs} == {row["kind"] for row in rows}
    for name in ("a", "b"):
        n_values = len({row[name] for row in rows})
        assert len({run[name] for run in runs}) >= min(2, n_values)
