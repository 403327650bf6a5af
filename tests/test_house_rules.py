"""The size budget: a module fits on a few screens, a function does one thing."""

import ast
from pathlib import Path

import pytest

import foretell

SOURCES = sorted(Path(foretell.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_module_is_at_most_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_no_function_body_is_longer_than_50_lines(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and node.body[1:] else node.body[0]
            assert node.end_lineno - first.lineno < 50, f"{path.name}: {node.name}"


PICKLERS = {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_nothing_is_unpickled(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not PICKLERS & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in PICKLERS
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False
