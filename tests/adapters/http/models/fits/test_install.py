"""A new model takes the place of an old one, and a crash at any moment leaves one of them whole."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foretell.adapters.http.models.fits.install import Installer
from foretell.errors import StorageError

#: Installs a new model, and is killed before or after one of the renames.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from foretell.adapters.http.models.fits.install import Installer
models, output, position, is_before = sys.argv[1:]
rename, calls = os.rename, []
def killing(*arguments, **more):
    calls.append(arguments)
    is_this = len(calls) == int(position)
    if is_this and is_before == "True":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*arguments, **more)
    if is_this:
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = killing
Installer(Path(models)).install("sort", Path(output), replace=True)
"""


@pytest.fixture
def place(tmp_path, fitted):
    """A directory in which 'sort' is both an output of a fit and a file, and a new output."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copytree(fitted / "sort", models / "sort")
    shutil.copy(fitted / "plain.foretell", models / "sort.foretell")
    output = models / ".jobs" / "one" / "fit"
    shutil.copytree(fitted / "sort", output)
    shutil.copy(fitted / "plain.foretell", output / "best.foretell")
    return models, output


def models_in(folder):
    """Return the content of the models in a folder, by name."""
    found = {"sort": folder / "sort" / "best.foretell", "file": folder / "sort.foretell"}
    return {name: path.read_bytes() for name, path in found.items() if path.is_file()}


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_whenever_it_is_killed_one_model_is_whole(place, position, is_before):
    models, output = place
    old, new = models_in(models), {"sort": (output / "best.foretell").read_bytes()}
    arguments = [models, output, position, is_before]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *map(str, arguments)], check=False)
    assert done.returncode == -signal.SIGKILL
    is_done = Installer(models).recover("sort", output)
    assert is_done == (position == 3 and not is_before)
    assert models_in(models) == (new if is_done else old)
    assert output.exists() != is_done
    if not is_done:  # and it can be tried again
        Installer(models).install("sort", output, replace=True)
        assert models_in(models) == new


def test_an_error_puts_everything_back(place, monkeypatch):
    models, output = place
    old = models_in(models)
    rename = os.rename

    def failing(source, *rest, **more):
        if Path(source).name == "fit":
            raise OSError(28, "No space left on device")
        rename(source, *rest, **more)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(StorageError, match="No space left"):
        Installer(models).install("sort", output, replace=True)
    assert models_in(models) == old
    assert not (output.parent / "replaced").exists()


def test_without_leave_nothing_is_replaced(place):
    models, output = place
    old = models_in(models)
    with pytest.raises(StorageError, match="'sort'"):
        Installer(models).install("sort", output, replace=False)
    assert models_in(models) == old


def test_what_cannot_be_put_back_is_kept(place):
    models, output = place
    aside = output.parent / "replaced"
    aside.mkdir()
    (models / "sort").rename(aside / "sort")
    (models / "sort").mkdir()  # by somebody else, meanwhile
    (models / "sort" / "thesis.txt").write_text("precious")
    assert not Installer(models).recover("sort", output)
    assert (models / "sort" / "thesis.txt").read_text() == "precious"
    assert (aside / "sort" / "best.foretell").exists()


@pytest.mark.parametrize("kind", ["missing", "pipe", "link", "folder"])
def test_a_folder_without_a_journal_of_its_own_is_not_replaced(place, kind):
    models, output = place
    (models / "sort.foretell").unlink()
    journal = models / "sort" / "journal"
    journal.unlink()
    if kind == "pipe":  # nobody writes to it, so opening it the usual way never ends
        os.mkfifo(journal)
    elif kind == "link":
        journal.symlink_to(output / "journal")
    elif kind == "folder":
        journal.mkdir()
    old = models_in(models)
    with pytest.raises(StorageError, match="not the output of a fit"):
        Installer(models).check_replaceable("sort")
    with pytest.raises(StorageError, match="not the output of a fit"):
        Installer(models).install("sort", output, replace=True)
    assert models_in(models) == old
    assert output.is_dir()
