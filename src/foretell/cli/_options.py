"""Options as the command line writes them: ``max_energy`` is ``--max-energy``."""

from __future__ import annotations

import shlex

from foretell.errors import Option

#: Options whose flag is not their Python name with hyphens.
_FLAGS = {"most": "--max", "least": "--min", "output": "-o", "form": "--as", "n_jobs": "--jobs",
          "time_limit_s": "--time-limit"}  # fmt: skip


def flag(option: Option) -> str:
    """Write an option as on the command line.

    >>> print(flag(Option("allow_far")), flag(Option("fix", "8", key="nodes")))
    --allow-far --fix nodes=8
    """
    word = _FLAGS.get(option.name, "--" + option.name.replace("_", "-"))
    if option.key is not None:
        return f"{word} {option.key}={option.value or '...'}"
    return word if option.value is None else f"{word} {shlex.quote(option.value)}"
