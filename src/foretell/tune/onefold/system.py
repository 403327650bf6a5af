"""Settings of the system that a search applies itself: those of the whole process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from foretell.tune.knobs import KNOBS

#: Knobs that need nothing of the training loop; they are Torch's.
PROCESS_WIDE = ("threads", "flush_denormal")


@contextmanager
def applied(config: Mapping[str, Any], system: tuple[str, ...]) -> Iterator[None]:
    """Apply the settings of a trial that are known here, and put the old ones back afterwards.

    Where there is no Torch, training is by another library, which its function sets itself. Where
    there is, it is loaded here: training may load it only in its first rung, which counts too.
    """
    names = [name for name in system if name in PROCESS_WIDE and find_spec("torch")]
    knobs = {name: KNOBS.get(name)() for name in names}
    before = {name: knob.read() for name, knob in knobs.items()}
    try:
        for name, knob in knobs.items():
            knob.apply(config[name])
        yield
    finally:
        for name, knob in knobs.items():
            knob.apply(before[name])
