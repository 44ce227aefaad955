"""Writes the table of packages in docs/internals/map.md from the docstrings of the packages.

`python tools/write_map.py` after a package was added, moved or described differently. The text
around the table is written by hand.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "skerry"
PAGE = ROOT / "docs" / "internals" / "map.md"
HEAD = "| package | lines | what it contains |\n|---|---|---|\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(HEAD)
    after = rest[rest.index("\n\n") :]
    PAGE.write_text(f"{before}{HEAD}{table()}{after}", encoding="utf-8")
    print(f"wrote {PAGE.name}")


def table() -> str:
    """A row for each package below `skerry`: its name, its lines without sub-packages, its map."""
    packages = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
    return "\n".join(_row(package) for package in packages)


def _row(package: Path) -> str:
    name = package.relative_to(SOURCE).as_posix()
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = [path for path in package.iterdir() if path.suffix in {".py", ".pyx"}]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules)
    return f"| `{name}` | {lines} | {doc.splitlines()[0].replace('|', ' or ')} |"


if __name__ == "__main__":
    main()
