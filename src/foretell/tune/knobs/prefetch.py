"""The knob of prefetching: how many batches each loader worker prepares ahead."""

from __future__ import annotations

from foretell.tune.knobs._base import Knob, Value, check_count


class PrefetchKnob(Knob):
    """Batches ahead per worker, in the loaders that ``knobs.loader`` makes."""

    def __init__(self) -> None:
        self._value: Value = 2

    def read(self) -> Value:
        """Return the number for the next epoch; Torch's own default is two."""
        return self._value

    def apply(self, value: Value) -> None:
        """Set the number for the next epoch."""
        self._value = int(value)

    def check(self, value: Value) -> None:
        """Accept whole numbers from 1 on."""
        check_count("prefetch", value, 1)

    def prior(self, value: Value, against: Value) -> tuple[float, float]:
        """Little is gained or lost."""
        return (0.85, 1.2)
