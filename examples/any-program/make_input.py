"""Make the text file that a run compresses, unless it is there: python make_input.py SIZE_MIB.

The text is always the same: words as frequent as in a natural language. The file of 2 MiB is the
beginning of the file of 3 MiB.
"""

from __future__ import annotations

import os
import random
import sys
from itertools import accumulate
from pathlib import Path

MIB = 2**20
SYLLABLES = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er")]
FOLDER = Path(__file__).resolve().parent / "input"


def make_words(count: int = 20_000) -> list[str]:
    """Make distinct words, the short ones first as in most languages."""
    draw = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < count:
        longest = 2 + len(words) * 4 // count
        words["".join(draw.choices(SYLLABLES, k=draw.randint(1, longest)))] = None
    return list(words)


def make_text(part: int, words: list[str], weights: list[float]) -> bytes:
    """Make one MiB of text, from a random stream of its own."""
    draw = random.Random(part)
    drawn = draw.choices(words, cum_weights=weights, k=MIB // 4)
    return " ".join(drawn).encode()[:MIB]


def main() -> None:
    """Write the file whole, so that an interrupted one is never used."""
    size_mib = int(sys.argv[1])
    path = FOLDER / f"{size_mib}.txt"
    if path.exists():
        return
    words = make_words()
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    FOLDER.mkdir(exist_ok=True)
    part = FOLDER / f"{size_mib}.{os.getpid()}"
    with part.open("wb") as file:
        for number in range(size_mib):
            file.write(make_text(number, words, weights))
    part.replace(path)


if __name__ == "__main__":
    main()
