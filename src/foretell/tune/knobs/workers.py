"""The knob of workers: how many processes of a loader prepare batches."""

from __future__ import annotations

from foretell.tune.knobs._base import Knob, Value, check_count


class WorkersKnob(Knob):
    """Loader workers; they take effect in the loaders that ``knobs.loader`` makes."""

    def __init__(self) -> None:
        self._value: Value = 0

    def read(self) -> Value:
        """Return the number for the next epoch; Torch's own default is none."""
        return self._value

    def apply(self, value: Value) -> None:
        """Set the number for the next epoch."""
        self._value = int(value)

    def check(self, value: Value) -> None:
        """Accept whole numbers from 0 on."""
        check_count("workers", value, 0)

    def n_cores(self, value: Value) -> float:
        """Return less than one core for each: workers wait for the training."""
        return 0.5 * float(value)

    def prior(self, value: Value, against: Value) -> tuple[float, float]:
        """Loading is all of an epoch, or nothing; starting workers takes time."""
        return (0.5, 1.8)
