"""Ray Tune: a callback, leases of CPUs, and a Trainable; it needs the extra `ray`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.late_names import late_names

if TYPE_CHECKING:
    from foretell.tune.ray.allocate import Allocate as Allocate
    from foretell.tune.ray.callback import Callback as Callback
    from foretell.tune.ray.lease import first_lease as first_lease
    from foretell.tune.ray.trainable import PipelineTrainable as PipelineTrainable

#: A trial that uses one of them should not wait for the others.
_NAMES = {
    "foretell.tune.ray.allocate": ("Allocate",),
    "foretell.tune.ray.callback": ("Callback",),
    "foretell.tune.ray.lease": ("first_lease",),
    "foretell.tune.ray.trainable": ("PipelineTrainable",),
}
__getattr__, __dir__, __all__ = late_names(__name__, _NAMES)
