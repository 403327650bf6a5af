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
    assert {"nodes": 16, "memory_gb": 16} in runs  # 256 GB
    assert len(runs) == 4


def test_a_column_that_follows_from_others_takes_no_run_of_its_own():
    rows = [{"threads": t, "cpus": 2 * t, "on": on} for t in (1, 2, 4, 8) for on in (True, False)]
    assert len(spread_runs(rows)) == 3
    assert spread_runs([]) == []


def test_a_total_that_is_the_same_everywhere_takes_no_run():
    rows = [{"nodes": n, "cores": 96 / n} for n in (1, 2, 3, 4, 6, 7, 11, 12)]
    assert len(spread_runs(rows)) == 2  # both ends; the cores follow from the nodes


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
    assert len({tuple(run.values()) for run in runs}) == len(runs)
    assert {run["kind"] for run in runs} == {row["kind"] for row in rows}
