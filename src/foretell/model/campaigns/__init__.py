"""The campaign: one typed description, read from TOML, from aMLLibrary's files, or from a dict."""

from __future__ import annotations

from foretell.model.campaigns.schema import (
    ALL_COLUMNS,
    SFS,
    AllRows,
    Campaign,
    Data,
    Extrapolation,
    Features,
    HoldOut,
    Interpolation,
    KFold,
    Search,
    Splits,
    XGBoostImportance,
    read_campaign,
    read_toml,
)

__all__ = [
    "ALL_COLUMNS",
    "SFS",
    "AllRows",
    "Campaign",
    "Data",
    "Extrapolation",
    "Features",
    "HoldOut",
    "Interpolation",
    "KFold",
    "Search",
    "Splits",
    "XGBoostImportance",
    "read_campaign",
    "read_toml",
]
