"""Problems carry the option and the remedy of an error, written as in a JSON body."""

import json

import pytest

from foretell.adapters.http.server.problems import BUSY, Kind, ProblemError, in_json
from foretell.errors import Option, UsageError


def shown(error):
    return json.loads(ProblemError.of(error).to_bytes())


def test_an_error_of_the_library_is_worded_for_json():
    error = UsageError(
        "30 is money, which needs prices",
        option=Option("max_energy", "30"),
        remedy=("write an energy as ", Option("max_energy", "30kJ"), ", or add ", Option("prices")),
    )
    problem = shown(error)
    assert problem["status"] == 422 and problem["type"] == "urn:foretell:problem:wrong-input"
    assert problem["option"] == "max_energy"
    assert problem["remedy"] == 'write an energy as "max_energy": "30kJ", or add prices'
    assert problem["detail"] == f"max_energy: 30 is money, which needs prices; {problem['remedy']}"
    assert "--" in error.worded(lambda option: f"--{option.name}")  # the error itself is unchanged


def test_an_entry_of_a_mapping_is_a_place_and_a_part_of_an_object():
    error = UsageError("is missing", option=Option("fix", key="nodes"),
                       remedy=("add ", Option("fix", "8", key="nodes")))  # fmt: skip
    assert shown(error)["option"] == "fix.nodes"
    assert shown(error)["remedy"] == 'add "fix": {"nodes": 8}'


@pytest.mark.parametrize(
    ("value", "written"),
    [("8", "8"), ("1.5", "1.5"), ("5s", '"5s"'), ('a "b"', '"a \\"b\\""'), ("...", "..."),
     ("nodes >= 2", '"nodes >= 2"')],
)  # fmt: skip
def test_values_are_written_as_json(value, written):
    assert in_json(Option("a", value)) == f'"a": {written}'


def test_what_is_not_known_is_left_out_and_long_texts_are_cut():
    problem = json.loads(ProblemError(BUSY, "x" * 10_000).to_bytes())
    assert set(problem) == {"type", "title", "status", "detail"}
    assert len(problem["detail"]) == 2_000


def test_an_application_can_add_kinds_of_its_own():
    problem = ProblemError(Kind("no-room", 507, "There is no room"), "wait")
    assert json.loads(problem.to_bytes())["status"] == 507


def test_a_problem_can_be_placed_elsewhere_and_stays_a_problem():
    problem = ProblemError(BUSY, "try again", at=("rows[0]",), headers={"Retry-After": "1"})
    placed = problem.placed("rows[1]", "size")
    assert (placed.kind, placed.headers) == (BUSY, {"Retry-After": "1"})
    assert str(placed) == "rows[1].size: try again"
    assert str(problem) == "rows[0]: try again"
