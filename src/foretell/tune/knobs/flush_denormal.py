"""The knob of denormal numbers: tiny results become zero, which some processors compute faster."""

from __future__ import annotations

import sys
from typing import ClassVar

from foretell.errors import Option, UsageError
from foretell.tune.knobs._base import Knob, Value


class FlushDenormalKnob(Knob):
    """Whether Torch takes denormal numbers for zero, in the thread that trains."""

    changes_results: ClassVar[bool] = True

    def read(self) -> Value:
        """Return whether half of the smallest normal number is zero here."""
        return int(sys.float_info.min / 2 == 0)

    def apply(self, value: Value) -> None:
        """Set it."""
        import torch

        torch.set_flush_denormal(bool(value))

    def check(self, value: Value) -> None:
        """Accept 0 and 1."""
        if value not in (0, 1):
            raise UsageError(
                f"flush_denormal is 0 or 1, not {value!r}",
                option=Option("settings", "[0, 1]", key="flush_denormal"),
            )
