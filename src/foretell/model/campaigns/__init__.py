"""Campaigns: models built from a declarative file, in TOML or in aMLLibrary's format."""

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
