"""Settings of the system that a search applies itself: those of the whole process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from foretell.tune.knobs import KNOBS

#: Knobs that need nothing of the training loop; they are Torch's.
PROCESS_WIDE = ("threads", "flush_denormal")


@contextmanager
def applied(config: Mapping[str, Any], system: tuple[str, ...]) -> Iterator[None]:
    """Apply the settings of a trial that are known here, and put the old ones back afterwards.

    Where Torch is not loaded, training is by another library, which its function sets itself.
    """
    names = [name for name in system if name in PROCESS_WIDE and "torch" in sys.modules]
    knobs = {name: KNOBS.get(name)() for name in names}
    before = {name: knob.read() for name, knob in knobs.items()}
    try:
        for name, knob in knobs.items():
            knob.apply(config[name])
        yield
    finally:
        for name, knob in knobs.items():
            knob.apply(before[name])
