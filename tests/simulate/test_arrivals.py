"""Tasks that arrive: made up by the seed, or read from a table and checked."""

import numpy as np
import pandas as pd
import pytest

from foretell.decide.placement.cluster import TraceTable
from foretell.errors import DatasetError, ForetellError, UsageError
from foretell.machines import Resources
from foretell.simulate.arrivals import made_up, read_arrivals


def test_bursts_begin_when_they_should_and_last_as_long():
    table = TraceTable(tasks=40, bursts=4, every_s=100, within_s=10)
    times = np.array([a.at_s for a in made_up(table, 1)])
    assert (np.diff(times) >= 0).all()
    assert np.bincount((times // 100).astype(int)).tolist() == [10] * 4
    assert ((times % 100) <= 10).all()


def test_poisson_arrivals_have_the_rate_asked_for():
    table = TraceTable(tasks=4000, arrivals="poisson", rate_per_s=2)
    gaps = np.diff([a.at_s for a in made_up(table, 1)])
    assert gaps.mean() == pytest.approx(0.5, rel=0.06)
    assert gaps.std() == pytest.approx(0.5, rel=0.1)


def test_sizes_and_features_are_drawn_by_the_seed():
    table = TraceTable(
        tasks=300, arrivals="at once", cpu=[1, 2], memory="1Gi", H=[0, 1], migratable="resume",
        features={"iterations": {"from": 5, "to": 9}},
    )  # fmt: skip
    found = made_up(table, 1)
    assert {a.task.needs.cpus for a in found} == {1, 2}
    assert {a.task.features["iterations"] for a in found} == {5, 6, 7, 8, 9}
    assert {a.task.H for a in found} == {0, 1}
    assert {(a.at_s, a.task.migratable) for a in found} == {(0.0, "resume")}
    assert found == made_up(table, 1) != made_up(table, 2)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"memory": "lots"}, "trace.memory"),
        ({"cpu": []}, "trace.cpu: must not be empty"),
        ({"H": 3}, "from 0 to 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, expected):
    with pytest.raises(UsageError, match=expected):
        made_up(TraceTable(tasks=1, **wrong), 0)


def test_a_table_has_needs_features_and_weights(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,cpu,memory,iterations,H,name\n0,2,1Gi,800,0.5,a\n1.5,500m,,900,,b\n")
    first, second = read_arrivals(path)
    assert (first.at_s, second.at_s) == (0.0, 1.5)
    assert first.task.needs == Resources(cpus=2, memory_bytes=2**30)
    assert second.task.needs == Resources(cpus=0.5)
    assert first.task.features == {"iterations": 800}
    assert (first.task.H, second.task.H) == (0.5, None)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"at": [1, 2]}, "no column 'arrival_s'"),
        ({"arrival_s": [0, None, 2]}, r"'arrival_s'.*missing.*row 2"),
        ({"arrival_s": [0, "soon", 2]}, r"'arrival_s'.*row 2"),
        ({"arrival_s": [0, 5, 3, 4]}, r"'arrival_s'.*earlier.*row 3.*sort"),
        ({"arrival_s": [-1, 0]}, r"'arrival_s'.*negative.*row 1"),
        ({"arrival_s": [0, 1], "cpu": [1, -1]}, r"row 2: .*cpu.*-1"),
        ({"arrival_s": [0, 1], "H": [0, 3]}, r"row 2, column 'H': .*from 0 to 1, not 3"),
    ],
)
def test_mistakes_in_a_table_are_named_with_column_and_row(columns, expected):
    with pytest.raises(ForetellError, match=expected) as error:
        read_arrivals(pd.DataFrame(columns))
    assert isinstance(error.value, DatasetError)
