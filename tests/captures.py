"""Captures of the output of commands in the documentation, made and compared by tests.

`SKERRY_WRITE_CAPTURES=1 make test ARGS=...` writes those of the tests that run. Otherwise a test
compares what a command prints with its capture, except for numbers, times, ids and the width of
columns, which differ from run to run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "captures"
WRITES = bool(os.environ.get("SKERRY_WRITE_CAPTURES"))

_CHANGES = (
    # A long path of the folder makes the node listen at a port instead.
    (re.compile(r"\bat (uds|tcp):\S+"), "at ENDPOINT"),
    (re.compile(r"(/\S*)?skerry-demo-\w+"), "skerry-demo"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "#"),
    (re.compile(r"[+-]?\d[\d.,:\u202f]*"), "#"),
    # One of something, or several.
    (re.compile(r"# (\w+?)(e?s)?\b"), r"# \1"),
    (re.compile(r"\b(bridge|engine|radar)\b"), "NODE"),
    # The node with the highest id is elected, and ids are random.
    (re.compile(r", elected\b"), ""),
    (re.compile(r"[ \t]+"), " "),
)


def compare(name: str, text: str, *, without: str = r"(?!)") -> None:
    """Compare text with a capture, or write the capture. Lines of both that match `without` need
    not be in the other one."""
    path = FOLDER / f"{name}.txt"
    if WRITES:
        lines = [line.rstrip() for line in text.strip("\n").splitlines()]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return
    shown, found = (shape(t, without) for t in (path.read_text(encoding="utf-8"), text))
    assert shown == found, (
        f"{path} differs; see tests/captures.py for how to write it again. "
        f"Only in it: {sorted(shown - found)}; only in the output: {sorted(found - shown)}"
    )


def shape(text: str, without: str) -> set[str]:
    """The distinct lines of a text, without what differs from run to run."""
    lines: set[str] = set()
    for line in text.splitlines():
        if re.search(without, line):
            continue
        for pattern, replacement in _CHANGES:
            line = pattern.sub(replacement, line)
        lines.add(line.strip())
    return lines - {""}
