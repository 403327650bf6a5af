"""What a result depends on: the data, the campaign, and the versions that computed it."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version

import pandas as pd

from foretell._version import RESULTS_VERSION
from foretell.model.campaigns import Campaign

_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "optuna", "xgboost-cpu", "xgboost")


def fingerprint(campaign: Campaign, frame: pd.DataFrame) -> dict[str, str]:
    """Return everything that must stay the same while a journal is continued, by name."""
    return {
        "data": _data_digest(frame),
        "campaign": _campaign_digest(campaign),
        "results version": str(RESULTS_VERSION),
        **_library_versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    return {"python": ".".join(map(str, sys.version_info[:3])), **_library_versions()}


def _data_digest(frame: pd.DataFrame) -> str:
    digest = hashlib.sha256(json.dumps([str(c) for c in frame.columns]).encode())
    for name in frame.columns:
        values = frame[name]
        digest.update(f"{values.dtype}\n".encode())  # true and 1 have the same hash
        if pd.api.types.is_object_dtype(values):
            values = values.map(repr)  # a skipped column may hold lists, which have no hash
        hashes = pd.util.hash_pandas_object(values, index=False)
        digest.update(hashes.to_numpy().tobytes())
    return digest.hexdigest()


def _campaign_digest(campaign: Campaign) -> str:
    values = campaign.model_dump(mode="json")
    values["data"].pop("path")  # the content of the table counts, not where it is stored
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _library_versions() -> dict[str, str]:
    found = {name: _version(name) for name in _LIBRARIES}
    return {name: v for name, v in found.items() if v is not None}


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None  # XGBoost is installed under one of two names
