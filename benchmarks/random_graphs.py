"""Random programs of tasks give in parallel what they give in order, in parts that can be resumed.

    python -m benchmarks.random_graphs [--graphs 100000] [--parts N] [--journal FILE]

A part is a seed and its programs; the journal has a line for each part that held, with a digest of
the code that ran it, so that parts count only for the code as it is. All parts take about half an
hour on one core. Processes get one program for 200 on threads, and Ray one for 2,000.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.tasks.random_programs import State, assert_same, play, programs

import foretell.tasks
from foretell.tasks import Graph

JOURNAL = Path(__file__).parent / "output" / "random-graphs.jsonl"
N_OF_A_PART = 2_000
#: What runs tasks; the rest of the package foresees them.
MODULES = ("data.py", "declare.py", "graph.py", "running/*.py")
SHARES = {"threads": 1, "processes": 200, "ray": 2_000}


def digest():
    """Return what identifies the code under test."""
    found = hashlib.sha256()
    for pattern in MODULES:
        for path in sorted(Path(foretell.tasks.__file__).parent.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def play_part(number, on, n):
    """Play the programs of a part; return how many gave the same. One that differs raises."""
    count = 0

    @seed(number)
    @settings(max_examples=n, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(program=programs, workers=st.integers(1, 3), max_open=st.sampled_from([1, 3, 10_000]),
           policy=st.sampled_from(["critical", "breadth", "work"]))  # fmt: skip
    def same(program, workers, max_open, policy):
        nonlocal count
        state = State()
        with Graph(workers=workers, policy=policy, on=on, max_open=max_open):
            play(program, state)
        assert_same(program, state)
        count += 1

    same()
    return count


def done(journal, code):
    """Return the parts that held with this code: what they counted, by place and number."""
    if not journal.exists():
        return {}
    lines = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
    return {(line["on"], line["part"]): line["n"] for line in lines if line["code"] == code}


def parts_of(n_graphs):
    """Return the parts of a number of programs: where, which seed, how many."""
    found = []
    for on, share in SHARES.items():
        left = max(n_graphs // share, 5)
        for number in range(-(-left // N_OF_A_PART)):
            found.append((on, number, min(N_OF_A_PART, left - number * N_OF_A_PART)))
    return found


def play_parts(n_graphs=100_000, most_parts=None, journal=JOURNAL):
    """Play parts that the journal does not have; return how many programs it has then."""
    code = digest()
    left = [part for part in parts_of(n_graphs) if part[:2] not in done(journal, code)]
    journal.parent.mkdir(exist_ok=True)
    for on, number, n in left[:most_parts]:
        started = time.perf_counter()
        count = play_part(number, on, n)
        line = {"on": on, "part": number, "n": count, "code": code,
                "took_s": round(time.perf_counter() - started, 1)}  # fmt: skip
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    held = done(journal, code)
    return {
        f"programs that gave the same on {on}": sum(n for (o, _), n in held.items() if o == on)
        for on in SHARES
    } | {"parts left": len(left[len(left[:most_parts]) :])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100_000, help="programs on threads")
    parser.add_argument("--parts", type=int, help="play at most so many parts now")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    given_ = parser.parse_args()
    found = play_parts(given_.graphs, given_.parts, given_.journal)
    for name, value in found.items():
        print(f"{name}: {value:,}")
    sys.exit(0 if not found["parts left"] else 3)


if __name__ == "__main__":
    main()
