"""Where runs are measured: limits on CPU time, read from files as the kernel writes them."""

import os

import pytest

from foretell.measure.running.machine import core_limit, usable_cores


def groups(tmp_path, own, **files):
    """Write what a kernel shows: the groups of a process, and their files."""
    (tmp_path / "own").write_text(own)
    root = tmp_path / "groups"
    for place, text in files.items():
        file = root / place.replace("__", "/")
        file = file.with_name({"max": "cpu.max"}.get(file.name, f"cpu.cfs_{file.name}_us"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "own", root


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a__b__max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a__b__max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a__b__max": "max 100000\n", "a__max": "50000 25000\n"}, 2.0),
        ("0::/a/b\n", {"a__b__max": "300000 100000\n", "a__max": "200000 100000\n"}, 2.0),
        ("0::/\n", {"max": "100000 100000\n"}, 1.0),  # in a container
        ("0::/../../x\n", {"max": "100000 100000\n"}, 1.0),
        ("0::/away\n", {"max": "100000 100000\n"}, 1.0),
        ("0::/a\n", {"a__max": "what is this"}, None),
        ("0::/a\n", {}, None),
        (
            "3:cpu,cpuacct:/docker/x\n1:memory:/docker/x\n",
            {"cpu__docker__x__quota": "250000\n", "cpu__docker__x__period": "100000\n"},
            2.5,
        ),
        ("3:cpu:/\n0::/\n", {"cpu__quota": "-1\n", "cpu__period": "100000\n"}, None),
        ("3:memory:/x\n", {"cpu__x__quota": "1\n", "cpu__x__period": "1\n"}, None),
        ("", {}, None),
    ],
)
def test_the_least_limit_of_a_group_and_those_above_it_counts(own, files, expected, tmp_path):
    assert core_limit(*groups(tmp_path, own, **files)) == expected


def test_no_more_cores_are_usable_than_there_are():
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


def test_where_there_are_no_groups_there_is_no_limit(tmp_path):
    assert core_limit(tmp_path / "none", tmp_path) is None
