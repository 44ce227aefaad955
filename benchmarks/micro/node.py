"""The cost of an update inside the node, from bytes of its publisher to bytes of subscribers.

No sockets and no peers; `macro/node.py` sets the whole way beside others. An update here is of
about sixty bytes, and a chunk of 500 of them is given at once, as a busy socket does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import skerry
from benchmarks.rows import Row, best_of
from skerry.engine.node import NodeCore
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire, frame_of
from skerry.protocol.machine import Address

CHUNK = 500
REPLAYED = 100_000
TYPES = skerry.define_types(
    """
    struct Tick [cached=false] {
        1: uint32 id; 2: float64 price; 3: float64 size; 4: string venue; 5: uint64 when;
    }
    struct Track { 1: [key] uint32 id; 2: float64 lat; 3: float64 lon; 4: string name; }
    """
)
Tick, Track = TYPES.Tick, TYPES.Track


def run() -> list[Row]:
    """CPU time of one update, and how fast a cache is replayed."""
    cases: dict[str, Callable[[], object]] = {}
    for count in (1, 4):
        cases[f"typed message, {count} subscribers"] = _load(
            [_frame(Tick(id=n, price=1.5, size=2.0, venue="XSTO", when=n)) for n in range(CHUNK)],
            "Tick",
            count,
        )
        cases[f"typed object, {count} subscribers"] = _load(
            [_frame(Track(id=n, lat=1.5, lon=2.0, name="Emma")) for n in range(CHUNK)],
            "Track",
            count,
        )
        cases[f"bytes, {count} subscribers"] = _load(
            [_frame(internal_class("SkerryBytes")(data=b"d" * 56), "/d") for _ in range(CHUNK)],
            "/d",
            count,
        )
    found = best_of(*cases.values(), seconds=6.0)
    rows = [
        Row(name=f"node, {name}", ours=ns / CHUNK, unit="ns")
        for name, ns in zip(cases, found, strict=True)
    ]
    return [*rows, Row(name="node, cache replayed to a client", ours=_replay(), unit="objects/s")]


class Client:
    """A client that is accepted and sends what it is given."""

    def __init__(self, node: NodeCore, number: int) -> None:
        self.address = Address("client", number, is_stream=True)
        self._node = node
        node.open(self.address, Wire(), 0)
        connect = internal_class("DotsMsgConnect")
        self.say(_frame(connect(clientName=f"c{number}", preloadCache=False, extensions=1)))

    def say(self, data: bytes) -> None:
        """Bytes to the node; what it answers is not looked at."""
        self._node.receive(data, self.address, 0)
        self._node.take_transmits()

    def join(self, group: str) -> None:
        """Ask for a type or for subjects."""
        join = internal_class("DotsMemberEvent").of_tag(1)
        self.say(_frame(internal_class("DotsMember")(groupName=group, event=join)))


def _load(frames: list[bytes], group: str, subscriber_count: int) -> Callable[[], object]:
    node, publisher = _node_with_publisher()
    for number in range(subscriber_count):
        Client(node, 10 + number).join(group)
    chunk = b"".join(frames)
    # The first of a kind takes the long way.
    publisher.say(chunk)
    return lambda: publisher.say(chunk)


def _replay() -> float:
    node, publisher = _node_with_publisher()
    for first in range(0, REPLAYED, CHUNK):
        tracks = range(first, first + CHUNK)
        publisher.say(b"".join(_frame(Track(id=n, lat=1.5, lon=2.0, name="Em")) for n in tracks))
    reader = Client(node, 10)
    started_ns = time.process_time_ns()
    reader.join("Track")
    while node.deadline_ns() == 0:
        node.advance(0)
        node.take_transmits()
    spent_s = (time.process_time_ns() - started_ns) / 1e9
    (row,) = [row for row in node.statistics().types if row.name == "Track"]
    assert row.ledger.delivered == REPLAYED
    return REPLAYED / spent_s


def _node_with_publisher() -> tuple[NodeCore, Client]:
    node = NodeCore()
    publisher = Client(node, 1)
    for cls in (Tick, Track):
        publisher.say(_frame(describe(cls.descriptor)))
    return node, publisher


def _frame(obj: Any, subject: str = "") -> bytes:
    header = Header(obj.descriptor.name)
    header.sent_time = 1.5e9
    header.attributes = int(obj.attributes)
    header.remove_obj = 0
    header.subject = subject
    return frame_of(header, obj.encode())
