"""Models are found by name in one directory, as it is now, and nothing else is ever opened."""

import os
import shutil

import pytest

import foretell
from foretell.adapters.http.models.store import ModelStore
from foretell.adapters.http.server.problems import ProblemError


@pytest.fixture
def folder(tmp_path, fitted):
    """A directory with one model in a file, and one outside it."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(fitted / "plain.foretell", models / "plain.foretell")
    (tmp_path / "outside").mkdir()
    shutil.copy(fitted / "plain.foretell", tmp_path / "outside" / "best.foretell")
    return models


def kind_of(store, name):
    with pytest.raises(ProblemError) as caught:
        store.model(name)
    return caught.value.kind.name


def test_an_output_of_fit_and_a_file_are_models(folder, fitted):
    shutil.copytree(fitted / "sort", folder / "sort")
    assert ModelStore(folder).names() == ["plain", "sort"]
    assert ModelStore(folder).model("sort").technique == "Ensemble"
    assert ModelStore(folder).model("plain").technique == "LRRidge"


def test_an_output_of_fit_is_a_directory_of_models_itself(fitted):
    assert ModelStore(fitted / "sort").names() == ["best"]
    assert ModelStore(fitted / "sort").model("LogGP").technique == "LogGP"
    assert ModelStore(fitted / "sort").model("best").technique == "Ensemble"


def test_a_model_called_best_hides_no_other_model(folder, fitted):
    shutil.copytree(fitted / "sort", folder / "best")
    assert ModelStore(folder).names() == ["best", "plain"]
    shutil.copy(folder / "plain.foretell", folder / "best.foretell")
    assert ModelStore(folder).names() == ["best", "plain"]


def test_a_fit_in_the_output_of_another_fit_is_listed(tmp_path, fitted):
    shutil.copytree(fitted / "sort", tmp_path / "sort")
    shutil.copytree(fitted / "sort", tmp_path / "sort" / "new")
    assert ModelStore(tmp_path / "sort").names() == ["best", "new"]


def test_the_runs_beside_a_model_are_those_that_its_fit_left(folder, fitted):
    shutil.copytree(fitted / "sort", folder / "sort")
    runs = (fitted / "sort" / "runs.csv").read_bytes()
    (folder / "runs.csv").write_text("of nobody knows what")
    store = ModelStore(folder)
    assert store.runs("sort") == runs
    assert store.runs("plain") is None
    assert ModelStore(folder / "sort").runs("best") == runs
    assert ModelStore(folder / "sort").runs("LogGP") is None
    (folder / "sort" / "runs.csv").unlink()
    (folder / "sort" / "runs.csv").symlink_to(fitted / "sort" / "runs.csv")
    assert store.runs("sort") is None


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
    assert kind_of(ModelStore(folder), name) == "unknown-model"


def test_links_are_not_followed(folder):
    outside = folder.parent / "outside"
    (folder / "linked").symlink_to(outside)
    (folder / "file.foretell").symlink_to(outside / "best.foretell")
    (folder / "inner").mkdir()
    (folder / "inner" / "best.foretell").symlink_to(outside / "best.foretell")
    store = ModelStore(folder)
    assert store.names() == ["plain"]
    assert {kind_of(store, name) for name in ("linked", "file", "inner")} == {"unknown-model"}


def test_what_is_no_file_is_no_model(folder):
    os.mkfifo(folder / "pipe.foretell")
    (folder / "folder.foretell").mkdir()
    (folder / "empty").mkdir()
    store = ModelStore(folder)
    assert store.names() == ["plain"]
    assert {kind_of(store, name) for name in ("pipe", "folder", "empty")} == {"unknown-model"}


def test_a_model_is_read_once_and_again_when_its_file_changes(folder, fitted):
    store = ModelStore(folder)
    first = store.model("plain")
    assert store.model("plain") is first
    shutil.copy(fitted / "sort" / "best.foretell", folder / "new")
    (folder / "new").replace(folder / "plain.foretell")
    assert store.model("plain").technique == "Ensemble"
    (folder / "plain.foretell").unlink()
    assert kind_of(store, "plain") == "unknown-model"
    assert store.names() == []


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"PK\x03\x04", b"{}", os.urandom(500)])
def test_a_broken_file_is_a_problem_of_that_model_alone(folder, content):
    (folder / "broken.foretell").write_bytes(content)
    store = ModelStore(folder)
    assert kind_of(store, "broken") == "broken-model"
    assert kind_of(store, "broken") == "broken-model"
    assert store.model("plain").technique == "LRRidge"
    assert store.names() == ["broken", "plain"]
    shutil.copy(folder / "plain.foretell", folder / "broken.foretell")
    assert store.model("broken").technique == "LRRidge"


def test_the_message_about_a_broken_file_tells_no_path(folder):
    (folder / "broken.foretell").write_bytes(b"PK\x03\x04")
    with pytest.raises(ProblemError, match="the model 'broken'") as caught:
        ModelStore(folder).model("broken")
    assert str(folder) not in str(caught.value)


def test_only_some_models_are_kept(folder):
    for i in range(4):
        shutil.copy(folder / "plain.foretell", folder / f"copy{i}.foretell")
    store = ModelStore(folder, max_models=2)
    kept = store.model("copy0")
    store.model("copy1")
    assert store.model("copy0") is kept
    store.model("copy2")  # for which copy1 goes
    assert store.model("copy0") is kept
    store.model("copy1")
    store.model("copy2")
    assert store.model("copy0") is not kept


def test_a_directory_that_is_gone_is_a_problem(tmp_path):
    store = ModelStore(tmp_path / "none")
    with pytest.raises(ProblemError):
        store.names()
    assert kind_of(store, "any") == "unknown-model"


def test_predictions_are_those_of_the_file(folder):
    row = {"size": 10, "nodes": 2}
    loaded = foretell.load_model(folder / "plain.foretell")
    assert (
        ModelStore(folder).model("plain").forecast_row(row).value == loaded.forecast_row(row).value
    )
