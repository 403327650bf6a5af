"""What the results of campaigns and of automatic mode have in common: the table, and the times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from foretell._version import __version__
from foretell.model.campaigns.schema import Campaign
from foretell.model.fingerprint import versions
from foretell.model.results.schema import Data, Times
from foretell.model.table import Table


def shared_results(
    campaign: Campaign,
    table: Table,
    elapsed_s: float,
    fit_s: Mapping[str, float],
    *,
    n_used: int,
    n_lower_bounds: int = 0,
) -> dict[str, Any]:
    """Return the fields of results that do not depend on the mode.

    ``n_used`` rows were fitted, and ``n_lower_bounds`` further runs gave bounds.
    """
    data = Data(
        name=table.name,
        target=campaign.data.target,
        n_rows=len(table.y),
        n_used=n_used,
        n_lower_bounds=n_lower_bounds,
        columns=[c.name for c in table.feature_map.columns],
        n_features=table.x.shape[1],
        n_configurations=table.n_configurations,
        noise=repeat_noise(table),
    )
    return {
        "foretell": __version__,
        "versions": versions(),
        "seed": campaign.seed,
        "data": data,
        "campaign": campaign.model_dump(mode="json", exclude_none=True),
        "times": Times(
            total_s=round(elapsed_s, 3), fit_s={name: round(s, 3) for name, s in fit_s.items()}
        ),
    }


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
