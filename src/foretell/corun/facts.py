"""What tells one machine from another: the same facts in profiles, machine files and models."""

from __future__ import annotations

import math
import os
from typing import Annotated, Any

import pydantic

from foretell.errors import UsageError
from foretell.files.typed import validated
from foretell.measure.running.machine import describe_machine
from foretell.wording import counted, number

_MOST_TEXT = 200
_SAME_MEMORY = 0.02  # as a share: a kernel keeps more or less of it for itself than the last one
Text = Annotated[str, pydantic.Field(max_length=_MOST_TEXT)]


class MachineFacts(pydantic.BaseModel):
    """Processor, cores and memory of a machine.

    Attributes
    ----------
    n_usable
        Cores that jobs may use.
    memory_bytes
        The memory of the machine; None if it is not known.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    cpu: Text
    n_usable: Annotated[int, pydantic.Field(ge=1, le=100_000)]
    memory_bytes: Annotated[int, pydantic.Field(ge=1, le=2**60)] | None
    architecture: Text

    @property
    def most_memory(self) -> float:
        """The memory that jobs share; infinite if it is not known."""
        return math.inf if self.memory_bytes is None else float(self.memory_bytes)

    def is_like(self, other: MachineFacts) -> bool:
        """Whether both are facts of one machine, or of two that are alike."""
        mine, theirs = self.most_memory, other.most_memory
        alike = mine == theirs or math.isclose(mine, theirs, rel_tol=_SAME_MEMORY)
        return alike and self.model_copy(update={"memory_bytes": other.memory_bytes}) == other

    def __str__(self) -> str:
        cores = f"{self.cpu}, {counted(self.n_usable, 'core')}"
        if self.memory_bytes is None:
            return cores
        return f"{cores}, {number(self.memory_bytes / 2**30, 3)} GiB of memory"


def machine_facts() -> MachineFacts:
    """Return what tells this machine from another."""
    found = describe_machine()
    return MachineFacts(
        cpu=found["cpu"][:_MOST_TEXT],
        n_usable=found["n_usable"] or found["n_threads"] or 1,
        memory_bytes=found["memory_bytes"],
        architecture=found["architecture"][:_MOST_TEXT],
    )


def usable_cpus() -> tuple[int, ...]:
    """Return the numbers of the CPUs that jobs may use: the core k of a layout is the k-th."""
    n_usable = machine_facts().n_usable  # a limit on CPU time may leave fewer
    has_affinity = hasattr(os, "sched_getaffinity")
    return tuple(sorted(os.sched_getaffinity(0)) if has_affinity else range(n_usable))[:n_usable]


def facts_of(header: Any) -> MachineFacts:
    """Return the facts that a file holds under "machine"; raise a ValueError if it holds none."""
    if not isinstance(header, dict):
        raise ValueError("it does not say of which machine it is")
    try:
        return validated(MachineFacts, header, "machine")
    except UsageError as error:
        raise ValueError(error.text) from None
