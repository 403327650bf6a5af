"""Enclaves: the interface of a secure backend, and Gramine on SGX behind it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foretell.errors import ForetellError
from foretell.tasks.isolation.quotes import Quote

_DEVICES = ("/dev/sgx_enclave", "/dev/sgx/enclave")
_TOOLS = ("gramine-sgx", "gramine-manifest", "gramine-sgx-sign", "is-sgx-available")
#: Threads of the runtime itself: an enclave has a fixed number of them.
_OWN_THREADS = 4
_LEAST_BYTES = 2**28


class EnclaveMissing(ForetellError):  # noqa: N818 - it tells what is missing
    """There is no enclave here; a task that asks for one is never run with less."""


class Channel(Protocol):
    """A connection into an enclave that has proved what it runs."""

    def call(self, sealed: bytes) -> bytes:
        """Send sealed arguments, and return sealed results."""

    def close(self) -> None:
        """End the enclave."""


class SecureBackend(Protocol):
    """A trusted environment that runs tasks and proves what it runs."""

    def missing(self) -> str | None:
        """Say what it lacks here; None if it can be used."""

    def measure(self, code: bytes) -> bytes:
        """Return the measurement that a proof must show for some code."""

    def attest(self, nonce: bytes) -> Quote:
        """Return a proof that is bound to a nonce."""

    def open(self, policy: object) -> Channel:
        """Start it, and release keys only for a verified proof."""


@dataclass(frozen=True)
class Manifest:
    """What a Gramine enclave may use.

    Attributes
    ----------
    trusted
        Files and folders whose hashes become part of the measurement.
    encrypted
        Folders that are readable only inside.
    memory_bytes
        The predicted peak memory of its tasks.
    """

    entry: str
    trusted: Sequence[str]
    encrypted: Sequence[str] = ()
    workers: int = 1
    memory_bytes: int = _LEAST_BYTES

    @property
    def enclave_bytes(self) -> int:
        """Its size: a power of two, as SGX requires, with room for the interpreter."""
        wanted = max(self.memory_bytes + _LEAST_BYTES, 2 * _LEAST_BYTES)
        return 1 << (wanted - 1).bit_length()

    def to_toml(self) -> str:
        """Write the manifest in Gramine's format.

        >>> "dcap" in Manifest("/usr/bin/python3", ["/usr/lib/"]).to_toml()
        True
        """
        import tomli_w

        mounts = [{"path": path, "uri": f"file:{path}"} for path in self.trusted]
        mounts += [
            {"path": path, "uri": f"file:{path}", "type": "encrypted", "key_name": "owner"}
            for path in self.encrypted
        ]
        return tomli_w.dumps(
            {
                "libos": {"entrypoint": self.entry},
                "loader": {
                    "log_level": "error",
                    "env": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                },
                "fs": {"mounts": mounts},
                "sys": {"stack": {"size": "2M"}},
                "sgx": {
                    "debug": False,
                    "enclave_size": f"{self.enclave_bytes // 2**20}M",
                    "max_threads": self.workers + _OWN_THREADS,
                    "remote_attestation": "dcap",
                    "trusted_files": [f"file:{path}" for path in (self.entry, *self.trusted)],
                },
            }
        )


class Gramine:
    """Gramine on SGX; without hardware it says so, and is not replaced by anything weaker.

    Parameters
    ----------
    root
        Where device files are looked for.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def missing(self) -> str | None:
        """Say what it lacks here; None if it can be used."""
        if not any((self._root / device.lstrip("/")).exists() for device in _DEVICES):
            return f"an SGX device ({_DEVICES[0]}); the processor or its firmware offers none"
        absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if absent:
            return f"Gramine ({', '.join(absent)})"
        tool = shutil.which("is-sgx-available")
        assert tool is not None
        done = subprocess.run([tool], capture_output=True, check=False)  # noqa: S603 - found above
        return None if done.returncode == 0 else "SGX with flexible launch control and DCAP"

    def measure(self, code: bytes) -> bytes:
        """Return the hash of code, to which keys of a channel are bound."""
        return hashlib.sha256(code).digest()


def require_enclave(backend: Gramine | None = None) -> None:
    """Raise an EnclaveMissing that says what is missing."""
    lacking = (backend or Gramine()).missing()
    if lacking is None:
        lacking = "a tested way to run tasks inside: foretell writes its manifest and checks quotes"
    raise EnclaveMissing(
        f"there is no enclave here: it lacks {lacking}. A task that asks for one is not run with "
        "less, unless its option allow is 'sandbox'."
    )
