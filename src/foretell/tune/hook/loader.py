"""Loaders of batches whose workers can change from epoch to epoch."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foretell.errors import Option, UsageError, error_lines

#: Options of a DataLoader that only workers have.
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
_ANEW = "workers that persist draw other random numbers once they are started anew"
_RANDOM = "the dataset may draw random numbers, and other workers draw others"


class TunedLoader:
    """A DataLoader of Torch that is made anew when its number of workers changes.

    Batches come in the same order whatever the number of workers: the order is drawn in the
    process that trains.

    Parameters
    ----------
    changes
        Returns the options that are tuned, as they are now.
    fall_back
        Sets them to what they were before tuning; returns whether that changed any.
    give_up
        Takes the error of a setting under which there was no first batch, and there is one without.
    """

    def __init__(
        self, dataset: Any, options: dict[str, Any], changes: Callable[[], dict[str, Any]], *,
        fall_back: Callable[[], bool], give_up: Callable[[str], None],
    ) -> None:  # fmt: skip
        from torch.utils.data import IterableDataset

        if isinstance(dataset, IterableDataset):
            raise UsageError(
                "an IterableDataset gives every worker all items; use a dataset with an index",
                option=Option("dataset"),
            )
        self._dataset, self._options, self._changes = dataset, options, changes
        self._fall_back, self._give_up = fall_back, give_up
        self._made: tuple[dict[str, Any], Any] | None = None

    @property
    def loader(self) -> Any:
        """The DataLoader for the settings that hold now."""
        from torch.utils.data import DataLoader

        wanted = {**self._options, **self._changes()}
        if not wanted.get("num_workers"):
            wanted = {name: value for name, value in wanted.items() if name not in _OF_WORKERS}
        if self._made is None or self._made[0] != wanted:
            self._made = (wanted, DataLoader(self._dataset, **wanted))
        return self._made[1]

    def __iter__(self) -> Iterator[Any]:
        """Go through the batches; a setting under which none comes is given up."""
        put_back = self._keep_generators()
        try:
            batches, first = self._begin()
        except Exception as error:
            if not self._fall_back():
                raise
            why = error_lines(error)[-1]  # errors in workers begin with where they were
            traceback.clear_frames(error.__traceback__)  # they keep the workers that failed alive
            put_back()
            batches, first = self._begin()
            self._give_up(why)
        while first:  # a batch that was used is let go
            yield first.pop()
        yield from batches

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def _begin(self) -> tuple[Iterator[Any], list[Any]]:
        batches = iter(self.loader)
        return batches, list(itertools.islice(batches, 1))

    def _keep_generators(self) -> Callable[[], None]:
        """Remember the random generators that give batches their order; return what resets them."""
        import torch

        own, state = self._options.get("generator"), torch.get_rng_state()
        own_state = own.get_state() if own is not None else None

        def put_back() -> None:
            torch.set_rng_state(state)
            if own is not None:
                own.set_state(own_state)

        return put_back


def changes_results(dataset: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the knobs under which training with such a loader would learn otherwise, and why."""
    if options.get("persistent_workers"):
        return {"workers": _ANEW, "prefetch": _ANEW}
    samplers = (options.get(name) for name in ("sampler", "batch_sampler"))
    is_of_torch = all(s is None or type(s).__module__.startswith("torch.") for s in samplers)
    if is_of_torch and options.get("collate_fn") is None and _is_fixed(dataset):
        return {}
    return {"workers": _RANDOM}


def _is_fixed(dataset: Any) -> bool:
    """Tell whether a dataset is known to give the same items in any process."""
    from torch.utils.data import ConcatDataset, Subset, TensorDataset

    if type(dataset) is Subset:
        return _is_fixed(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(_is_fixed(each) for each in dataset.datasets)
    return type(dataset) in (TensorDataset, list, tuple)
