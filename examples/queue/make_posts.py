"""Make up the posts of a question-and-answer site as XML, one post per line, from a seed.

    python make_posts.py posts.xml --megabytes 10 --seed 1

The lines look like those of the data that StackExchange publishes. Words follow Zipf's law, and
each post is about one of many topics, so that its rare words come in groups, as in real text.
"""

import argparse
import html
from pathlib import Path

import numpy as np

N_WORDS, N_TOPICS, WORDS_PER_POST = 5_000, 100, 80
SYLLABLES = [c + "aeiou"[i % 5] for i, c in enumerate("bcdfghjklmnprstvwxz")]


def make_posts(path: Path, megabytes: float, seed: int = 0) -> None:
    """Write about so many megabytes of posts."""
    random = np.random.default_rng(seed)
    words = np.array([word(i) for i in range(N_WORDS)])
    common = 1 / np.arange(1, N_WORDS + 1)
    topics = random.integers(0, N_TOPICS, N_WORDS)
    n_bytes, post = 0, 0
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        while n_bytes < 1e6 * megabytes:
            weights = common * np.where(topics == random.integers(N_TOPICS), 20, 1)
            cumulative = np.cumsum(weights)
            for _ in range(20):  # posts of one topic, such as a question with its answers
                n = random.poisson(WORDS_PER_POST) + 1
                drawn = np.searchsorted(cumulative, random.random(n) * cumulative[-1])
                body = html.escape(f"<p>{' '.join(words[drawn])}</p>")
                line = f'  <row Id="{post}" Score="{random.poisson(3)}" Body="{body}" />\n'
                n_bytes += file.write(line)
                post += 1
        file.write("</posts>\n")


def word(number: int) -> str:
    """Return the word of a rank; common words are short."""
    text, number = "", number + 1
    while number:
        number, digit = divmod(number, len(SYLLABLES))
        text += SYLLABLES[digit]
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make_posts(given.path, given.megabytes, given.seed)
