"""A small fleet, recorded and brought into tables once for all tests of these commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import ACCESS, CREATE, REMOVE, UPDATE, Update
from skerry.objects.base import key_of
from skerry.objects.typeset import define_types
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

TYPES = define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: timepoint seen; }
    struct Hail [cached=false] { 1: string text; }
    """
)
START_NS = 1_794_751_200_000_000_000
"""2026-11-15T14:00:00Z"""


def fleet() -> Iterator[Update]:
    """One vessel that stays and moves, one that goes, and a word."""
    maren, wren = TYPES.Vessel(mmsi=1, name="Maren", lat=52.0), TYPES.Vessel(mmsi=2, name="Wren")
    said = [
        (CREATE, maren),
        (CREATE, wren),
        (UPDATE, TYPES.Vessel(mmsi=1, lat=52.5, seen=1_794_751_203.5)),
        (UPDATE, TYPES.Hail(text="ahoy")),
        (REMOVE, TYPES.Vessel(mmsi=2)),
    ]
    for number, (operation, obj) in enumerate(said, 1):
        struct = type(obj).descriptor
        key = getattr(obj, "mmsi", None)
        yield Update(
            type_name=struct.name,
            subject=f"/{struct.name}" + (f"/{key}" if key else ""),
            operation=operation,
            present=int(obj.attributes),
            key=bytes(key_of(obj)),
            payload=obj.encode(),
            space="bay",
            fingerprint=fingerprint(struct),
            sender=3,
            node=7,
            sequence=number,
            position=number,
            sent_ns=START_NS + number * 10**9 - 2_000_000,
            time_ns=START_NS + number * 10**9,
            source=ACCESS,
        )


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet, a second between one update and the next."""
    folder = tmp_path_factory.mktemp("recordings") / "bay"
    with RecordingWriter(
        folder, RecordingConfig(durability=Durability.NONE), space="bay"
    ) as writer:
        for cls in (TYPES.Vessel, TYPES.Hail):
            writer.describe(cls.descriptor)
        for update in fleet():
            writer.append(update)
        writer.seal()
    return folder


@pytest.fixture(scope="session")
def lake(spark: Any, recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the fleet."""
    from skerry.spark.jobs.loop import run_all
    from skerry.spark.lake.lake import Lake

    folder = tmp_path_factory.mktemp("tables") / "lake"
    run_all(Lake(spark, folder), recordings)
    return folder
