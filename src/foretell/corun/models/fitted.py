"""A fitted model of co-runs in a file: errors for intervals, and what is learned where it wins."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from foretell._version import __version__
from foretell.corun.calibration import GROUPS, Calibration
from foretell.corun.facts import MachineFacts, facts_of
from foretell.corun.models.gru.network import Array, check_arrays
from foretell.corun.models.residual import Residual
from foretell.errors import ModelError
from foretell.files.content import read_content
from foretell.model.saved.file import Archive, pack

_FORMAT = 1
_MOST_BYTES = 2**26
_MOST_ERRORS = 100_000


@dataclass(frozen=True, eq=False)
class FittedCoRuns:
    """What was learned from measured co-runs.

    Attributes
    ----------
    calibration
        Errors on programs that were left out, by kind of co-run.
    residual, residual_kinds
        The factor on the fluid model, and the kinds of co-runs in which it wins on programs that
        it never saw: it is used for these only. None where it wins in none.
    facts
        The machine that measured.
    network, gru_weights
        The arrays of the sequence-to-sequence model, and its weight in predictions by kind: zero
        unless it makes them better for programs that it never saw.
    """

    calibration: Calibration
    residual: Residual | None
    facts: MachineFacts
    residual_kinds: frozenset[str] = frozenset()
    network: Mapping[str, Array] | None = None
    gru_weights: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the content of a file; reading it executes nothing."""
        header = {
            "co-runs": _FORMAT,
            "errors": {group: list(e) for group, e in self.calibration.errors.items()},
            "source": self.calibration.source,
            "residual": None if self.residual is None else self.residual.state(),
            "residual_kinds": sorted(self.residual_kinds),
            "gru_weights": dict(self.gru_weights),
            "machine": self.facts.model_dump(),
            "foretell": __version__,
        }
        return pack(header, self.network or {})


def read_fitted(path: Path | str) -> FittedCoRuns:
    """Read a fitted model; a ModelError says what is wrong with the file."""
    try:
        content = read_content(Path(path), _MOST_BYTES)
        archive = Archive(io.BytesIO(content), path)
        return _fitted(archive.header(), archive.arrays())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ModelError as error:
        raise ModelError(error.text.replace("`foretell fit`", "foretell corun fit")) from None
    except (ValueError, TypeError, KeyError, RecursionError, zipfile.BadZipFile, EOFError) as error:
        raise ModelError(
            f"{path} is not a model of co-runs: {error}. foretell corun fit writes one."
        ) from None


def _fitted(header: Any, arrays: Mapping[str, NDArray[Any]]) -> FittedCoRuns:
    if not isinstance(header, dict) or header.get("co-runs") != _FORMAT:
        raise ValueError("its header does not say that it is one")
    errors = header.get("errors")
    if not isinstance(errors, dict) or not errors or not errors.keys() <= {*GROUPS}:
        raise ValueError("it has no errors by kind of co-run")
    found = {}
    for group, values in errors.items():
        numbers = [float(v) for v in values]
        if not 0 < len(numbers) <= _MOST_ERRORS or not all(abs(v) < 50 for v in numbers):
            raise ValueError(f"its errors of '{group}' cannot be")
        found[group] = tuple(numbers)
    residual, kinds = header.get("residual"), header.get("residual_kinds", [])
    if not isinstance(kinds, list) or not all(kind in GROUPS for kind in kinds):
        raise ValueError("it does not say for which kinds of co-runs its residual is")
    weights = header.get("gru_weights", {})
    if not isinstance(weights, dict) or not weights.keys() <= {*GROUPS}:
        raise ValueError("it does not say for which kinds of co-runs its network is")
    weights = {kind: float(weight) for kind, weight in weights.items()}
    if not all(0 <= w <= 1 and (arrays or w == 0) for w in weights.values()):
        raise ValueError("the weights of its network cannot be")
    return FittedCoRuns(
        Calibration(found, str(header.get("source", ""))[:500]),
        None if residual is None else Residual.of(residual),
        facts_of(header.get("machine")),
        frozenset(kinds),
        check_arrays(arrays) if arrays else None,
        weights,
    )
