"""Tables of epochs without gaps: what is left out where hyperparameters came or went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.errors import listing

if TYPE_CHECKING:
    import pandas as pd


def without_gaps(table: pd.DataFrame, target: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without gaps and without columns that never vary; and say what is left out.

    Columns are left out, those with the most gaps first, until at least half of the rows have all
    others: one new hyperparameter would cost all older epochs, and two of which each trial has one
    would cost all. Then rows are left out that lack another one.

    >>> import pandas as pd
    >>> new = [None, None, None, 0.5, 0.1]
    >>> table = pd.DataFrame({"batch": [16, 32, 64, 32, 16], "new": new, "s": [3, 2, 1, 2, 3]})
    >>> found, notes = without_gaps(table, "s")
    >>> list(found.columns), len(found), notes
    (['batch', 's'], 5, ['The model leaves out new, which 3 of 5 epochs lack.'])
    """
    n = len(table)
    used = [c for c in table.columns if c != target and table[c].nunique() > 1]
    n_gaps = {c: int(table[c].isna().sum()) for c in used}
    notes = []
    while 2 * table[used].notna().all(axis="columns").sum() < n:
        rare = max(used, key=lambda c: n_gaps[c])
        used.remove(rare)
        notes.append(f"The model leaves out {rare}, which {n_gaps[rare]} of {n} epochs lack.")
    kept = table[[*used, target]].dropna()
    if len(kept) < n:
        lacking = listing(c for c in used if n_gaps[c])
        notes.append(f"The model leaves out {n - len(kept)} of {n} epochs, which lack {lacking}.")
    varying = [c for c in used if kept[c].nunique() > 1]
    return kept[[*varying, target]], notes
