"""Dropping and sprinting instead of eviction: chapter 4 of the thesis, simulated and measured.

python docs/studies/priorities.py [--quick]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from page import DOCS, EXAMPLES, STUDIES, Study
from priorities_played import (
    figure_of_sprints,
    figure_of_stages,
    figure_of_three_classes,
    figure_of_two_classes,
    other_assumptions,
    other_ways,
    short_experiments,
    table_4_2,
)
from priorities_spark import measured_part


def open_priorities() -> Study:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Drop and sprint instead of evicting.")
    parser.add_argument("--runs", type=Path, default=STUDIES)
    parser.add_argument("--page", type=Path, default=STUDIES / "priorities.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "pictures")
    parser.add_argument("--quick", action="store_true", help="play few jobs only")
    given = parser.parse_args()
    return Study(given.runs, given.page, given.pictures, given.quick)


def main() -> None:
    """Simulate, write."""
    study = open_priorities()
    size, n_experiments = ((1_000, 2), 3) if study.is_quick else ((40_000, 5), 60)
    two, two_picture = figure_of_two_classes(*size)
    table, table_picture = table_4_2(*size)
    results = (
        f"{size[1]} seeds of {size[0]:,} jobs; ± is half a 95 % interval. Of P, seconds are shown; "
        "of the others, the change against P. What is in parentheses is *published*.\n\n"
        f"## Two classes (Figure 4.6)\n\n{two}\n"
        "![Changes against P](../pictures/priorities-two-classes.svg)\n\n"
        "Low jobs at 1:9 are not compared: with P their queue is unstable, and bars of −100 % only "
        "say so.\n\n"
        "The same at 1:9 in runs as short as an experiment may be, of 300 jobs:\n\n"
        f"{short_experiments(n_experiments)}\n"
        f"### Other assumptions\n\n{other_assumptions(*size)}\n"
        "### Other ways to share the engine\n\n"
        "The jobs of the reference. P is also what preemption in Kueue and Volcano comes to: an "
        "evicted job starts again. Pools and fair share let jobs run at the same time, as Spark's "
        "fair scheduler does; that half of the slots take twice as long is assumed. Dynamic "
        "allocation changes nothing here: one engine has all slots.\n\n"
        f"{other_ways(*size)}\n"
        f"## Three classes (Figure 4.7)\n\n{figure_of_three_classes(*size)}\n"
        "## Jobs of several stages (Figure 4.8)\n\n"
        "Triangle counts: the share is dropped of each of six stages.\n\n"
        f"{figure_of_stages(*size)}\n"
        f"## Sprinting (Table 4.2 and Figure 4.9)\n\n{table}\n"
        "![Queueing times of Table 4.2](../pictures/priorities-sprints.svg)\n\n"
        "Latency and energy against P without a sprint:\n\n"
        f"{figure_of_sprints(*size, n_experiments)}\n"
    )
    runs = ("spark-third.json", "spark.json", "spark-first.json", "spark-again.json")
    measured, more = measured_part(*(EXAMPLES / "queue" / name for name in runs))
    results += f"## On a real Spark\n\n{measured}"
    pictures = {
        "priorities-two-classes": two_picture, "priorities-sprints": table_picture, **more,
    }  # fmt: skip
    study.write(results, pictures)


if __name__ == "__main__":
    main()
