"""Loaders of batches whose workers can change from epoch to epoch."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from foretell.errors import Option, UsageError, error_lines

#: Options of a DataLoader that only workers have.
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
_ANEW = "workers that persist draw other random numbers once they are started anew"
_RANDOM = "the dataset may draw random numbers, and other workers draw others"
_SAMPLER = "the sampler may remember what it gave, and workers ask it for more in advance"


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
        """Go through the batches; a setting under which none comes is given up.

        Torch draws a number as soon as it is asked, and so does this: only batches come later.
        """
        put_back = self._keep_generators()
        loader: Any = None
        try:
            loader = self.loader
            batches = iter(loader)
        except Exception as error:
            note = self._fallen_back(error, loader)
            if note is None:
                raise
            put_back()
            loader = self.loader
            return self._go_through(iter(loader), loader, put_back, note)
        return self._go_through(batches, loader, put_back, _nothing)

    def _go_through(
        self, batches: Iterator[Any], loader: Any, put_back: Callable[[], None],
        note: Callable[[], None],
    ) -> Iterator[Any]:  # fmt: skip
        """Yield batches of a loader; note something when the first has come."""
        try:
            first = list(itertools.islice(batches, 1))
        except Exception as error:
            other = self._fallen_back(error, loader)
            if other is None:
                raise
            del batches  # with the workers that failed
            put_back()
            batches, note = iter(self.loader), other
            first = list(itertools.islice(batches, 1))
        note()
        while first:  # a batch that was used is let go
            yield first.pop()
        yield from batches

    def _fallen_back(self, error: Exception, loader: Any) -> Callable[[], None] | None:
        """Go back to other options after an error; return what to do once they gave a batch."""
        note: Callable[[], None] = _nothing
        if self._fall_back():
            # Errors in workers begin with where they were.
            note = partial(self._give_up, error_lines(error)[-1])
        elif loader is None or self.loader is loader:  # no other loader has done so meanwhile
            return None
        # Frames keep the workers that failed alive.
        traceback.clear_frames(error.__traceback__)
        return note

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def _keep_generators(self) -> Callable[[], None]:
        """Remember the random generators that give batches their order; return what resets them."""
        import torch

        state = torch.get_rng_state()
        givers: list[Any] = [self._options.get("generator")]
        givers += [getattr(sampler, "generator", None) for sampler in _samplers(self._options)]
        own = [(g, g.get_state()) for g in givers if isinstance(g, torch.Generator)]

        def put_back() -> None:
            torch.set_rng_state(state)
            for giver, its_state in own:
                giver.set_state(its_state)

        return put_back


def _nothing() -> None:
    """Do nothing."""


def changes_results(dataset: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the knobs under which training with such a loader would learn otherwise, and why."""
    if options.get("persistent_workers"):
        return {"workers": _ANEW, "prefetch": _ANEW}
    if not all(map(_is_stateless, _samplers(options))):
        return {"workers": _SAMPLER, "prefetch": _SAMPLER}
    if options.get("collate_fn") is None and _is_fixed(dataset):
        return {}
    return {"workers": _RANDOM}


def _samplers(options: Mapping[str, Any]) -> list[Any]:
    """Return the samplers of a loader that were given, and those inside of these."""
    left = [options.get(name) for name in ("sampler", "batch_sampler")]
    found: list[Any] = []
    while left:
        sampler = left.pop()
        if sampler is not None and not any(sampler is each for each in found):
            found.append(sampler)
            left.append(getattr(sampler, "sampler", None))
    return found


def _is_stateless(sampler: Any) -> bool:
    """Tell whether a sampler is known to draw from nothing but generators of Torch."""
    return type(sampler) in (list, tuple, range) or type(sampler).__module__.startswith("torch.")


def _is_fixed(dataset: Any) -> bool:
    """Tell whether a dataset is known to give the same items in any process."""
    from torch.utils.data import ConcatDataset, Subset, TensorDataset

    if type(dataset) is Subset:
        return _is_fixed(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(_is_fixed(each) for each in dataset.datasets)
    return type(dataset) in (TensorDataset, list, tuple)
