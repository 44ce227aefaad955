"""A small recording to work with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.codec.envelope import CREATE, Update
from skerry.recording.gaps import Gap
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

VESSEL = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }").Vessel
START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def make_recording(folder: Path, count: int = 5, *, gap: bool = False, sender: int = 2) -> Path:
    """Vessels 1 to `count`, a second apart, each made by one update."""
    with RecordingWriter(folder, space="local") as writer:
        writer.describe(VESSEL.descriptor)
        for number in range(1, count + 1):
            obj: Any = VESSEL(mmsi=number, name=f"V{number}")
            writer.append(
                Update(
                    type_name="Vessel",
                    subject=f"/Vessel/{number}",
                    operation=CREATE,
                    present=6,
                    key=b"\x81" + bytes([number]),
                    payload=obj.encode(),
                    fingerprint=fingerprint(VESSEL.descriptor),
                    node=7,
                    sender=sender,
                    sequence=number,
                    position=number,
                    time_ns=START_NS + number * SECOND_NS,
                )
            )
        if gap:
            writer.append_gap(
                Gap(count=3, first=9, stop=12, reason="lost", first_ns=START_NS), node=7
            )
    return folder


@pytest.fixture
def recording(clean_place: Path) -> Path:
    return make_recording(clean_place / "rec", gap=True)


@pytest.fixture
def made(clean_place: Path) -> Callable[..., Path]:
    return lambda name, *args, **options: make_recording(clean_place / name, *args, **options)
