"""Ray Tune: a callback, leases of CPUs, and a Trainable; it needs the extra `ray`."""

from __future__ import annotations

from foretell.tune.ray.allocate import Allocate
from foretell.tune.ray.callback import Callback
from foretell.tune.ray.lease import first_lease
from foretell.tune.ray.trainable import PipelineTrainable

__all__ = ["Allocate", "Callback", "PipelineTrainable", "first_lease"]
