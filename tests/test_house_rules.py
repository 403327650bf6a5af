"""The house rules that a machine can check: sizes, no pickles, and who may speak of flags."""

import ast
import re
from pathlib import Path

import pytest

import foretell

ROOT = Path(foretell.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]


def every_module(test):
    return pytest.mark.parametrize("path", SOURCES, ids=NAMES)(test)


def long_functions(source):
    """List the functions whose body is longer than 50 lines, without its docstring."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and node.body[1:] else node.body[0]
            if node.end_lineno - first.lineno >= 50:
                found.append(node.name)
    return found


@every_module
def test_module_is_at_most_500_lines(path):
    assert len(path.read_text().splitlines()) <= 500


@every_module
def test_no_function_body_is_longer_than_50_lines(path):
    assert long_functions(path.read_text()) == []


@pytest.mark.parametrize("start", ["def", "async def"])
def test_long_functions_are_found_whatever_they_are(start):
    lines = "\n".join(["    x = 1"] * 51)
    assert long_functions(f'{start} short():\n    """Purpose."""\n    x = 1\n') == []
    assert long_functions(f'{start} long():\n    """Purpose."""\n{lines}\n') == ["long"]


PICKLERS = {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}


@every_module
def test_nothing_is_unpickled(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not PICKLERS & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in PICKLERS
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


# The library speaks Python: only cli/ writes options as flags.

FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]+|-o)(?![\w-])")
#: Programs of others, whose options are theirs to name.
PROGRAMS = re.compile(r"\b(ray start|openssl)\b|^--conf |var\(--")  # --conf is Spark's; var is CSS


def flags_in(source):
    """List the flags in the texts of a module; docstrings and calls of programs are no texts."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }
    lists = {id(e) for n in ast.walk(tree) if isinstance(n, ast.List | ast.Tuple) for e in n.elts}
    found = []
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if not is_text or id(node) in docstrings or PROGRAMS.search(node.value):
            continue
        is_word = id(node) in lists and FLAG.fullmatch(node.value)
        found += [] if is_word else FLAG.findall(node.value)
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('raise UsageError("add --force")', ["--force"]),
        ('raise UsageError(f"{path} exists; give another place with -o.")', ["-o"]),
        ('raise UsageError(f"--vary {name}=...: no such column")', ["--vary"]),
        ('"""`fit --target` reads it."""', []),
        ('command = ["perf", "stat", "--no-big-num"]', []),
        ('text = "start one with: ray start --head"', []),
        ('line = "a -- b, well-known, x--y"', []),
        ('color = "var(--paper)"', []),
    ],
)
def test_flags_are_found_in_texts_and_nowhere_else(source, expected):
    assert flags_in(source) == expected


def test_no_module_outside_the_command_line_writes_flags():
    offenders = {
        name: flags
        for name, path in zip(NAMES, SOURCES, strict=True)
        if not name.startswith("cli/") and (flags := flags_in(path.read_text()))
    }
    assert offenders == {}


def test_verbs_print_through_one_module_which_escapes_control_characters():
    offenders = {
        path.name: path.read_text().count("click.echo(")
        for path in (ROOT / "cli").glob("*.py")
        if path.name != "_output.py" and "click.echo(" in path.read_text()
    }
    assert offenders == {}
