"""The map of the code names what exists, and each package lists its modules."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

LINES_TOLERANCE = 0.25
"""By which the lines of a package may differ from the page before it has to be written again."""


def test_files_on_the_map_exist(root: Path) -> None:
    text = (root / "docs" / "internals" / "map.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_/]+\.pyx?)`", text))
    assert len(named) > 30
    assert {name for name in named if not (root / "src" / "skerry" / name).exists()} == set()


def test_table_of_packages_is_current(root: Path) -> None:
    text = (root / "docs" / "internals" / "map.md").read_text(encoding="utf-8")
    tool = runpy.run_path(str(root / "tools" / "write_map.py"))
    shown, actual = rows(text.partition(tool["HEAD"])[2]), rows(tool["table"]())
    hint = "run tools/write_map.py"
    assert {name: about for name, (_, about) in shown.items()} == {
        name: about for name, (_, about) in actual.items()
    }, hint
    for name, (lines, _) in actual.items():
        assert abs(shown[name][0] - lines) <= 50 + LINES_TOLERANCE * lines, f"{name}: {hint}"


def test_docstring_of_each_package_lists_its_modules(sources: list[Any]) -> None:
    missing = []
    for source in sources:
        if source.path.name != "__init__.py" or source.path.parent.name == "skerry":
            continue
        text = ast.get_docstring(source.tree) or ""
        for path in source.path.parent.iterdir():
            is_part = path.suffix in {".py", ".pyx"} or (path / "__init__.py").exists()
            if is_part and path.stem != "__init__" and not re.search(rf"\b{path.stem}\b", text):
                missing.append(f"{source.name}: {path.stem}")
    assert missing == []


def rows(text: str) -> dict[str, tuple[int, str]]:
    found = re.findall(r"^\| `([a-z_/]+)` \| (\d+) \| (.+) \|$", text, flags=re.MULTILINE)
    return {name: (int(lines), about) for name, lines, about in found}
