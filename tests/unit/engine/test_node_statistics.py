"""The counters of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.origins import Origin

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: uint32 id; }
    struct Whole { 1: [key] uint32 id; 2: Part part; }
    struct Shout [cached=false] { 1: string text; }
    struct Guard [cleanup] { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Part, Whole, Shout, Guard = TYPES.Boat, TYPES.Part, TYPES.Whole, TYPES.Shout, TYPES.Guard
HERE = Origin(kind="tcp", host="127.0.0.1")


@pytest.fixture
def watcher(harbour: Harbour) -> Guest:
    """A client that wants boats."""
    guest = harbour.guest("watcher")
    guest.join("Boat")
    return guest


def statistics_of(statistics: Any, type_name: str) -> Any:
    return next(row for row in statistics.types if row.name == type_name)


def test_statistics_count_what_happened(harbour: Harbour, watcher: Guest) -> None:
    maker = harbour.guest("maker", origin=HERE)
    maker.publish(Boat(id=1, name="x"), Boat(id=2))
    statistics = harbour.node.statistics()
    assert statistics.started_ns == 1_700_000_000_000_000_000
    assert (statistics.client_count, statistics.group_count) == (2, 1)
    assert statistics.accepted_count == 2 + 1 + statistics_of(statistics, "DotsClient").accepted
    assert statistics.object_count == 4
    assert statistics.payload_bytes > 0
    assert (statistics.storage_waiting_count, statistics.storage_trouble) == (0, "")
    row = statistics_of(statistics, "Boat")
    assert (row.object_count, row.accepted, row.member_count) == (2, 2, 1)
    mine = next(client for client in statistics.clients if client.name == "maker")
    assert (mine.kind, mine.host, mine.stage) == ("tcp", "127.0.0.1", "connected")
    assert (mine.received_count, mine.accepted, mine.sent_count) == (4, 3, 2)
    assert mine.received_bytes > 0
    assert mine.queued_bytes_peak > 0
    assert sum(c.sent_bytes for c in statistics.clients) == statistics.sent_bytes
    assert sum(c.sent_count for c in statistics.clients) == statistics.sent_count
    assert sum(c.received_count for c in statistics.clients) == statistics.received_count
