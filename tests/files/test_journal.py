"""The journal: records survive crashes and full disks, and damage is refused."""

import json
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import StorageError
from foretell.files.journal import GroupedRecords, Journal, decode, encode, is_journal

PRINTS = {"data": "d" * 64, "campaign": "c" * 64, "results version": "7", "numpy": "2.1"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
records = st.dictionaries(st.text(), json_values, max_size=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal"


def opened(path, **changes):
    return Journal(path, {**PRINTS, **changes})


def header_line():
    with tempfile.TemporaryDirectory() as directory:
        opened(Path(directory) / "journal").close()
        return (Path(directory) / "journal").read_bytes()


HEADER = header_line()


# Lines


@given(records)
def test_record_is_one_line_and_reads_as_it_was(record):
    line = encode(record)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    found, end = decode(line)
    assert found == [record]
    assert end == len(line)
    assert json.dumps(found[0]) == json.dumps(record)  # the order of keys, too


@given(st.lists(records, max_size=5), st.data())
def test_any_prefix_gives_exactly_the_records_whose_lines_are_whole(written, data):
    lines = [encode(record) for record in written]
    content = b"".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    found, end = decode(content[:cut])
    ends = [len(b"".join(lines[: i + 1])) for i in range(len(lines))]
    assert found == written[: sum(e <= cut for e in ends)]
    assert end == max([e for e in ends if e <= cut], default=0)


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_changed_byte_is_noticed_where_it_is(written, data):
    lines = [encode(record) for record in written]
    content = bytearray(b"".join(lines))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    damaged = next(i for i in range(len(lines)) if position < len(b"".join(lines[: i + 1])))
    found, end = decode(bytes(content))
    assert found == written[:damaged]
    assert end == len(b"".join(lines[:damaged]))


# Files


@given(st.lists(st.lists(records, max_size=3), max_size=4))
def test_what_was_appended_is_there_when_it_is_opened_again(batches):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal"
        appended = []
        for batch in batches:
            with opened(path) as journal:
                assert journal.records == appended
                journal.append(batch)
                appended += batch
                assert journal.records == appended
        with opened(path) as journal:
            assert journal.records == appended


@given(st.lists(records, max_size=4), st.data())
def test_a_file_cut_anywhere_loses_only_what_was_cut(written, data):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal"
        path.write_bytes(HEADER + b"".join(map(encode, written)))
        content = path.read_bytes()
        cut = data.draw(st.integers(len(HEADER), len(content)))
        path.write_bytes(content[:cut])
        n_whole = content[len(HEADER) : cut].count(b"\n")
        with opened(path) as journal:
            assert journal.records == written[:n_whole]
            journal.append([{"kind": "more"}])
        with opened(path) as journal:
            assert journal.records == [*written[:n_whole], {"kind": "more"}]


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_any_changed_byte_before_the_last_record_is_refused_and_left_alone(written, data):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal"
        lines = [HEADER, *map(encode, written)]
        content = bytearray(b"".join(lines))
        position = data.draw(st.integers(0, len(content) - len(lines[-1]) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        with pytest.raises(StorageError, match="damaged at byte"):
            opened(path)
        assert path.read_bytes() == content


def test_a_lost_line_break_does_not_take_the_next_record_along(path):
    """Two lines that run into one another look like a last line that was cut short."""
    with opened(path) as journal:
        journal.append([{"number": 1}, {"number": 2}])
    content = path.read_bytes()
    end = content.rindex(b"\n", 0, -1)
    path.write_bytes(content[:end] + b" " + content[end + 1 :])
    with pytest.raises(StorageError, match="damaged at byte"):
        opened(path)


APPEND_FOREVER = """
import sys
from pathlib import Path
from foretell.files.journal import Journal

with Journal(Path(sys.argv[1]), {"data": "d"}) as journal:
    for number in range(10**9):
        journal.append([{"number": number, "text": "x" * (number % 5000)}])
        print(number, flush=True)
"""


@pytest.mark.parametrize("n_seen", [1, 7, 40, 150])
def test_a_killed_process_loses_no_record_that_it_was_told_is_written(path, n_seen):
    command = [sys.executable, "-c", APPEND_FOREVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(n_seen):
            assert process.stdout.readline()
        process.kill()
        last = [line for line in process.stdout.read().splitlines(keepends=True) if "\n" in line]
    n_told = int(last[-1]) + 1 if last else n_seen
    with Journal(path, {"data": "d"}) as journal:
        numbers = [record["number"] for record in journal.records]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= n_told
        journal.append([{"number": len(numbers)}])
    with Journal(path, {"data": "d"}) as journal:
        assert len(journal.records) == len(numbers) + 1


def test_header_cut_anywhere_is_a_new_journal(path):
    for length in range(len(HEADER)):
        path.write_bytes(HEADER[:length])
        assert is_journal(path)
        with opened(path) as journal:
            assert journal.records == []
        assert path.read_bytes() == HEADER


@pytest.mark.parametrize("line", [0, 1, 2])
def test_damage_before_the_last_line_is_refused_and_left_alone(path, line):
    with opened(path) as journal:
        journal.append([{"kind": "trial", "number": n} for n in range(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    start = len(b"".join(lines[:line]))
    content = bytearray(path.read_bytes())
    content[start + 20] ^= 4
    path.write_bytes(content)
    with pytest.raises(StorageError, match=rf"damaged at byte {start}, before its last line"):
        opened(path)
    assert path.read_bytes() == content


def test_records_are_on_disk_as_soon_as_they_are_appended(path):
    with opened(path) as journal:
        journal.append([{"kind": "trial"}])
        assert decode(path.read_bytes())[0][1:] == [{"kind": "trial"}]


# Fingerprints


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "x"}, "other data"),
        ({"campaign": "x"}, "another campaign"),
        ({"results version": "6"}, r"results version '6' \(here '7'\)"),
        ({"data": "x", "numpy": "1.26"}, r"other data and numpy '1.26' \(here '2.1'\)"),
        ({"format": 2}, "another format"),
    ],
)
def test_journal_of_something_else_is_refused_with_what_differs(path, changes, words):
    with opened(path, **changes) as journal:
        journal.append([{"kind": "trial"}])
    content = path.read_bytes()
    with pytest.raises(StorageError, match=f"holds results from {words}; "):
        opened(path)
    path.write_bytes(content + b"half a li")
    with pytest.raises(StorageError, match=f"holds results from {words}"):
        opened(path)
    assert path.read_bytes() == content + b"half a li"


# Full disks


@contextmanager
def file_limit(most_bytes):
    """Let no file grow beyond a size: a real limit, which the kernel enforces."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_append_without_room_fails_whole_and_succeeds_once_there_is_room(path):
    with opened(path) as journal:
        journal.append([{"kind": "trial", "number": 1}])
        size = path.stat().st_size
        refused = pytest.raises(StorageError, match="cannot be written: File too large")
        with refused, file_limit(size + 40):
            journal.append([{"kind": "trial", "text": "long" * 100}])
        assert path.stat().st_size == size
        journal.append([{"kind": "trial", "number": 2}])
        assert [r["number"] for r in journal.records] == [1, 2]
    with opened(path) as journal:
        assert [r["number"] for r in journal.records] == [1, 2]


def test_no_room_for_the_header_is_a_storage_error(path):
    with pytest.raises(StorageError, match="cannot be written"), file_limit(10):
        opened(path)


def test_directory_in_place_of_a_journal_is_a_storage_error(path):
    path.mkdir()
    with pytest.raises(StorageError, match="cannot be opened: Is a directory"):
        opened(path)


# Groups


def test_records_in_groups_are_all_there_in_order_even_after_an_error(path):
    numbers = list(range(50))
    interrupted = pytest.raises(KeyboardInterrupt)
    with interrupted, opened(path) as journal, GroupedRecords(journal) as grouped:
        for number in numbers:
            grouped.append({"kind": "trial", "number": number})
        raise KeyboardInterrupt
    with opened(path) as journal:
        assert [r["number"] for r in journal.records] == numbers


def test_records_in_groups_take_fewer_syncs_than_there_are_records(path, monkeypatch):
    synced = []
    monkeypatch.setattr("foretell.files.journal.os.fsync", synced.append)
    with opened(path) as journal:
        before = len(synced)
        monkeypatch.setattr("foretell.files.journal.time.monotonic", lambda: 0.0)
        with GroupedRecords(journal) as grouped:
            for number in range(50):
                grouped.append({"number": number})
        assert len(synced) - before == 1


def test_records_that_wait_are_synced_when_the_last_time_is_long_ago(path, monkeypatch):
    clock = iter([0.0, 0.1, 100.0, 100.0, 100.1])
    monkeypatch.setattr("foretell.files.journal.time.monotonic", lambda: next(clock))
    with opened(path) as journal:
        grouped = GroupedRecords(journal)
        grouped.append({"number": 1})
        assert journal.records == []
        grouped.append({"number": 2})
        assert [r["number"] for r in journal.records] == [1, 2]
