"""The first runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.advise.first_runs import FEWEST, first_runs, job_size, small_runs


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["size", "threads", "batch"]),
        st.lists(st.integers(1, 100), min_size=1, max_size=5, unique=True),
        min_size=1,
    ),
    st.lists(st.sampled_from(["m4", "c4", "r4"]), min_size=1, max_size=3, unique=True),
)
def test_first_runs_have_both_ends_of_every_number_and_every_level(numbers, levels):
    values = {**numbers, "machine": levels}
    runs = first_runs(values, {})
    for name, listed in numbers.items():
        assert {min(listed), max(listed)} <= {run[name] for run in runs}
    assert {run["machine"] for run in runs} == set(levels)
    assert len({tuple(run.values()) for run in runs}) == len(runs)
    assert all(run[name] in values[name] for run in runs for name in run)


def test_first_runs_stay_within_the_job_that_is_given():
    runs = first_runs({"size": [1, 4, 16], "kind": ["x", "y"], "threads": [1, 2]},
                      {"size": 4, "kind": "y"})  # fmt: skip
    assert {run["size"] for run in runs} == {1, 4}
    assert {run["kind"] for run in runs} == {"y"}


def test_one_column_alone_still_gives_enough_runs_if_it_has_the_values():
    assert len(first_runs({"size": [1, 2, 4, 8]}, {})) == FEWEST  # both ends and the middle
    assert first_runs({"size": [3]}, {"size": 3}) == [{"size": 3}]


def test_first_runs_come_in_the_order_of_their_size():
    given = {"size": 16, "epochs": 4}
    runs = first_runs({"size": [1, 4, 16], "epochs": [1, 4], "threads": [1, 2]}, given)
    sizes = [job_size(run, given) for run in runs]
    assert sizes == sorted(sizes)


def test_small_runs_are_all_runs_up_to_the_job_smallest_first():
    runs = small_runs({"size": [4, 1, 9], "kind": ["x", "y"]}, {"size": 4, "kind": "y"})
    assert runs == [{"size": 1, "kind": "y"}, {"size": 4, "kind": "y"}]


CLUSTERS = [
    {"family": family, "cores": cores, "memory_gb": cores * memory_gb, "nodes": nodes}
    for family, memory_gb in {"compute": 2, "general": 4, "memory": 8}.items()
    for cores, counts in {2: (4, 12, 48), 4: (4, 12, 24), 8: (4, 12)}.items()
    for nodes in counts
]


def test_first_runs_of_a_table_are_rows_of_it_and_span_totals():
    values = {name: sorted({row[name] for row in CLUSTERS}) for name in CLUSTERS[0]}
    runs = first_runs(values, {}, CLUSTERS)
    assert all(run in CLUSTERS for run in runs)
    for one, other in (("nodes", "memory_gb"), ("nodes", "cores")):
        totals = [row[one] * row[other] for row in CLUSTERS]
        assert {min(totals), max(totals)} <= {run[one] * run[other] for run in runs}
    assert {run["family"] for run in runs} == {"compute", "general", "memory"}
    assert len(runs) == 3


def test_of_many_columns_each_is_tried_at_both_ends():
    values = {f"option{i}": [0, 1] for i in range(16)} | {"size": list(range(1, 100))}
    runs = first_runs(values, {"size": 90})
    assert all({run[f"option{i}"] for run in runs} == {0, 1} for i in range(16))
    assert {run["size"] for run in runs} == {1, 90}
    assert sum(run["size"] == 90 for run in runs) == 1


def test_every_level_is_tried_even_if_there_are_too_many_runs_to_list():
    values = {"k": ["a", "b", "c"]} | {f"n{i}": [1, 2, 4] for i in range(8)}
    assert {run["k"] for run in first_runs(values, {})} == {"a", "b", "c"}
