"""What is known of a run only after it: the names of these columns, in one place."""

from __future__ import annotations

#: The columns that `foretell measure` and its meters write, and the plain name of a time. No
#: parameter of a sweep can have one of the former names.
OUTCOMES = frozenset(
    {
        "time_s", "wall_time_s", "cpu_time_s", "energy_j", "energy_estimated_j",
        "peak_memory_bytes", "read_bytes", "written_bytes", "other_load",
        "n_instructions", "n_cycles", "n_cache_misses", "n_branch_misses", "n_page_faults",
        "n_context_switches",
    }
)  # fmt: skip
