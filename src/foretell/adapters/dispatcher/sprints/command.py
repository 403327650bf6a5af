"""Sprints by any script: one command begins them, and another ends them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pydantic

from foretell.adapters.dispatcher.sprints._base import Sprint, SprintError
from foretell.files.typed import validated

Words = Annotated[list[str], pydantic.Field(min_length=1)]


class Options(pydantic.BaseModel):
    """The commands, and how long each may take.

    Attributes
    ----------
    on, off
        What begins and ends a sprint; FORETELL_PIDS has the processes of the engine.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    on: Words
    off: Words
    time_limit_s: Annotated[float, pydantic.Field(gt=0, le=60)] = 5.0


class Command(Sprint):
    """Runs a command to begin a sprint, and another to end it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._options = validated(Options, settings, "sprint", "settings")

    def base(self) -> dict[str, Any]:
        """Return the command that ends a sprint."""
        return {"off": self._options.off, "time_limit_s": self._options.time_limit_s}

    def start(self, pids: Sequence[int]) -> None:
        """Run the command ``on``."""
        _run(self._options.on, self._options.time_limit_s, pids)

    def stop(self, pids: Sequence[int]) -> None:
        """Run the command ``off``."""
        _run(self._options.off, self._options.time_limit_s, pids)

    @classmethod
    def restore(cls, base: Mapping[str, Any]) -> None:
        """Run the command ``off``."""
        _run(base["off"], base["time_limit_s"], ())


def _run(command: Sequence[str], time_limit_s: float, pids: Sequence[int]) -> None:
    environment = {**os.environ, "FORETELL_PIDS": " ".join(map(str, pids))}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SprintError(f"{command[0]} did not end within {time_limit_s:g} s") from None
    except OSError as error:
        raise SprintError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SprintError(
            f"{command[0]} exited with {done.returncode}" + (f": {said[-1]}" if said else "")
        )
