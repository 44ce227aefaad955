"""The tree as the tidy tests see it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One module of the package."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def parts(self) -> tuple[str, ...]:
        """The dotted name below `skerry`."""
        return tuple(self.name.split(".")[1:])


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    src = ROOT / "src"
    found = [
        Source(name=module_name(path.relative_to(src)), path=path, tree=parsed(path))
        for path in sorted(src.rglob("*.py"))
    ]
    assert found, "there is nothing to check"
    return found


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
