"""Type files for the commands that work with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

FLEET = """\
/// What a vessel is for.
enum Purpose {
    1: cargo,
    2: tanker //< Liquids.
}

/// A ship.
struct Vessel [persistent, owner="harbour"] {
    1: [key] uint32 mmsi;
    2: [ctor, default='"Anna"'] string name; //< As painted.
    3: Purpose purpose;
    4: [removed] float32 draught;
}
"""


@pytest.fixture
def fleet(clean_place: Path) -> Path:
    """`fleet.dots`, without a fault, in the folder where commands run."""
    path = clean_place / "fleet.dots"
    path.write_text(FLEET, encoding="utf-8")
    return path


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Sets the standard input of the next command."""

    def feed(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return feed
