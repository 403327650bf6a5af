"""Models are found by name in one directory, as it is now, and nothing else is ever opened."""

import os
import shutil

import pytest

import foretell
from foretell.adapters.http.problems import ProblemError
from foretell.adapters.http.shelf import Shelf


@pytest.fixture
def folder(tmp_path, fitted):
    """A directory with one model in a file, and one outside it."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(fitted / "plain.foretell", models / "plain.foretell")
    (tmp_path / "outside").mkdir()
    shutil.copy(fitted / "plain.foretell", tmp_path / "outside" / "best.foretell")
    return models


def kind_of(shelf, name):
    with pytest.raises(ProblemError) as caught:
        shelf.model(name)
    return caught.value.kind


def test_an_output_of_fit_and_a_file_are_models(folder, fitted):
    shutil.copytree(fitted / "sort", folder / "sort")
    assert Shelf(folder).names() == ["plain", "sort"]
    assert Shelf(folder).model("sort").technique == "Ensemble"
    assert Shelf(folder).model("plain").technique == "LRRidge"


def test_an_output_of_fit_is_a_directory_of_models_itself(fitted):
    assert Shelf(fitted / "sort").names() == ["best"]
    assert Shelf(fitted / "sort").model("LogGP").technique == "LogGP"
    assert Shelf(fitted / "sort").model("best").technique == "Ensemble"


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../outside", "..\\outside", "/etc/passwd", "plain.foretell", "plain\0",
        "plain/", "./plain", ".hidden", "a" * 101, "a" * 100_000, "plain\n", "pläin", "~",
        "plain.foretell/..",
    ],
)  # fmt: skip
def test_no_name_leads_anywhere_else(folder, name):
    shutil.copy(folder / "plain.foretell", folder / ".hidden.foretell")
    assert kind_of(Shelf(folder), name) == "unknown-model"


def test_links_are_not_followed(folder):
    outside = folder.parent / "outside"
    (folder / "linked").symlink_to(outside)
    (folder / "file.foretell").symlink_to(outside / "best.foretell")
    (folder / "inner").mkdir()
    (folder / "inner" / "best.foretell").symlink_to(outside / "best.foretell")
    shelf = Shelf(folder)
    assert shelf.names() == ["plain"]
    assert {kind_of(shelf, name) for name in ("linked", "file", "inner")} == {"unknown-model"}


def test_what_is_no_file_is_no_model(folder):
    os.mkfifo(folder / "pipe.foretell")
    (folder / "folder.foretell").mkdir()
    (folder / "empty").mkdir()
    shelf = Shelf(folder)
    assert shelf.names() == ["plain"]
    assert {kind_of(shelf, name) for name in ("pipe", "folder", "empty")} == {"unknown-model"}


def test_a_model_is_read_once_and_again_when_its_file_changes(folder, fitted):
    shelf = Shelf(folder)
    first = shelf.model("plain")
    assert shelf.model("plain") is first
    shutil.copy(fitted / "sort" / "best.foretell", folder / "new")
    (folder / "new").replace(folder / "plain.foretell")
    assert shelf.model("plain").technique == "Ensemble"
    (folder / "plain.foretell").unlink()
    assert kind_of(shelf, "plain") == "unknown-model"
    assert shelf.names() == []


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"PK\x03\x04", b"{}", os.urandom(500)])
def test_a_broken_file_is_a_problem_of_that_model_alone(folder, content):
    (folder / "broken.foretell").write_bytes(content)
    shelf = Shelf(folder)
    assert kind_of(shelf, "broken") == "broken-model"
    assert kind_of(shelf, "broken") == "broken-model"
    assert shelf.model("plain").technique == "LRRidge"
    assert shelf.names() == ["broken", "plain"]
    shutil.copy(folder / "plain.foretell", folder / "broken.foretell")
    assert shelf.model("broken").technique == "LRRidge"


def test_the_message_about_a_broken_file_tells_no_path(folder):
    (folder / "broken.foretell").write_bytes(b"PK\x03\x04")
    with pytest.raises(ProblemError, match="the model 'broken'") as caught:
        Shelf(folder).model("broken")
    assert str(folder) not in caught.value.detail


def test_only_some_models_are_kept(folder):
    for i in range(4):
        shutil.copy(folder / "plain.foretell", folder / f"copy{i}.foretell")
    shelf = Shelf(folder, most=2)
    kept = shelf.model("copy0")
    shelf.model("copy1")
    assert shelf.model("copy0") is kept
    shelf.model("copy2")  # for which copy1 goes
    assert shelf.model("copy0") is kept
    shelf.model("copy1")
    shelf.model("copy2")
    assert shelf.model("copy0") is not kept


def test_a_directory_that_is_gone_is_a_problem(tmp_path):
    shelf = Shelf(tmp_path / "none")
    with pytest.raises(ProblemError):
        shelf.names()
    assert kind_of(shelf, "any") == "unknown-model"


def test_predictions_are_those_of_the_file(folder):
    row = {"size": 10, "nodes": 2}
    loaded = foretell.load_model(folder / "plain.foretell")
    assert Shelf(folder).model("plain").forecast_row(row).value == loaded.forecast_row(row).value
