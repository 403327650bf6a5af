"""The runs behind models, and what was predicted of runs held out: bounded samples, for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.model import directory as layout
from foretell.model.automatic.bench import Bench
from foretell.model.automatic.rehearsal import UNKNOWN_LEVEL, Answers, question_names
from foretell.model.campaigns.validation.outer_splits import (
    MOST_PREDICTIONS,
    CampaignSplits,
    thinned,
)
from foretell.model.features import CATEGORY, NUMBER
from foretell.model.features.levels import level_names
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.results import Entry
from foretell.model.table import Table

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_MOST_RUNS = 5_000  # kept for reports; of more, a sample
_DIRECTIONS = np.array(["below", "", "above"])


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Runs that a model was not fitted on, and what it predicted of them.

    Attributes
    ----------
    rows
        Their positions in the table.
    question
        What was asked: inside, between levels, so far beyond the range, or an unknown level.
    column, direction
        Along which column a run leaves the training rows, and whether above or below.
    ratio
        By which factor it does; 1 where it does not.
    """

    rows: Rows
    question: NDArray[np.str_]
    column: NDArray[np.str_]
    direction: NDArray[np.str_]
    ratio: Array
    predicted: Array

    def take(self, positions: Rows) -> HeldOut:
        """Keep some of the runs."""
        kept = {name: values[positions] for name, values in vars(self).items()}
        return replace(self, **kept)


def of_rehearsals(
    table: Table, bench: Bench, answers: Sequence[Answers], used: Rows
) -> Iterator[HeldOut]:
    """Yield what the ensemble answered in rehearsals; ``used`` are the rows it was fitted on."""
    features = table.feature_map.features
    for a in answers:
        rows = used[bench.rows(a.fold.test)]
        is_beyond = a.fold.kind == "beyond"
        names = dict.fromkeys(features[c].factors[0].column for c in a.fold.columns)
        yield HeldOut(
            rows,
            question_names(a.ratio) if is_beyond else np.full(len(rows), a.fold.kind),
            np.full(len(rows), " + ".join(names)),
            np.full(len(rows), _DIRECTIONS[a.fold.direction + 1]),
            a.ratio,
            np.exp(a.combined),
        )


def of_validation(table: Table, plan: CampaignSplits, entry: Entry) -> Iterator[HeldOut]:
    """Yield what a technique's winners predicted of validation rows."""
    for judgement in entry.judgements:
        if judgement.predicted is None:
            continue
        split = plan.splits[judgement.outer]
        test = split.test[thinned(len(split.test), plan.n_predictions)]
        yield _placed(table, split.train, test, np.array(judgement.predicted))


def _placed(table: Table, train: Rows, test: Rows, predicted: Array) -> HeldOut:
    """Say where test rows lie relative to training rows."""
    columns = table.feature_map.columns
    numeric = [c.name for c in columns if c.kind == NUMBER]
    values = table.frame[numeric].to_numpy(dtype=float)
    measured = MeasuredRange.of(values[train])
    distance, ratio = measured.distance(values[test]), measured.ratio(values[test])
    question = np.full(len(test), "inside", dtype="<U16")
    column = np.full(len(test), "", dtype=object)
    way = np.zeros(len(test), dtype=np.int64)
    if numeric:
        between, furthest = measured.between(values[test]), ratio.argmax(axis=1)
        is_between, is_beyond = between.any(axis=1), (distance != 0).any(axis=1)
        question[is_between] = "between"
        question[is_beyond] = question_names(ratio.max(axis=1)[is_beyond])
        cut = np.where(is_beyond, furthest, between.argmax(axis=1))
        column[is_between | is_beyond] = np.array(numeric, dtype=object)[cut][
            is_between | is_beyond
        ]
        way = np.sign(distance[np.arange(len(test)), furthest]).astype(np.int64)
    for name in [c.name for c in columns if c.kind == CATEGORY]:
        levels = level_names(table.frame[name])
        is_new = ~np.isin(levels[test], np.unique(levels[train]))
        question[is_new], column[is_new], way[is_new] = UNKNOWN_LEVEL, name, 0
    ratios = ratio.max(axis=1, initial=1.0)
    return HeldOut(test, question, column.astype(str), _DIRECTIONS[way + 1], ratios, predicted)


def evidence_files(table: Table, target: str, held_out: Sequence[HeldOut]) -> dict[str, str]:
    """Write the runs, and the predictions of those held out, as two tables.

    The second names a run by its number in the first, counted from 1.
    """
    total = sum(len(h.rows) for h in held_out)
    share = MOST_PREDICTIONS / max(total, MOST_PREDICTIONS)
    # Of each fold its share, so that a sample still asks every question.
    sampled = [h.take(thinned(len(h.rows), max(1, int(share * len(h.rows))))) for h in held_out]
    needed = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(h.rows for h in sampled)]))
    others = np.setdiff1d(np.arange(len(table.y)), needed)
    rest = others[thinned(len(others), max(0, _MOST_RUNS - len(needed)))]
    kept = np.union1d(needed, rest).astype(np.int64)
    names = [c.name for c in table.feature_map.columns]
    frames = [_frame(h, kept) for h in sampled if len(h.rows)]
    predictions = pd.concat(frames, ignore_index=True) if frames else _frame(_NOBODY, kept)
    return {
        layout.RUNS: table.frame.iloc[kept][[*names, target]].to_csv(index=False),
        layout.REHEARSALS: predictions.to_csv(index=False, float_format="%.8g"),
    }


_NOBODY = HeldOut(
    np.zeros(0, dtype=np.int64), *([np.zeros(0, dtype=str)] * 3), *([np.zeros(0)] * 2)
)


def _frame(held_out: HeldOut, kept: Rows) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run": np.searchsorted(kept, held_out.rows) + 1,
            "question": held_out.question,
            "column": held_out.column,
            "direction": held_out.direction,
            "ratio": held_out.ratio,
            "predicted": held_out.predicted,
        }
    )
