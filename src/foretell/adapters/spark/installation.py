"""Spark here: whether pyspark and a Java that it runs on are there, and what to install."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from foretell.errors import UsageError

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17
_ANSWER_S = 60.0


def check_spark() -> None:
    """Raise a UsageError that says what to install, unless Spark can be started here."""
    java = find_java()
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        has = "does not start" if version is None else f"is Java {version}"
        raise UsageError(f"{java} {has}, and Spark needs Java {OLDEST_JAVA} or newer; {_remedy()}")
    if importlib.util.find_spec("pyspark") is None:
        raise UsageError("the spark engine needs Spark: pip install 'foretell[spark]'")


def find_java() -> Path:
    """Return the program that Spark would start; a UsageError says how to get one."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
        raise UsageError(f"JAVA_HOME is {home}, and there is no Java there; {_remedy()}")
    found = shutil.which("java")
    if found is None:
        raise UsageError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none here; {_remedy()}"
        )
    return Path(found)


def java_version(java: Path) -> int | None:
    """Return the first number of the version; None if the program does not say one.

    Java 8 and older call themselves 1.8 and so on.
    """
    try:
        shown = subprocess.run(  # noqa: S603 - the program that Spark would start
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return None if found is None or shown.returncode != 0 else int(found[1])


def _remedy() -> str:
    return (
        "install it (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or set "
        "JAVA_HOME to the folder of one"
    )
