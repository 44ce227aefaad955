"""Bounds: each one is kept by some module, and some test reaches it."""

from __future__ import annotations

import re
from pathlib import Path

from skerry import limits


def words(folder: Path, *, but: str) -> set[str]:
    texts = [p.read_text(encoding="utf-8") for p in folder.rglob("*.py") if p.name != but]
    return set(re.findall(r"\w+", " ".join(texts)))


def bounds() -> set[str]:
    return {name for name in vars(limits) if name.isupper()}


def test_every_bound_is_kept_by_some_module(root: Path) -> None:
    unused = bounds() - words(root / "src", but="limits.py")
    assert not unused, ", ".join(sorted(unused))


def test_every_bound_is_named_by_a_test(root: Path) -> None:
    untested = bounds() - words(root / "tests", but="test_limits.py")
    assert not untested, ", ".join(sorted(untested))
