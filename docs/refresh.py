"""Run the commands in the documentation again and paste what they print.

    python docs/refresh.py [FILE ...]

Three comments in a Markdown file are understood; each but ``run`` is followed by a fenced block.

    <!-- file: NAME -->       the block is written to this file
    <!-- run: COMMAND -->     the command is run, and nothing is shown
    <!-- output: COMMAND -->  the command is run, and the block becomes its output

All commands of one document run in one new directory, in which ``docs`` and ``examples`` are those
of this repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
STEP = re.compile(
    r"^<!-- (?P<kind>file|run|output): (?P<words>[^\n]+?) -->\n"
    r"(?:\n?(?P<fence>```\w*)\n(?P<block>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def run_steps(text: str, folder: Path, shell: Callable[[str, Path], str]) -> str:
    """Run the steps of a document in a folder; return the document with new outputs.

    The folder may have examples of its own.
    """
    for name in ("docs", "examples"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)

    def run(step: re.Match[str]) -> str:
        kind, words = step["kind"], step["words"]
        if kind == "file":
            (folder / words).write_text(step["block"], encoding="utf-8")
            return step[0]
        printed = shell(words, folder)
        if kind == "run":
            return step[0]
        lines = [line.rstrip() for line in printed.rstrip("\n").split("\n")]
        body = "\n".join([f"$ {words}", *lines])
        return f"<!-- output: {words} -->\n{step['fence']}\n{body}\n```"

    return STEP.sub(run, text)


def shell(command: str, folder: Path) -> str:
    """Run a command with the `foretell` of this interpreter; return all it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S602 - the commands are those of our own documentation
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def main() -> None:
    """Refresh the documents named, or all."""
    pages = [Path(name) for name in sys.argv[1:]]
    for path in pages or [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            fresh = run_steps(text, Path(folder), shell)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            sys.stdout.write(f"{path} has new outputs\n")


if __name__ == "__main__":
    main()
