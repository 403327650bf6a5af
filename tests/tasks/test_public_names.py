"""The public module of tasks: which names there are, and that each is described."""

import re
from pathlib import Path

import pytest

import foretell.tasks

ROOT = Path(__file__).parents[2]


def test_public_names_are_those_we_promise():
    assert set(foretell.tasks.__all__) == {
        "DependencyFailed", "EnclaveMissing", "Graph", "GraphForecast", "IntegrityError",
        "OwnerKey", "SandboxMissing", "Sealed", "Task", "TaskError", "UndeclaredWrite",
        "WorkerLost", "foresee", "task",
    }  # fmt: skip


@pytest.mark.parametrize("name", foretell.tasks.__all__)
def test_every_name_is_there_and_described(name):
    assert getattr(foretell.tasks, name).__name__ == name
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert re.search(rf"`[^`]*\b{name}\b", page.partition("## foretell.tasks")[2])


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(foretell.tasks, "forsee")
