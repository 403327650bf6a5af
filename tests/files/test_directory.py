"""Output directories and files: one writer at a time, whole files, nobody else's overwritten."""

import os
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from foretell.cli._options import flag
from foretell.errors import StorageError
from foretell.files import directory
from foretell.files.directory import claimed, locked, logged, write_new, write_whole
from foretell.files.journal import Journal


@contextmanager
def file_limit(most_bytes):
    """Let no file grow beyond a size: a real limit, which the kernel enforces."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Claims


def test_a_directory_is_made_and_may_be_claimed_again(tmp_path):
    for _ in range(2):
        with claimed(tmp_path / "a" / "b"):
            assert (tmp_path / "a" / "b" / "lock").is_file()
            Journal(tmp_path / "a" / "b" / "journal", {"data": "d"}).close()


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with (
        pytest.raises(StorageError, match=r"thesis\.tex.*nothing is overwritten"),
        claimed(tmp_path),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_journal_of_ours_makes_the_directory_ours(tmp_path):
    (tmp_path / "best.foretell").write_text("a model")
    Journal(tmp_path / "journal", {"data": "d"}).close()
    with claimed(tmp_path):
        pass


@pytest.mark.parametrize(
    "name, words", [("journal", "no journal of foretell"), ("lock", "named pipe")]
)
def test_a_named_pipe_is_neither_a_journal_nor_a_lock_and_not_waited_for(tmp_path, name, words):
    os.mkfifo(tmp_path / name)
    with pytest.raises(StorageError, match=words), claimed(tmp_path):
        pass


def test_a_claim_keeps_other_threads_out_until_it_ends(tmp_path):
    outcomes = []

    def claim():
        try:
            with claimed(tmp_path):
                outcomes.append("claimed")
        except StorageError as error:
            outcomes.append(str(error))

    with claimed(tmp_path):
        thread = threading.Thread(target=claim)
        thread.start()
        thread.join()
    claim()
    assert "another foretell" in outcomes[0] and str(tmp_path) in outcomes[0]
    assert outcomes[1] == "claimed"


CLAIM = """
import sys
from pathlib import Path
from foretell.files.directory import claimed

with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_a_claim_keeps_other_processes_out_and_ends_with_its_process(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_LOCK_WAIT_S", 0.0)
    command = [sys.executable, "-c", CLAIM, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == b"claimed\n"
        with pytest.raises(StorageError, match="another foretell"), claimed(tmp_path):
            pass
        other.kill()
    with claimed(tmp_path):
        pass


def test_remedies_name_the_option_in_each_language(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError) as caught, claimed(tmp_path / "file"):
        pass
    assert str(caught.value).endswith("with output.")
    assert caught.value.worded(flag).endswith("with -o.")
    refused = pytest.raises(StorageError, match="cannot be written: No such file")
    with refused, locked(tmp_path / "none" / "lock", tmp_path):
        pass


# Whole writes


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "results.json"
    write_whole(path, b"old")
    with pytest.raises(StorageError, match="cannot be written: File too large"), file_limit(10):
        write_whole(path, b"x" * 1000)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "results.json"
    versions = [bytes([65 + i]) * 200_000 for i in range(4)]
    write_whole(path, versions[0])
    is_done = threading.Event()

    def write():
        for i in range(40):
            write_whole(path, versions[i % 4])
        is_done.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not is_done.is_set():
            assert path.read_bytes() in versions
    finally:
        thread.join()


def test_a_file_of_the_user_is_kept_unless_forced(tmp_path):
    path = tmp_path / "out.csv"
    write_new(path, b"first", force=False)
    with pytest.raises(StorageError, match="exists already") as caught:
        write_new(path, b"second", force=False)
    assert "--force" in caught.value.worded(flag)
    assert path.read_bytes() == b"first"
    write_new(path, b"second", force=True)
    assert path.read_bytes() == b"second"


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_file_that_cannot_be_is_refused(tmp_path, is_forced):
    with pytest.raises(StorageError, match="is a directory"):
        write_new(tmp_path, b"x", force=is_forced)
    with pytest.raises(StorageError, match="there is no directory"):
        write_new(tmp_path / "none" / "x", b"x", force=is_forced)


# Logs


def test_a_log_grows_with_each_run_and_tells_what_stopped_it(tmp_path):
    path = tmp_path / "log.txt"
    with logged(path) as log:
        log.info("one")
    with pytest.raises(KeyError), logged(path) as log:
        log.info("two")
        raise KeyError("x")
    text = path.read_text()
    assert text.index("one") < text.index("two") < text.index("stopped by KeyError: 'x'")


def test_a_full_disk_does_not_stop_work_for_its_log(tmp_path, capsys):
    with file_limit(0), logged(tmp_path / "log.txt") as log:
        log.info("no room")
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
