"""Tables of epochs without gaps: what is left out where hyperparameters came or went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.errors import listing

if TYPE_CHECKING:
    import pandas as pd


def without_gaps(table: pd.DataFrame, target: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without gaps and without columns that never vary; and say what is left out.

    A column that most rows lack is left out, or one new hyperparameter would cost all older epochs.
    Of other columns, the rows that lack them are.

    >>> import pandas as pd
    >>> new = [None, None, None, 0.5, 0.1]
    >>> table = pd.DataFrame({"batch": [16, 32, 64, 32, 16], "new": new, "s": [3, 2, 1, 2, 3]})
    >>> found, notes = without_gaps(table, "s")
    >>> list(found.columns), len(found), notes
    (['batch', 's'], 5, ['The model leaves out new, which 3 of 5 epochs lack.'])
    """
    n = len(table)
    inputs = [c for c in table.columns if c != target and table[c].nunique() > 1]
    n_gaps = {c: int(table[c].isna().sum()) for c in inputs}
    rare = [c for c in inputs if 2 * n_gaps[c] > n]
    notes = [f"The model leaves out {c}, which {n_gaps[c]} of {n} epochs lack." for c in rare]
    used = [c for c in inputs if c not in rare]
    kept = table[[*used, target]].dropna()
    if len(kept) < n:
        lacking = listing(c for c in used if n_gaps[c])
        notes.append(f"The model leaves out {n - len(kept)} of {n} epochs, which lack {lacking}.")
    varying = [c for c in used if kept[c].nunique() > 1]
    return kept[[*varying, target]], notes
