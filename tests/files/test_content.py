"""Bounded reading: what has no end is refused, and what has one is read whole."""

import os
import threading
from pathlib import Path

import pytest

from foretell.dataset import read_dataset, read_description
from foretell.errors import DatasetError, ForetellError, ModelError, UsageError
from foretell.files import content
from foretell.files.content import read_content
from foretell.files.text_file import FileKind, read_text
from foretell.model.saved.model import load_model
from foretell.traces import read_trace


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_content(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="100 bytes, more than 99"):
        read_content(path, 99)


@pytest.fixture
def stream():
    """An open pipe, as of ``<(command)`` in a shell, into which a thread writes while it can."""
    open_ends, threads = [], []

    def start(pieces):
        output, own = os.pipe()
        open_ends.append(output)

        def write():
            try:
                with os.fdopen(own, "wb", buffering=0) as file:
                    for piece in pieces:
                        file.write(piece)
            except BrokenPipeError:
                pass

        threads.append(threading.Thread(target=write))
        threads[-1].start()
        return Path(f"/dev/fd/{output}")

    yield start
    for end in open_ends:
        os.close(end)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def endless():
    while True:
        yield b"1,2\n" * 10_000


def test_an_open_stream_is_read_whole_however_it_arrives(stream):
    pieces = [b"a", b"b" * 200_000, b"c"]
    assert read_content(stream(pieces), 10**9) == b"a" + b"b" * 200_000 + b"c"


def test_an_open_stream_without_an_end_is_refused(stream, monkeypatch):
    monkeypatch.setattr(content, "MOST_STREAM_BYTES", 1_000_000)
    with pytest.raises(DatasetError, match="cannot be read: it does not end within 1,000,000"):
        read_dataset(stream(endless()))


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "runs.csv")
    os.mkfifo(tmp_path / "runs.json")
    sweep = FileKind("sweep", "a workload", (".toml",))
    for read in (read_dataset, read_trace, lambda path: read_text(path, sweep)):
        with pytest.raises(ForetellError, match=r"runs\.csv cannot be read: it is a named pipe"):
            read(tmp_path / "runs.csv")
    assert read_description(tmp_path / "runs.csv") == {}


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_is_refused(device):
    with pytest.raises(UsageError, match=f"{device} cannot be read: .* or a device"):
        read_text(Path(device), FileKind("sweep", "a workload", (".toml",)))


def test_a_description_without_an_end_is_ignored(tmp_path):
    (tmp_path / "runs.json").symlink_to("/dev/zero")
    assert read_description(tmp_path / "runs.csv") == {}


def test_a_model_is_a_file_and_no_pipe_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.foretell")
    for path in (tmp_path / "m.foretell", Path("/dev/zero")):
        with pytest.raises(ModelError, match="is a pipe or a device"):
            load_model(path)
