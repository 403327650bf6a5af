"""What is missing in a file, and how to write it."""

from typing import Literal

import pydantic
import pytest

from foretell.decide.queueing.queue_file import read_queue
from foretell.errors import UsageError
from foretell.files.typed import validated


class Inner(pydantic.BaseModel):
    size: int
    parts: list["Inner"] = []


class Shape(pydantic.BaseModel):
    table: Inner
    tables: list[Inner]
    by_name: dict[str, Inner]
    whole: int
    share: float
    text: str
    is_on: bool
    texts: list[str]
    kind: Literal["fast", "slow"]


WHOLE = {
    "table": {"size": 1}, "tables": [], "by_name": {}, "whole": 1, "share": 0.5, "text": "a",
    "is_on": True, "texts": [], "kind": "slow",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("table", "write it as a table [table]"),
        ("tables", "write it as tables [[tables]]"),
        ("by_name", "write it as a table [by_name]"),
        ("whole", "write it, such as whole = 1"),
        ("share", "write it, such as share = 1"),
        ("text", 'write it, such as text = "..."'),
        ("is_on", "write it, such as is_on = true"),
        ("texts", "write it, such as texts = [...]"),
        ("kind", 'write it, such as kind = "fast"'),
    ],
)
def test_remedy_for_a_missing_entry_is_of_its_type(name, remedy):
    values = {key: value for key, value in WHOLE.items() if key != name}
    with pytest.raises(UsageError) as error:
        validated(Shape, values)
    assert str(error.value) == f"{name}: is required and missing; {remedy}"


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"table": {}}, "under [table], such as size = 1"),
        ({"tables": [{}]}, "under [[tables]], such as size = 1"),
        ({"tables": [{"size": 1, "parts": [{}]}]}, "under [[tables.parts]], such as size = 1"),
        ({"by_name": {"a": {}}}, "under [by_name.a], such as size = 1"),
    ],
)
def test_remedy_for_a_missing_entry_of_a_table_names_the_table(values, remedy):
    with pytest.raises(UsageError) as error:
        validated(Shape, WHOLE | values)
    assert str(error.value).endswith(f"is required and missing; write it {remedy}")


def test_class_file_without_a_class_is_told_to_write_one_in_two_brackets():
    with pytest.raises(UsageError, match=r"class: .*\[\[class\]\]"):
        read_queue({"slots": 2})


def test_number_that_a_sprint_mechanism_needs_is_no_table():
    from foretell.adapters.dispatcher.sprints.quota import Options

    with pytest.raises(UsageError, match=r"sprint.settings.base_cpus: .*base_cpus = 1"):
        validated(Options, {}, "sprint", "settings")


def test_unknown_key_of_a_stage_is_named():
    stage = {"tasks": 1, "task_s": 1, "task": 2}
    job = {"name": "a", "rate_per_s": 1, "stages": [stage]}
    with pytest.raises(UsageError, match=r"unknown option 'task'"):
        read_queue({"slots": 2, "class": [job]})
