"""The exception tree; only cli/ turns errors into exit codes.

ForetellError
├── UsageError        a campaign, an option or an argument is wrong
├── DatasetError      a table of runs is wrong
├── ModelError        a saved model cannot be read, or a table does not fit it
├── StorageError      the output directory is taken, foreign, full or unwritable
└── NothingUsableError  everything ran, and nothing usable came out

Each text says what was expected, what came, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ForetellError(Exception):
    """Base of every error foretell raises on purpose.

    Attributes
    ----------
    text
        The message without its place.
    at
        The steps to the option of a campaign that it is about, in TOML's words; often none.
    """

    def __init__(self, text: str, *, at: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(at)}: {text}" if at else text)
        self.text, self.at = text, at


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


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which known name is nearest to an unknown one, or list them all.

    >>> suggest("tme_s", ["nodes", "time_s"])
    "Did you mean 'time_s'?"
    >>> suggest("zzz", ["nodes", "time_s"])
    'Known: nodes, time_s.'
    """
    names = [str(k) for k in known]
    lowered = {n.lower(): n for n in reversed(names)}
    near = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.6)
    return f"Did you mean '{lowered[near[0]]}'?" if near else f"Known: {listing(names)}."


def listing(items: Iterable[object], most: int = 12) -> str:
    """Join items for a message, and say how many were left out.

    >>> listing(range(5), most=3)
    '0, 1, 2 and 2 more'
    """
    texts = [str(i) for i in items]
    shown = ", ".join(texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown
