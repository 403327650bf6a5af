"""The process that Spark forks its workers in Python from, with what they need imported already.

When a job is cut short its workers are ended, and the next job waits for new ones. Spark's own
daemon imports everything after each fork, from a zip file, which is half a second of work.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Import what workers need, and fork them as Spark asks."""
    leave_zip()
    import pyspark.worker  # noqa: F401 - for the forks
    from pyspark.daemon import manager

    manager()


def leave_zip() -> None:
    """Take pyspark from its folder where there is one: a zip is read again by each fork."""
    folders = [path for path in sys.path if not path.endswith("pyspark.zip")]
    if any(Path(path, "pyspark", "worker.py").exists() for path in folders):
        sys.path[:] = folders
        sys.path_importer_cache.clear()


if __name__ == "__main__":
    main()
