"""The contracts of plug-ins as checks, for ours and for those of other packages."""

from __future__ import annotations

from foretell.testing.knobs import check_knob
from foretell.testing.meters import check_meter
from foretell.testing.policies import check_policy
from foretell.testing.techniques import check_technique, example_rows, merged
from foretell.testing.workloads import check_workload

__all__ = [
    "check_knob",
    "check_meter",
    "check_policy",
    "check_technique",
    "check_workload",
    "example_rows",
    "merged",
]
