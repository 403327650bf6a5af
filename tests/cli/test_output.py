"""What verbs print: names from files never act on the terminal, and JSON stays as it is."""

import json

from foretell.cli._output import echo, echo_json, echo_notes


def test_control_characters_are_escaped_and_line_breaks_stay(capsys):
    echo("a\x1b[31m\nb\u202e")
    assert capsys.readouterr().out == "a\\x1b[31m\nb\\u202e\n"


def test_json_is_read_back_whatever_is_in_it(capsys):
    value = {"a\x1b\n": [1.5, None, "é\u202e"]}
    echo_json(value)
    assert json.loads(capsys.readouterr().out) == value


def test_notes_go_to_standard_error_one_line_each(capsys):
    echo_notes(["one\rtwo", "three"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "note: one\\rtwo\nnote: three\n"
