"""What the studies share: their pages, tables and pictures."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

STUDIES = Path(__file__).resolve().parent
DOCS = STUDIES.parent
EXAMPLES = DOCS.parent / "examples"

sys.path.insert(0, str(DOCS))
from pictures import BLACK, BLUE, ORANGE, STYLE, write_picture  # noqa: E402 - beside this folder

GREEN = "#2a7f3f"
#: How each technique is called and drawn: told apart by color, and by marker as well.
LOOKS = {
    "LRRidge": ("Ridge", "o", BLUE),
    "XGBoost": ("XGBoost", "s", ORANGE),
    "Stepwise": ("Stepwise", "^", GREEN),
    "Automatic": ("automatic mode", "D", BLACK),
}
BLOCK = re.compile(r"(<!-- begin: results -->\n).*?(<!-- end: results -->)", re.DOTALL)


@dataclass(frozen=True)
class Study:
    """Where a study reads and writes.

    Attributes
    ----------
    runs
        The table of runs.
    page
        The page whose block of results is rewritten.
    pictures
        The folder of the pictures.
    is_quick
        Whether to ask few questions only, to see that it works.
    """

    runs: Path
    page: Path
    pictures: Path
    is_quick: bool = False

    def beside(self, name: str) -> Study:
        """Return the study with another table of the same folder."""
        return replace(self, runs=self.runs.with_name(name))

    def table(self) -> pd.DataFrame:
        """Read the runs that went well."""
        runs = pd.read_csv(self.runs)
        return runs[runs["status"] == "ok"].reset_index(drop=True)

    def facts(self, *libraries: str) -> str:
        """Say what was measured, when and on what machine, with the versions of libraries."""
        runs = pd.read_csv(self.runs)
        about = json.loads(self.runs.with_suffix(".json").read_text(encoding="utf-8"))
        machine, versions = about["machine"], about["versions"]
        n_ok = int((runs["status"] == "ok").sum())
        began, ended = (about[name][:16].replace("T", " ") for name in ("started_at", "ended_at"))
        text = (
            f"{len(runs)} runs, {n_ok} of them went well, from {began} to {ended} UTC, on "
            f"{machine['n_usable']} cores of {machine['cpu']} with "
            f"{machine['memory_bytes'] / 2**30:.1f} GiB of memory; "
        )
        text += ", ".join(f"{name} {versions[name]}" for name in ("foretell", *libraries)) + "."
        if "is_shared" in runs:
            n_shared = int((runs["is_shared"] == "yes").sum())
            text += f" {n_shared} runs shared the machine with other load."
        return text

    def write(self, results: str, pictures: Mapping[str, plt.Figure]) -> None:
        """Write the pictures, and the results into their block of the page."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        for name, figure in pictures.items():
            write_picture(figure, self.pictures / f"{name}.svg")
        text = self.page.read_text(encoding="utf-8")
        fresh, n_blocks = BLOCK.subn(lambda found: f"{found[1]}\n{results}\n{found[2]}", text)
        if n_blocks != 1:
            raise SystemExit(f"{self.page} needs one block <!-- begin: results -->")
        self.page.write_text(fresh, encoding="utf-8")
        sys.stdout.write(results)


def open_study(
    name: str, description: str, table: str = "runs.csv", command: str | None = None
) -> Study:
    """Read the command line: the shipped runs and this repository's page, unless others are named.

    Parameters
    ----------
    name
        The folder of the runs under ``examples``, and the page's name.
    table
        The name of the table in this folder.
    command
        What measures it, with ``{runs}`` for its path; a sweep by default.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=Path, default=EXAMPLES / name / table)
    parser.add_argument("--page", type=Path, default=STUDIES / f"{name}.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "pictures")
    parser.add_argument("--quick", action="store_true", help="ask a few of the questions only")
    given = parser.parse_args()
    if not given.runs.exists():
        sweep = f"foretell measure {EXAMPLES / name / 'sweep.toml'} -o {{runs}}"
        command = (command or sweep).format(runs=given.runs)
        raise SystemExit(f"there is no {given.runs}; measure first: {command}")
    return Study(given.runs, given.page, given.pictures, given.quick)


def mape(measured: Any, predicted: Any) -> float:
    """Return the mean relative error."""
    return float(np.mean(np.abs(np.asarray(predicted) / np.asarray(measured) - 1)))


def percent(share: float) -> str:
    """Write a share with three figures; a missing one as a dash.

    >>> percent(0.0123), percent(0.123), percent(12.3), percent(float("nan"))
    ('1.23 %', '12.3 %', '1230 %', '–')
    """
    if not np.isfinite(share):
        return "–"
    value = 100 * share
    return f"{value:.{max(0, 2 - int(np.floor(np.log10(max(value, 1)))))}f} %"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw_errors(
    errors: pd.DataFrame, title: str, label: str, *, most: float, axes: Any = None
) -> plt.Figure:
    """Draw errors as the paper does: a dot per model, a cross on the best, arrows above the top.

    Parameters
    ----------
    errors
        One row per question, by its number, and one column per technique.
    label
        What the numbers of the rows are.
    most
        The largest error that is shown as it is.
    axes
        Where to draw; a new figure unless given.
    """
    axes = axes or plt.subplots(figsize=(7, 3.8))[1]
    best = errors.fillna(np.inf).idxmin(axis=1)
    step = float(np.diff(errors.index).min()) if len(errors) > 1 else 1.0
    for shift, technique in zip(np.linspace(-0.2, 0.2, errors.shape[1]), errors, strict=True):
        name, marker, color = LOOKS[str(technique)]
        values = errors[technique]
        shown = values.where(values <= most)
        axes.plot(
            shown.index, 100 * shown, marker, color=color, label=name, fillstyle="none",
            markeredgewidth=1.5,
        )  # fmt: skip
        beyond = values[values > most].index
        axes.plot(
            beyond + shift * step, [104 * most] * len(beyond), color=color, linestyle="none",
            marker=r"$\uparrow$", markersize=9,
        )  # fmt: skip
        won = shown[best == technique]
        axes.plot(won.index, 100 * won, "x", color=color, markersize=11, markeredgewidth=1.5)
    axes.plot([], [], "x", color="#777777", markersize=11, label="best")
    axes.set(xlabel=label, ylabel="test MAPE, %", ylim=(0, 108 * most), title=title)
    axes.title.set(fontsize=10)
    axes.set_xticks(errors.index)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5, frameon=False)
    return axes.figure


def drawing() -> Any:
    """Return the style of all pictures, as a context."""
    return mpl.rc_context(STYLE)
