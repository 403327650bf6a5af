"""What results say about the table: rows, columns, configurations, and noise."""

from __future__ import annotations

import numpy as np

from foretell.model.results.schema import Data
from foretell.model.table import Table


def describe_table(table: Table, target: str, n_used: int | None = None) -> Data:
    """Describe a table; ``n_used`` is the number of rows fitted, where not all were."""
    return Data(
        name=table.name,
        target=target,
        n_rows=len(table.y),
        n_used=len(table.y) if n_used is None else n_used,
        columns=[c.name for c in table.feature_map.columns],
        n_features=table.x.shape[1],
        n_configurations=table.n_configurations,
        noise=repeat_noise(table),
    )


def repeat_noise(table: Table) -> float | None:
    """Estimate the relative noise of a run: the median over repeated configurations."""
    counts = np.bincount(table.configuration)
    repeated = counts > 1
    if not repeated.any() or not (table.y > 0).all():
        return None
    logs = np.log(table.y)
    means = np.bincount(table.configuration, logs) / counts
    squares = np.bincount(table.configuration, (logs - means[table.configuration]) ** 2)
    deviations = np.sqrt(squares[repeated] / (counts[repeated] - 1))
    return float(np.median(deviations))
