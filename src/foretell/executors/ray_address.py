"""Ray at an address: check within bounded time that a cluster is there, and lets us in."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping

from foretell.errors import Option, UsageError

_REACH_S = 5.0
_ANSWER_S = 30.0
#: Ray prints less, and does not report over the network that it was used.
_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def set_environment(more: Mapping[str, str] | None = None) -> None:
    """Set what Ray reads when it is imported, unless the user has set it."""
    for name, value in {**_ENVIRONMENT, **(more or {})}.items():
        os.environ.setdefault(name, value)


def is_installed(name: str = "ray") -> bool:
    """Whether a library is there, without importing it."""
    return importlib.util.find_spec(name) is not None


def check_cluster(address: str, *, variable: str = "", option: Option | None = None) -> None:
    """Raise a UsageError unless a Ray cluster answers there, and lets us in.

    Ray itself tries for 80 seconds and then ends the process, so it is tried in another one.

    Parameters
    ----------
    variable, option
        What the address was given by, for the message.
    """
    try:
        _check_listening(address)
        _check_answering(address)
    except UsageError as error:
        named = f"{variable}={address}" if variable else address
        text = error.text if option else f"{named}: {error.text}"
        raise UsageError(text, option=option) from None


def _check_listening(address: str) -> None:
    """Raise a UsageError unless something listens at an address of the form host:port."""
    if address.startswith("ray://"):
        raise UsageError("run this on a node of the cluster, and give its host:port")
    parts = re.fullmatch(r"(\[[^\]]+\]|[^\[\]:/]+):(\d{1,5})", address)
    if parts is None or int(parts[2]) > 65535:
        raise UsageError("must be 'ray', or an address such as 10.0.0.5:6379")
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), _REACH_S).close()
    except OSError as error:
        raise UsageError(
            f"no Ray cluster can be reached there ({error.strerror or error}). Start one with: "
            f"ray start --head --port={parts[2]}"
        ) from None


def _check_answering(address: str) -> None:
    code = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(  # noqa: S603 - our own line of code
            [sys.executable, "-c", code, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            env={**os.environ, "RAY_BACKEND_LOG_LEVEL": "warning"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError("something answers there, but not a Ray cluster") from None
    if tried.returncode != 0:
        raise UsageError(_refusal(tried.stderr))


def _refusal(text: str) -> str:
    if "AuthToken" in text or "AuthenticationError" in text:
        return (
            "the Ray cluster does not accept our token; set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH "
            "to a file that holds that of the cluster"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Ray refuses: {lines[-1] if lines else 'it does not say why'}"
