"""The folder of a sweep on a node that does not have it."""

import os
import shutil

import pytest

from foretell.measure.running import packed_folder
from foretell.measure.running.packed_folder import PackedFolder
from foretell.measure.workloads import load_workload


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a script, a module and things that no job needs."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    folder = tmp_path / "study"
    (folder / "data").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (folder / ".env").write_text("secret")
    (folder / "data" / "input.txt").write_text("seven")
    (folder / "job.sh").write_text("#!/bin/sh\nexit 0\n")
    (folder / "job.sh").chmod(0o755)
    (folder / "shipped_job.py").write_text("def work(n):\n    return {'m': n + 1}\n")
    return folder


def test_folder_that_is_there_is_used_as_it_is(folder):
    assert PackedFolder.of(folder).folder() == folder


def test_folder_that_is_not_there_is_unpacked_once_without_hidden_files(folder):
    packed = PackedFolder.of(folder)
    shutil.rmtree(folder)
    copy = packed.folder()
    assert packed.folder() == copy != folder
    assert sorted(p.name for p in copy.rglob("*")) == [
        "data", "input.txt", "job.sh", "shipped_job.py"
    ]  # fmt: skip
    assert (copy / "data" / "input.txt").read_text() == "seven"
    assert os.access(copy / "job.sh", os.X_OK)
    assert copy.stat().st_mode & 0o077 == 0  # it is nobody else's business
    load_workload({"use": "python", "call": "shipped_job:work"}, copy)


def test_another_folder_of_the_same_path_is_not_mistaken_for_it(folder):
    packed = PackedFolder.of(folder)
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    assert (packed.folder() / "job.sh").exists()


@pytest.mark.parametrize("limit", [("MOST_BYTES", 10), ("MOST_FILES", 2)])
def test_large_folder_is_not_sent(folder, monkeypatch, limit):
    monkeypatch.setattr(packed_folder, *limit)
    packed = PackedFolder.of(folder)
    assert packed.packed is None
    shutil.rmtree(folder)
    assert packed.folder() is None
