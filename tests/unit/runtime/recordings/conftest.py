"""Fixtures for recordings on disk: updates of a fleet, and ways to record them."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import ACCESS, UPDATE, Update
from skerry.objects.base import key_of
from skerry.objects.typeset import TypeSet, define_types
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

FLEET = """
enum Color { 1: red, 2: green }
struct Vessel { 1: [key] uint32 mmsi; 2: float64 lat; 3: Color color; }
struct Port { 1: [key] string name; }
"""
TYPES = define_types(FLEET)
START_NS = 1_763_215_387_000_000_000


def make_update(number: int = 1, **facts: Any) -> Update:
    """An update of a vessel, a second after the one with the number before."""
    vessel = TYPES.Vessel(mmsi=number, lat=float(number))
    known: dict[str, Any] = {
        "type_name": "Vessel",
        "subject": f"/Vessel/{number}",
        "operation": UPDATE,
        "present": int(vessel.attributes),
        "key": bytes(key_of(vessel)),
        "payload": vessel.encode(),
        "space": "local",
        "fingerprint": fingerprint(TYPES.Vessel.descriptor),
        "sender": 3,
        "node": -9,
        "sequence": number,
        "position": number,
        "sent_ns": -1,
        "time_ns": START_NS + number * 1_000_000_000,
        "source": ACCESS,
    }
    return Update(**{**known, **facts})


def record(
    folder: Path,
    updates: Iterable[Update],
    *,
    rows_per_batch: int = 10,
    batches_per_segment: int = 0,
    is_described: bool = True,
) -> Recording:
    """A recording of the updates, cut into batches and segments as one likes."""
    with RecordingWriter(folder, RecordingConfig(), space="local") as writer:
        if is_described:
            writer.describe(TYPES.Vessel.descriptor)
            writer.describe(TYPES.Port.descriptor)
        batch_count = 0
        for update in updates:
            writer.append(update)
            if writer.rows.count >= rows_per_batch:
                writer.flush()
                batch_count += 1
                if batches_per_segment and batch_count % batches_per_segment == 0:
                    writer.seal()
    return Recording(folder)


def damage(path: Path, offset: int, bits: int = 0x55) -> None:
    """Flip bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= bits
    path.write_bytes(data)


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """No file can grow beyond the size, as on a disk that is full. The kernel sees to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal that would end the program, and so writing fails.
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def file_size_limit() -> Callable[[int], AbstractContextManager[None]]:
    return limit_file_size


@pytest.fixture
def types() -> TypeSet:
    return TYPES


@pytest.fixture
def update_of() -> Callable[..., Update]:
    return make_update


@pytest.fixture
def recorded() -> Callable[..., Recording]:
    return record


@pytest.fixture
def damaged() -> Callable[..., None]:
    return damage
