"""The exception tree; only cli/ turns errors into exit codes.

ForetellError
├── UsageError        a campaign, an option or an argument is wrong
├── DatasetError      a table of runs is wrong
├── ModelError        a saved model cannot be read, or a table does not fit it
├── StorageError      the output directory is taken, foreign, full or unwritable
└── NothingUsableError  everything ran, and nothing usable came out

Each text says what was expected, what came, and what to do. An error about an option of a call
carries that option, and the options that would help, as data: Python, the command line and HTTP
each write them in their own way.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from foretell.wording import printable


@dataclass(frozen=True)
class Option:
    """An option of a call, by its Python name, and the value it has or should have.

    Attributes
    ----------
    key
        The entry meant, where the option is a mapping: ``fix`` has one per column.

    >>> print(Option("max_energy", "5kJ"), Option("fix", "8", key="nodes"))
    max_energy='5kJ' fix={'nodes': 8}
    """

    name: str
    value: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        """Write it as in a call in Python."""
        if self.key is not None:
            return f"{self.name}={{{self.key!r}: {self.value or '...'}}}"
        return self.name if self.value is None else f"{self.name}={_literal(self.value)}"


def _literal(value: str) -> str:
    """Write a value as in Python: numbers and constants as they are, other texts in quotes."""
    try:
        float(value)
    except ValueError:
        return value if value in ("...", "True", "False", "None") else repr(value)
    return value


#: What to do about an error: pieces of text, and the options they mention.
Remedy = tuple[str | Option, ...]


class ForetellError(Exception):
    """Base of every error foretell raises on purpose.

    Attributes
    ----------
    text
        The message without its place, its option and its remedy.
    at
        The steps to the entry of a file that is wrong, such as ``("search", "folds")``.
    option
        The option of a call that is wrong.
    remedy
        What to do, where that takes an option.

    >>> error = UsageError("30 is money, which needs prices", option=Option("budget", "30"),
    ...                    remedy=("write a time as ", Option("budget", "30m")))
    >>> print(error)
    budget=30: 30 is money, which needs prices; write a time as budget='30m'
    >>> print(error.worded(lambda option: f"--{option.name} {option.value}"))
    --budget 30: 30 is money, which needs prices; write a time as --budget 30m
    """

    def __init__(
        self,
        text: str,
        *,
        at: tuple[str, ...] = (),
        option: Option | None = None,
        remedy: Remedy = (),
    ) -> None:
        super().__init__(text)
        self.text, self.at, self.option, self.remedy = text, at, option, remedy

    def worded(self, write: Callable[[Option], str]) -> str:
        """Return the whole message on one line, with options written by a function."""
        places = [".".join(self.at)] if self.at else []
        places += [write(self.option)] if self.option else []
        remedy = "".join(p if isinstance(p, str) else write(p) for p in self.remedy)
        joint = " " if self.text.endswith((".", "?", "!")) else "; "
        return printable(": ".join([*places, self.text]) + (joint + remedy if remedy else ""))

    def placed(self, *at: str) -> Self:
        """Return this error about another entry of a file, or about none."""
        found = type(self).__new__(type(self), self.text)  # a subclass may have other parameters
        vars(found).update({**vars(self), "at": at})
        return found

    def __str__(self) -> str:
        return self.worded(str)


class UsageError(ForetellError):
    """A campaign, an option or an argument is wrong."""


class DatasetError(ForetellError):
    """A table of runs is wrong."""


class ModelError(ForetellError):
    """A saved model cannot be read, or a table does not fit it."""


class StorageError(ForetellError):
    """The output directory is taken, foreign, full or unwritable."""


class NothingUsableError(ForetellError):
    """Everything ran, and nothing usable came out."""


def error_lines(error: object) -> list[str]:
    """Return what an error says, line by line; if it says nothing, the name of its type.

    >>> error_lines(ValueError("no\\n  luck\\n")), error_lines(KeyError())
    (['no', 'luck'], ['KeyError'])
    """
    lines = [line.strip() for line in str(error).splitlines()]
    return list(filter(None, lines)) or [type(error).__name__]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that an unknown one was probably meant to be; None if there is none.

    >>> nearest("C5", ["c5", "m4"])
    'c5'
    """
    lowered = {n.lower(): n for n in reversed([str(k) for k in known])}
    typed = str(name).lower()
    # Few typing errors change the first letter: names that share it may differ more.
    related = [n for n in lowered if n[:1] == typed[:1]]
    near = difflib.get_close_matches(typed, lowered, n=1, cutoff=0.75)
    near = near or difflib.get_close_matches(typed, related, n=1, cutoff=0.6)
    return lowered[near[0]] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which known name is nearest to an unknown one, or list them all.

    >>> suggest("tme_s", ["nodes", "time_s"])
    "Did you mean 'time_s'?"
    >>> suggest("zzz", ["nodes", "time_s"])
    'Known: nodes, time_s.'
    """
    names = [str(k) for k in known]
    near = nearest(name, names)
    return f"Did you mean '{near}'?" if near is not None else f"Known: {listing(names)}."


def listing(items: Iterable[object], most: int = 12) -> str:
    """Join items for a message, and say how many were left out.

    >>> listing(range(5), most=3)
    '0, 1, 2 and 2 more'
    """
    texts = [str(i) for i in items]
    shown = ", ".join(texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown
