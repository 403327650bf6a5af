"""The store: epochs and profiles of all searches, in one SQLite file that processes share."""

from __future__ import annotations

from foretell.tune.store.rows import EpochRow, ProfileRow
from foretell.tune.store.store import Store, open_store

__all__ = ["EpochRow", "ProfileRow", "Store", "open_store"]
