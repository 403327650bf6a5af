"""What results depend on: the data, the campaign, and the code that made them."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd

from foretell.model.campaigns import Campaign

_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "optuna", "xgboost-cpu", "xgboost")


def fingerprint(campaign: Campaign, frame: pd.DataFrame) -> dict[str, str]:
    """Return one digest for each thing that must not change under a journal."""
    return {
        "data": _data_digest(frame),
        "campaign": _campaign_digest(campaign),
        "code": _code_digest(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    found = {name: _version(name) for name in _LIBRARIES}
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python} | {name: v for name, v in found.items() if v is not None}


def _data_digest(frame: pd.DataFrame) -> str:
    digest = hashlib.sha256(json.dumps([str(c) for c in frame.columns]).encode())
    for name in frame.columns:
        values = frame[name]
        digest.update(f"{values.dtype}\n".encode())  # true and 1 have one hash
        if pd.api.types.is_object_dtype(values):
            values = values.map(repr)  # lists, in columns to skip, have no hash
        hashes = pd.util.hash_pandas_object(values, index=False)
        digest.update(hashes.to_numpy().tobytes())
    return digest.hexdigest()


def _campaign_digest(campaign: Campaign) -> str:
    values = campaign.model_dump(mode="json")
    values["data"].pop("path")  # where the table lies does not matter, what is in it does
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _code_digest() -> str:
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    digest.update(repr([(name, _version(name)) for name in _LIBRARIES]).encode())
    return digest.hexdigest()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None  # XGBoost comes under one name or the other
