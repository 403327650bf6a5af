"""Levels of categories that nobody measured: which known level was probably meant."""

from __future__ import annotations

from collections.abc import Sequence

from foretell.errors import listing, suggest


def suggest_level(level: str, known: Sequence[str]) -> str:
    """Say which known level is nearest to an unknown one, or list them all.

    Levels are often short, or one is the beginning of another: "c5.large" may mean "c5".

    >>> suggest_level("C5.large", ["m4", "c5"])
    "Did you mean 'c5'?"
    >>> suggest_level("r4", ["m4", "c5"])
    "Did you mean 'm4'?"
    >>> suggest_level("x", ["m4", "c5"])
    'Known: m4, c5.'
    """
    typed = level.strip().lower()
    for is_near in (_equals, _begins, _differs_in_one):
        near = [name for name in known if is_near(typed, name.strip().lower())]
        if len(near) == 1:
            return f"Did you mean '{near[0]}'?"
    return suggest(level, known)


def _equals(typed: str, name: str) -> bool:
    return typed == name


def _begins(typed: str, name: str) -> bool:
    shorter, longer = sorted((typed, name), key=len)
    return len(shorter) > 1 and longer.startswith(shorter)


def _differs_in_one(typed: str, name: str) -> bool:
    pairs = zip(typed, name, strict=False)
    return len(typed) == len(name) > 1 and sum(a != b for a, b in pairs) == 1


def never_measured(name: str, unknown: Sequence[str], known: Sequence[str]) -> str:
    """Say that a column was never measured at some levels, and which was probably meant."""
    return f"'{name}' was never measured at {listing(unknown)}. {suggest_level(unknown[0], known)}"
