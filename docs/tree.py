"""Print the tree of the package: each file with the first line of its docstring.

Run it as ``python docs/tree.py``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "foretell"
_COLUMN = 34


def tree(folder: Path = PACKAGE, depth: int = 0) -> Iterator[str]:
    """Yield one line per folder and file; folders last, and told by their `__init__.py`."""
    yield _line(f"{folder.name}/", folder / "__init__.py", depth)
    files = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
    for path in sorted(files, key=lambda p: p.name.strip("_")):
        yield _line(path.name, path, depth + 1)
    for path in sorted(p for p in folder.iterdir() if (p / "__init__.py").exists()):
        yield from tree(path, depth + 1)


def _line(name: str, path: Path, depth: int) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return f"{'  ' * depth + name:<{_COLUMN}}{docstring.partition(chr(10))[0]}".rstrip()


if __name__ == "__main__":
    sys.stdout.write("\n".join(tree()) + "\n")
