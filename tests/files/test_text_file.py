"""Text files and typed descriptions: what is read, and what is said when it cannot be."""

import pydantic
import pytest

from foretell.errors import UsageError
from foretell.files.text_file import FileKind, near_file, read_text, read_toml_file
from foretell.files.typed import read_typed

RECIPE = FileKind("recipe", "a title", (".toml",))


class Step(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    minutes: int = pydantic.Field(ge=1)


class Recipe(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    title: str
    steps: list[Step] = []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recipe.toml"


def test_text_is_read_without_byte_order_mark_and_windows_line_ends(path):
    path.write_bytes("\ufefftitle = 'Crêpes'\r\n".encode())
    assert read_text(path, RECIPE) == "title = 'Crêpes'\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty", "a title"]),
        (b" \n\t", ["is empty"]),
        (b"title = 'a'\nx = '\xff'", ["line 2", "UTF-8"]),
        (b"title = '\0'", ["not a text file"]),
    ],
)
def test_what_is_not_text_is_refused_with_its_reason(path, content, words):
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_text(path, RECIPE)
    assert all(word in str(caught.value) for word in [str(path), "recipe", *words])


def test_a_missing_file_is_told_with_the_nearest_one(path):
    path.write_text("title = 'a'")
    with pytest.raises(UsageError, match=r"no recipe file .*Did you mean '.*recipe\.toml'"):
        read_text(path.with_name("recipes.toml"), RECIPE)
    assert near_file(path.with_name("zzz")) == ""
    assert "no directory" in near_file(path.parent / "none" / "x")


def test_a_directory_is_told_with_a_file_inside(path):
    path.write_text("title = 'a'")
    with pytest.raises(UsageError, match=r"is a directory, .*such as .*recipe\.toml"):
        read_text(path.parent, RECIPE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = ", "not valid TOML"),
        (f"title = {'9' * 5000}", "not valid TOML"),
        (f"title = {'[' * 5000}", "too deeply"),
    ],
)
def test_what_is_not_toml_is_refused(path, text, words):
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_toml_file(path, RECIPE)


def test_a_file_a_dict_and_an_instance_give_the_same(path):
    path.write_text("title = 'a'\n[[steps]]\nminutes = 3\n")
    expected = Recipe(title="a", steps=[Step(minutes=3)])
    assert read_typed(path, Recipe, RECIPE) == expected
    assert read_typed(str(path), Recipe, RECIPE) == expected
    assert read_typed({"title": "a", "steps": [{"minutes": 3}]}, Recipe, RECIPE) == expected
    assert read_typed(expected, Recipe, RECIPE) is expected


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"titel": "a"}, ["'titel'", "'title'?"]),
        ({"title": 3}, ["title", "a text in quotes", "3"]),
        (
            {"title": "a", "steps": [{"minutes": 1}, {"minutes": 0}]},
            ["steps[1].minutes", "at least 1", "0"],
        ),
        (
            {"title": "a", "steps": [{"minutes": "x"}]},
            ["steps[0].minutes", "a whole number", "'x'"],
        ),
        ({"title": "a", "steps": "x"}, ["steps", "a list", '["x"]']),
        ({}, ["title", "missing"]),
    ],
)
def test_a_fault_is_told_with_place_rule_and_value(values, words):
    with pytest.raises(UsageError) as caught:
        read_typed(values, Recipe, RECIPE)
    assert all(word in str(caught.value) for word in ["recipe", *words]), str(caught.value)
