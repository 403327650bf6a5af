"""Tasks that wait, and those that run again because their worker was lost: the rule for all."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foretell.executors._base import Done, Work, WorkerDied
from foretell.machines import Needs


@dataclass(eq=False)
class Ticket:
    """A task under way, and how often its worker was lost."""

    work: Work
    task: Any
    needs: Needs
    n_lost: int = 0


class RetryQueue(deque[Ticket]):
    """Tasks in their order; one whose worker was lost comes first, until it was lost too often.

    Parameters
    ----------
    most_losses
        A task that is lost more often than this is taken for the cause.
    log
        Gets a warning of every loss.
    name
        What a task is called in the log.
    """

    def __init__(
        self,
        most_losses: int,
        log: logging.Logger | None = None,
        name: Callable[[Any], str] = lambda task: "a worker",
    ) -> None:
        super().__init__()
        self._most_losses = most_losses
        self._log = log or logging.getLogger(__name__)
        self._name = name

    def lost(self, ticket: Ticket, reason: str) -> Done | None:
        """Let a task whose worker was lost run again; return its end if that was too often."""
        ticket.n_lost += 1
        self._log.warning("%s was lost: %s", self._name(ticket.task), reason)
        if ticket.n_lost <= self._most_losses:
            self.appendleft(ticket)
            return None
        return Done(ticket.task, WorkerDied(reason), n_lost=ticket.n_lost)
