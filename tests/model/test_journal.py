"""The journal: what was appended is there again, whatever happened; what cannot be, is refused."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretell
from foretell import fit_model
from foretell.errors import StorageError
from foretell.files.journal import Journal, decode, encode, is_journal
from foretell.model.campaigns import read_campaign
from foretell.model.fingerprint import fingerprint

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


def test_last_line_cut_anywhere_costs_that_record_alone(path):
    written = [{"kind": "trial", "number": n, "text": "ü" * n} for n in range(3)]
    with opened(path) as journal:
        journal.append(written)
    content = path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for length in range(last, len(content) + 1):
        path.write_bytes(content[:length])
        with opened(path) as journal:
            assert journal.records == (written if length == len(content) else written[:-1])
            journal.append([{"kind": "more"}])
        with opened(path) as journal:
            assert journal.records[-1] == {"kind": "more"}


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
    with pytest.raises(StorageError, match=f"holds results from {words}"):
        opened(path)
    path.write_bytes(content + b"half a li")
    with pytest.raises(StorageError, match=f"holds results from {words}"):
        opened(path)
    assert path.read_bytes() == content + b"half a li"


def test_fingerprint_depends_on_values_columns_and_campaign_but_not_on_where_the_table_lies():
    source = {"data": {"target": "y", "path": "a.csv"}, "techniques": {"LRRidge": {}}}
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    one = fingerprint(read_campaign(source), frame)
    assert fingerprint(read_campaign(source), frame.copy()) == one
    moved = {**source, "data": {"target": "y", "path": "elsewhere/a.csv"}}
    assert fingerprint(read_campaign(moved), frame) == one
    for other in (
        frame.assign(x=[1.0, 2.5]),
        frame.rename(columns={"x": "z"}),
        frame[::-1].reset_index(drop=True),
        frame[["y", "x"]],
        frame.assign(w=0),
    ):
        found = fingerprint(read_campaign(source), other)
        assert {k for k in one if found[k] != one[k]} == {"data"}
    found = fingerprint(read_campaign({**source, "seed": 1}), frame)
    assert {k for k in one if found[k] != one[k]} == {"campaign"}


SMALL = {
    "data": {"target": "time_s"},
    "search": {"splits": {"method": "HoldOut", "ratio": 0.3}},
    "techniques": {"LRRidge": {"alpha": [0.1, 1]}},
}


def test_other_data_or_campaign_in_the_same_directory_is_refused(runs, tmp_path, outcome):
    output = tmp_path / "out"
    fit_model(SMALL, runs, output=output)
    expected = outcome(output)
    with pytest.raises(StorageError, match="other data"):
        fit_model(SMALL, runs.head(50), output=output)
    with pytest.raises(StorageError, match="another campaign"):
        fit_model({**SMALL, "score": "rmse"}, runs, output=output)
    with pytest.raises(StorageError, match="another campaign"):
        fit_model(SMALL, runs, output=output, seed=5)
    assert outcome(output) == expected


def edited(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_journal_is_continued_after_an_edit_of_words_and_refused_after_one_of_numbers(
    runs, tmp_path
):
    package = tmp_path / "src" / "foretell"
    shutil.copytree(Path(foretell.__file__).parent, package)
    runs.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    call = (
        "import foretell, json; "
        "foretell.fit_model(json.load(open('small.json')), 'runs.csv', output='out')"
    )

    def run():
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        command = [sys.executable, "-c", call]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    first = run()
    assert first.returncode == 0, first.stderr
    journal = (tmp_path / "out" / "journal").read_bytes()
    edited(package / "model" / "learner.py", '"""', '"""In other words: ')
    again = run()
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out" / "journal").read_bytes() == journal
    version = package / "_version.py"
    edited(version, "RESULTS_VERSION = ", "RESULTS_VERSION = 1")
    refused = run()
    assert "StorageError" in refused.stderr
    assert "results version" in refused.stderr and "another place" in refused.stderr
    assert (tmp_path / "out" / "journal").read_bytes() == journal


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


@pytest.mark.slow
@pytest.mark.parametrize("most_bytes", [220, 20_000])
def test_run_that_hits_a_file_size_limit_stops_cleanly_and_continues_with_room(
    most_bytes, foretell, fit_arguments, campaign_directory, expected, outcome
):
    run = foretell(*fit_arguments("out", 2), most_file_bytes=most_bytes)
    assert run.wait() == 2, run.text
    assert run.text.count("\n") == 1, run.text
    assert run.text.startswith("error: out/")
    assert "cannot be written: File too large" in run.text
    assert run.leaves_nobody_behind()
    again = foretell(*fit_arguments("out", 1))
    assert again.wait() == 0, again.text
    assert outcome(campaign_directory / "out") == expected


_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$SIZE none disk || exit 77
"$@" >first.txt 2>&1; echo $? >first.code; df --output=avail disk | tail -1 >room
mount -o remount,size=20m disk || exit 77
"$@" >second.txt 2>&1; echo $? >second.code
cp -r disk/out out
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a disk of its own")
@pytest.mark.parametrize("size", ["4k", "60k", "96k"])
def test_run_on_a_disk_that_fills_up_stops_cleanly_and_continues_with_room(
    size, campaign_directory, fit_arguments, expected, outcome
):
    (campaign_directory / "disk").mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", _ON_A_SMALL_DISK, "sh"]
    command += [sys.executable, "-m", "foretell", *map(str, fit_arguments("disk/out", 1))]
    environment = {**os.environ, "SIZE": size}
    done = subprocess.run(
        command, cwd=campaign_directory, env=environment, capture_output=True, timeout=120
    )
    if done.returncode == 77 or b"unshare" in done.stderr:
        pytest.skip("may not mount a disk here")
    told = (campaign_directory / "first.txt").read_text()
    assert (campaign_directory / "first.code").read_text() == "2\n", told
    assert told.startswith("error: ") and told.count("\n") == 1, told
    assert "No space left on device" in told
    told = (campaign_directory / "second.txt").read_text()
    assert (campaign_directory / "second.code").read_text() == "0\n", told
    assert outcome(campaign_directory / "out") == expected
