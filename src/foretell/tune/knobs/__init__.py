"""Knobs: system settings that can change between epochs; one file each, and one line here."""

from __future__ import annotations

from foretell.registry import Registry
from foretell.tune.knobs._base import Knob, Surroundings

KNOBS: Registry[Knob] = Registry(
    "knob",
    {
        "threads": "foretell.tune.knobs.threads:ThreadsKnob",
        "workers": "foretell.tune.knobs.workers:WorkersKnob",
        "prefetch": "foretell.tune.knobs.prefetch:PrefetchKnob",
        "flush_denormal": "foretell.tune.knobs.flush_denormal:FlushDenormalKnob",
    },
    group="foretell.knobs",
)

__all__ = ["KNOBS", "Knob", "Surroundings"]
