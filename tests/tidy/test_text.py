"""No file of the tree has paths of a machine, numbers of a tracker, or open tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SKIPPED = {
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "results",
}
# The path of Goby's sockets, `/tmp/goby_PLATFORM`, is part of its protocol.
MACHINE_PATH = re.compile(r"(?<![\w./<-])/(?:home|root|tmp|work)/(?!goby_)\w")
TRACKER = re.compile(r"\b(?:issue|ticket|bug|pull request)\s*(?:#|no\.?\s*)?\d+", re.IGNORECASE)
LEFT_OPEN = re.compile(r"\b(?:TODO|FIXME|XXX)\b")


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or not path.is_file() or path == Path(__file__):
            continue
        if any(part.endswith(".egg-info") for part in relative.parts):
            continue
        try:
            yield relative, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, TRACKER, LEFT_OPEN], ids=["paths", "tracker", "open"]
)
def test_no_file_has_such_text(root: Path, pattern: re.Pattern[str]) -> None:
    wrong = [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts(root)
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "see /home/someone/file"),
        (MACHINE_PATH, '"/tmp/x"'),
        (TRACKER, "fixes issue #12"),
        (TRACKER, "Bug 7"),
        (LEFT_OPEN, "# TODO later"),
    ],
)
def test_such_text_is_found(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)
