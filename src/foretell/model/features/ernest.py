"""Ernest's features of data size and cores (Venkataraman et al., NSDI 2016)."""

from __future__ import annotations

from collections.abc import Iterable

from foretell.errors import UsageError
from foretell.model.campaigns.schema import Features
from foretell.model.features.feature import Factor, Feature

_DATA, _CORES = "datasize", "cores"
_NAMES = (
    "datasize_over_cores",
    "log_cores",
    "square_datasize_over_cores",
    "squared_datasize_over_cores",
)


def are_ernests(features: Iterable[Feature]) -> bool:
    """Tell Ernest's features from others, which come from other options."""
    return tuple(f.name for f in features) == _NAMES


def replace_by_ernests(features: list[Feature], options: Features) -> list[Feature]:
    """Replace all features by Ernest's four; needs the columns ``datasize`` and ``cores``."""
    if not options.ernest:
        return features
    names = [f.name for f in features]
    for column in (_DATA, _CORES):
        if column not in names:
            raise UsageError(
                f"it needs the columns '{_DATA}' and '{_CORES}', and '{column}' is "
                "missing; rename one of yours to it",
                at=("features", "ernest"),
            )
    data, root_data = Factor(_DATA), Factor(_DATA, ("sqrt",))
    share, root_share = Factor(_CORES, ("inverse",)), Factor(_CORES, ("inverse", "sqrt"))
    products = (
        (data, share),
        (Factor(_CORES, ("log",)),),
        (root_data, root_share),
        (root_data, share),
    )
    return [Feature(*named) for named in zip(_NAMES, products, strict=True)]
