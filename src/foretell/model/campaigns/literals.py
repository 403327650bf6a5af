"""Reads values written as text: Python literals, and lists and tables of unquoted words.

``['x1', 2]``, ``[x1, 2]``, ``{nodes: [4, 8]}``, ``[loguniform(0.1, 1), 3]``, ``TRUE`` and ``*``
are all values. An unquoted word becomes a number, true, false or none if it looks like one;
a caller that wants names calls ``read_tree``, which keeps the words as written.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

_CLOSING = {"[": "]", "{": "}", "(": ")"}
_QUOTES = "'\""
_WORDS = {"true": True, "false": False, "none": None}
# Real values nest two or three levels deep; the limit stops hostile input.
_DEEPEST = 50


class Bare(str):
    """A word that was written without quotes."""

    __slots__ = ()


def read_value(text: str) -> Any:
    """Read a value; raise ValueError if a list or a table is malformed.

    >>> read_value("[1, 2.5, abc, TRUE, None]")
    [1, 2.5, 'abc', True, None]
    >>> read_value("{x1: 5, 'x2': [1, 2],}")
    {'x1': 5, 'x2': [1, 2]}
    >>> read_value("loguniform(0.01, 1)")
    'loguniform(0.01, 1)'
    """
    return plain(read_tree(text))


def read_tree(text: str) -> Any:
    """Read lists and tables, and leave every unquoted word as ``Bare``.

    >>> read_tree("[007, '1e3', ]")
    ['007', '1e3']
    """
    text = text.strip()
    if isinstance(_literal(text), tuple) and not text.startswith("("):
        text = f"[{text}]"  # 1, 2 without brackets is a list, as in Python
    scanner = _Scanner(text)
    value = scanner.value(stops="")
    if not scanner.is_at_end():
        raise ValueError(f"{scanner.rest()!r} follows the end of the value")
    return value


def plain(tree: Any) -> Any:
    """Replace every unquoted word by its value."""
    if isinstance(tree, Bare):
        return _word(tree)
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    if isinstance(tree, dict):
        return {plain_name(key): plain(value) for key, value in tree.items()}
    return tree


def plain_name(word: Any) -> str:
    """Return a name as written, without its quotes: ``1e3`` stays ``1e3``."""
    text = str(word)
    literal = _literal(text) if isinstance(word, Bare) else None
    return literal if isinstance(literal, str) else text


def without_comment(line: str) -> str:
    """Cut a line at the first unquoted ``#`` or ``;`` that follows white space.

    >>> without_comment("[1, 'a # b']  # both")
    "[1, 'a # b']"
    """
    position = 0
    while position < len(line):
        if line[position] in "#;" and not line[:position].strip():
            return ""
        if line[position] in "#;" and line[position - 1].isspace():
            return line[:position].rstrip()
        position = _skip_quoted(line, position) or position + 1
    return line


def _word(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    literal = _literal(text)
    return str(text) if literal is None else literal


def _literal(text: str) -> Any:
    """Evaluate a Python literal of a type that campaigns use; None for anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Windows paths contain unknown escapes
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str | int | float | tuple) else None


def _skip_quoted(text: str, start: int) -> int | None:
    """Return where the quoted text that starts here ends; None if there is none."""
    if text[start] not in _QUOTES or (start and text[start - 1] not in " \t\n[{(,:="):
        return None
    position = start + 1
    while position < len(text):
        if text[position] == text[start]:
            return position + 1
        position += 2 if text[position] == "\\" else 1
    return None


class _Scanner:
    """Reads one value after another from text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def is_at_end(self) -> bool:
        return self._next() == ""

    def rest(self) -> str:
        return self._text[self._at :]

    def value(self, *, stops: str) -> Any:
        """Read a value; an unquoted word ends before one of the characters in ``stops``."""
        first, start = self._next(), self._at
        if first and first in _CLOSING:
            return self._collection(first)
        end = _skip_quoted(self._text, start) if first else None
        if end is not None:
            self._at = end
            if self.is_at_end() or self._next() in stops:
                literal = _literal(self._text[start:end])
                return literal if isinstance(literal, str) else self._text[start + 1 : end - 1]
            self._at = start  # 'a' 'b', which Python concatenates
        return self._word(stops)

    def _collection(self, opening: str) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        closing = _CLOSING[opening]
        self._at += 1
        names: list[str | None] = []
        values: list[Any] = []
        has_comma = True
        while not self._take(closing):
            if not has_comma:
                missing = f"before {self.rest()!r}" if self.rest() else "at the end"
                raise ValueError(f"',' or '{closing}' is missing {missing}")
            name, value = self._item(opening, closing)
            names.append(name)
            values.append(value)
            has_comma = self._take(",")
        self._depth -= 1
        if opening == "(" and len(values) == 1 and not has_comma:
            return values[0]
        return _table(names, values) if opening == "{" else values

    def _item(self, opening: str, closing: str) -> tuple[str | None, Any]:
        value = self.value(stops=f",{closing}:" if opening == "{" else f",{closing}")
        if opening != "{" or not self._take(":"):
            name = None
        else:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} is not a name; write a table as {{name: value}}")
            name, value = value, self.value(stops=f",{closing}")
        if value == "" and isinstance(value, Bare):
            raise ValueError("a value is missing beside a comma or colon")
        return name, value

    def _word(self, stops: str) -> Bare:
        """Read a word; commas inside its brackets, as in a prior, do not end it."""
        start = self._at
        expected: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if not expected and character in stops:
                break
            if character in _CLOSING:
                expected.append(_CLOSING[character])
            elif expected and character == expected[-1]:
                expected.pop()
            self._at = _skip_quoted(self._text, self._at) or self._at + 1
        if expected and stops:
            raise ValueError(f"'{expected[-1]}' is missing after {self._text[start:]!r}")
        return Bare(self._text[start : self._at].strip())

    def _next(self) -> str:
        """Skip white space and return the next character; empty at the end."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        is_there = self._next() == character
        self._at += is_there
        return is_there


def _table(names: list[str | None], values: list[Any]) -> Any:
    """Join names and values into a dict; without names it is a set, returned as a list."""
    if values and not any(name is not None for name in names):
        return values
    table: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if name is None:
            raise ValueError(f"{value!r} has no name; write a table as {{name: value}}")
        if name in table:
            raise ValueError(f"'{name}' is given twice")
        table[name] = value
    return table
