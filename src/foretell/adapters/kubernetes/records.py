"""Pods as a live scheduler knows them: since when, where, and which task each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretell.adapters.kubernetes.pods import Pod
from foretell.decide.placement.tasks import Task


@dataclass(eq=False)
class Record:
    """A pod, and what is known of it here.

    Attributes
    ----------
    order
        Its place in the order of arrival.
    seen_s, placed_s
        When it was first seen, and since when it has a node, by the monotonic clock.
    assumed
        The node that it is being bound to; empty if that is not under way.
    own
        The node that is kept free for it; empty if none is.
    """

    pod: Pod
    order: int
    seen_s: float
    placed_s: float = 0.0
    assumed: str = ""
    own: str = ""
    counted: str = ""  # the node whose room it takes
    target: str = ""  # the node that a move chose for it
    _task: tuple[Mapping[str, str], Task, list[str]] | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The node that it is bound to or assumed to be on; empty if there is none."""
        return "" if self.pod.is_finished else self.pod.node or self.assumed
