"""Loaders of batches whose workers can change from epoch to epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from foretell.errors import Option, UsageError


class TunedLoader:
    """A DataLoader of Torch that is made anew when its number of workers changes.

    Batches come in the same order whatever the number of workers: the order is drawn in the
    process that trains. A dataset that draws random numbers itself draws others in workers.
    """

    def __init__(
        self, dataset: Any, options: dict[str, Any], changes: Callable[[], dict[str, Any]]
    ) -> None:
        from torch.utils.data import IterableDataset

        if isinstance(dataset, IterableDataset):
            raise UsageError(
                "an IterableDataset gives every worker all items; use a dataset with an index",
                option=Option("dataset"),
            )
        self._dataset, self._options, self._changes = dataset, options, changes
        self._made: tuple[dict[str, Any], Any] | None = None

    @property
    def loader(self) -> Any:
        """The DataLoader for the settings that hold now."""
        from torch.utils.data import DataLoader

        wanted = {**self._options, **self._changes()}
        if not wanted.get("num_workers"):
            for name in ("prefetch_factor", "persistent_workers"):
                wanted.pop(name, None)
        if self._made is None or self._made[0] != wanted:
            self._made = (wanted, DataLoader(self._dataset, **wanted))
        return self._made[1]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader, name)
