"""Sprints by the frequency of the processor, where Linux lets it be set."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic

from foretell.adapters.dispatcher.sprints._base import Sprint, SprintError
from foretell.files.typed import validated

ROOT = Path("/sys/devices/system/cpu/cpufreq")
_MOST, _GOVERNOR = "scaling_max_freq", "scaling_governor"
_LEAST_POSSIBLE, _MOST_POSSIBLE = "cpuinfo_min_freq", "cpuinfo_max_freq"

Megahertz = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class Options(pydantic.BaseModel):
    """Frequencies outside of sprints and in them.

    Attributes
    ----------
    base_mhz, sprint_mhz
        The highest frequency allowed; by default what is set, and what the processor can do.
    governor
        The governor in sprints; by default it stays.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    base_mhz: Megahertz | None = None
    sprint_mhz: Megahertz | None = None
    governor: str | None = None


class CpuFrequency(Sprint):
    """Raises the highest frequency that is allowed."""

    def __init__(self, settings: Mapping[str, Any], root: Path | None = None) -> None:
        super().__init__(settings)
        self._options = validated(Options, settings, "sprint", "settings")
        self._policies = sorted((ROOT if root is None else root).glob("policy*"))
        self._base: dict[str, str] | None = None

    def refusal(self) -> str | None:
        """Say whether frequencies can be set here."""
        if not self._policies:
            return "this machine does not let its frequency be set (there is no cpufreq)"
        files = [self._policies[0] / _MOST]
        files += [self._policies[0] / _GOVERNOR] if self._options.governor else []
        for file in files:
            if not os.access(file, os.W_OK):
                return f"there is no right to write {file}; run it as root, or allow that file"
        return None

    def base(self) -> dict[str, Any]:
        """Return what each file has now; later, what each had at first."""
        if self._base is None:
            names = [_MOST, _GOVERNOR] if self._options.governor else [_MOST]
            self._base = {str(p / n): _read(p / n) for p in self._policies for n in names}
        return {"files": self._base}

    def open(self) -> None:
        """Set the frequency outside of sprints."""
        self.base()
        self.stop(())

    def start(self, pids: Sequence[int]) -> None:
        """Allow the frequency of sprints."""
        for policy in self._policies:
            if self._options.governor is not None:
                _write(policy / _GOVERNOR, self._options.governor)
            _write(policy / _MOST, _frequency(policy, self._options.sprint_mhz))

    def stop(self, pids: Sequence[int]) -> None:
        """Allow no more than the usual frequency."""
        files = self.base()["files"]
        self.restore(self.base())
        if self._options.base_mhz is not None:
            for policy in self._policies:
                if str(policy / _MOST) in files:
                    _write(policy / _MOST, _frequency(policy, self._options.base_mhz))

    @classmethod
    def restore(cls, base: Mapping[str, Any]) -> None:
        """Write back what each file had."""
        failures = []
        for file, value in base["files"].items():
            try:
                _write(Path(file), value)
            except SprintError as error:  # the others are still put back
                failures.append(error)
        if failures:
            raise failures[0]


def _frequency(policy: Path, mhz: float | None) -> str:
    """Return a frequency in kHz, within what the processor can do; by default the highest."""
    most = int(_read(policy / _MOST_POSSIBLE))
    if mhz is None:
        return str(most)
    least = most
    with contextlib.suppress(SprintError):
        least = int(_read(policy / _LEAST_POSSIBLE))
    return str(min(most, max(least, round(mhz * 1000))))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise SprintError(f"{file} cannot be read: {error.strerror}") from None


def _write(file: Path, value: str) -> None:
    # Not write_text, which would make a file that the kernel did not.
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SprintError(f"{file} cannot be written: {error.strerror}") from None
