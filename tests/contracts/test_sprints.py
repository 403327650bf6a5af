"""What every sprint mechanism must do: tell beforehand what it changes, and undo it anywhere."""

import json

import pytest

from foretell.adapters.dispatcher.sprints import SPRINTS
from foretell.errors import UsageError

SETTINGS = {
    "quota": {"base_cpus": 0.5, "sprint_cpus": 1},
    "command": {"on": ["true"], "off": ["true"]},
}


@pytest.fixture(params=SPRINTS.names())
def sprint(request):
    found = SPRINTS.get(request.param)(SETTINGS.get(request.param, {}))
    if found.refusal() not in (None, "the mechanism is 'none'"):
        pytest.skip(found.refusal())
    return found


def test_what_has_to_be_put_back_is_known_before_and_can_be_written_down(sprint):
    before = sprint.base()
    assert json.loads(json.dumps(before)) == before
    sprint.open()
    try:
        sprint.start([])
        assert sprint.base() == before
    finally:
        sprint.close()


def test_another_process_can_put_it_back_from_what_was_written_more_than_once(sprint):
    written = json.dumps(sprint.base())
    sprint.open()
    sprint.start([])
    for _ in range(2):
        type(sprint).restore(json.loads(written))


@pytest.mark.parametrize("name", [n for n in SPRINTS.names() if n != "none"])
def test_unknown_settings_are_refused(name):
    with pytest.raises(UsageError, match="colour"):
        SPRINTS.get(name)({**SETTINGS.get(name, {}), "colour": "red"})
