"""Text from files, made safe to print: control characters become escapes."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Write control characters, line breaks and invisible characters as escapes.

    A column or a level may have any name. Printed raw, some of them move the cursor, change
    colors, or reverse the order of a line.

    >>> print(printable("m5\x1b[31m\n"))
    m5\x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def printable_lines(text: str) -> str:
    """Make a text of several lines safe to print; its line breaks stay."""
    return "\n".join(map(printable, text.split("\n")))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
