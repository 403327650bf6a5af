"""What a result depends on: the data, the campaign, and the versions that computed it."""

from __future__ import annotations

import hashlib
import json
import sys

import pandas as pd

from foretell._version import NUMERIC_LIBRARIES, RESULTS_VERSION, library_versions
from foretell.model.campaigns.schema import Campaign


def fingerprint(campaign: Campaign, frame: pd.DataFrame) -> dict[str, str]:
    """Return everything that must stay the same while a journal is continued, by name."""
    values = campaign.model_dump(mode="json")
    values["data"].pop("path")  # the content of the table counts, not where it is stored
    return {
        "data": _data_digest(frame),
        "campaign": hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest(),
        "results version": str(RESULTS_VERSION),
        **library_versions(NUMERIC_LIBRARIES),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **library_versions(NUMERIC_LIBRARIES)}


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
