"""Fixtures for recorded rows: updates, and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from skerry.codec.envelope import ACCESS, UPDATE, Update
from skerry.recording.format import to_record_batch
from skerry.recording.rows import Rows


def make_update(number: int = 1, **facts: Any) -> Update:
    """An update that differs from those with other numbers."""
    known: dict[str, Any] = {
        "type_name": "Vessel",
        "subject": f"/Vessel/{number}",
        "operation": UPDATE,
        "present": 6,
        "key": bytes([0x81, number % 24]),
        "payload": b"\xa1\x01" + bytes([number % 24]),
        "space": "local",
        "fingerprint": 77,
        "sender": 3,
        "node": -9,
        "sequence": number,
        "position": number,
        "sent_ns": 900 + number,
        "time_ns": 1000 + number,
        "source": ACCESS,
    }
    return Update(**{**known, **facts})


def make_batch(*updates: Update) -> pa.RecordBatch:
    rows = Rows()
    for update in updates:
        rows.append_update(update)
    return to_record_batch(rows.take())


@pytest.fixture
def update_of() -> Callable[..., Update]:
    return make_update


@pytest.fixture
def batch_of() -> Callable[..., pa.RecordBatch]:
    return make_batch
