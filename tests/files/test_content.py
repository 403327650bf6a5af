"""Bounded reading: what has no end is refused, and what has one is read whole."""

import os
import threading
from pathlib import Path

import pytest

from foretell.dataset import read_dataset, read_description
from foretell.errors import DatasetError, ModelError, UsageError
from foretell.files import content
from foretell.files.content import read_content
from foretell.files.text_file import FileKind, read_text
from foretell.model.saved.model import load_model


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_content(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="100 bytes, more than 99"):
        read_content(path, 99)


@pytest.fixture
def pipe(tmp_path):
    """A named pipe into which a thread writes as long as somebody reads."""
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    threads = []

    def start(pieces):
        def write():
            try:
                with path.open("wb", buffering=0) as file:
                    for piece in pieces:
                        file.write(piece)
            except BrokenPipeError:
                pass

        threads.append(threading.Thread(target=write))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def endless():
    while True:
        yield b"1,2\n" * 10_000


def test_a_pipe_is_read_whole_however_it_arrives(pipe):
    assert read_content(pipe([b"a", b"b" * 200_000, b"c"]), 10**9) == b"a" + b"b" * 200_000 + b"c"


def test_a_pipe_without_an_end_is_refused(pipe, monkeypatch):
    monkeypatch.setattr(content, "MOST_STREAM_BYTES", 1_000_000)
    with pytest.raises(
        DatasetError, match=r"pipe\.csv cannot be read: it does not end within 1,000,000"
    ):
        read_dataset(pipe(endless()))


def test_a_device_is_read_no_further_than_a_small_limit():
    with pytest.raises(UsageError, match="/dev/urandom cannot be read: it does not end"):
        read_text(Path("/dev/urandom"), FileKind("sweep", "a workload", (".toml",)))


def test_a_description_without_an_end_is_ignored(tmp_path):
    (tmp_path / "runs.json").symlink_to("/dev/zero")
    assert read_description(tmp_path / "runs.csv") == {}


def test_a_model_is_a_file_and_no_pipe_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.foretell")
    for path in (tmp_path / "m.foretell", Path("/dev/zero")):
        with pytest.raises(ModelError, match="is a pipe or a device"):
            load_model(path)
