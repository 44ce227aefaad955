"""Updates of many types in any order: the short way of a node gives what the long way gives.

One node gets the bytes of its publishers in pieces of any size, the other one frame at a time and
forgets every header behind each. What their clients receive and what they count is the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.engine.node import NodeCore
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import NEVER, Header
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, Transmit

pytestmark = pytest.mark.slow

TYPES = skerry.define_types(
    "".join(
        f"struct Kind{index} [cached={'true' if index % 2 else 'false'}] "
        "{ 1: [key] uint32 id; 2: float64 size; 3: string name; 4: [key] string part; }\n"
        for index in range(6)
    )
)
CLASSES = [getattr(TYPES, f"Kind{index}") for index in range(6)]


class Talker:
    """A client whose bytes are seen as they are."""

    def __init__(self, node: NodeCore, number: int, version: int, extensions: int) -> None:
        self.node = node
        self.wire = OldWire() if version == 1 else Wire()
        self.address = Address("client", number, is_stream=True)
        self.heard: list[bytes] = []
        node.open(self.address, OldWire() if version == 1 else Wire(), 0)
        connect = internal_class("DotsMsgConnect")(clientName=f"c{number}", preloadCache=False)
        if extensions:
            connect.extensions = extensions
        self.say(self.frame(connect))
        for cls in CLASSES:
            self.say(self.frame(describe(cls.descriptor)))

    def frame(self, obj: Any, payload: bytes | None = None, **facts: Any) -> bytes:
        header = Header(obj.descriptor.name)
        header.sent_time = 1.5
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        for name, value in facts.items():
            setattr(header, name, value)
        return self.wire.frame(header, obj.encode() if payload is None else payload)

    def say(self, data: bytes) -> None:
        self.node.receive(data, self.address, 0)

    def join(self, group: str, **facts: Any) -> None:
        event = internal_class("DotsMemberEvent").of_tag(facts.pop("event", 1))
        member = internal_class("DotsMember")(groupName=group, event=event, **facts)
        self.say(self.frame(member))


class Place:
    """A node, its publishers and its subscribers."""

    def __init__(self, joins: list[tuple[int, int]]) -> None:
        self.node = NodeCore(wall_offset_ns=10**18)
        # With and without subjects, and of version 1; the last subscriber wants origins too.
        kinds = [(2, 1), (2, 0), (1, 0), (2, 3)]
        self.publishers = [Talker(self.node, 1 + n, *kind) for n, kind in enumerate(kinds[:3])]
        self.subscribers = [Talker(self.node, 10 + n, *kind) for n, kind in enumerate(kinds)]
        filtered = self.subscribers[0]
        where = make_filter(CLASSES[0].descriptor, "size > 2.0", None)
        filtered.join("Kind0", filter=where, subscriptionId=5)
        filtered.join("Kind1", filter=where, subscriptionId=6)
        self.subscribers[3].join("/own/...")
        self.subscribers[3].join("/Kind2/1/*")
        for who, what in joins:
            self.subscribers[who].join(f"Kind{what}")
        self.carry()

    def carry(self) -> None:
        """Hand out all there is; replays go on to their end."""
        by_address = {talker.address: talker for talker in [*self.publishers, *self.subscribers]}
        while True:
            transmits = self.node.take_transmits()
            for transmit in transmits:
                assert isinstance(transmit, Transmit)
                by_address[transmit.destination].heard.append(getattr(transmit, "data", b"cut"))
            if self.node.deadline_ns() == 0:
                self.node.advance(0)
            elif not transmits:
                return

    def forget_headers(self) -> None:
        for talker in self.publishers:
            client = self.node._table.by_address.get(talker.address)
            if client is not None:
                client.queue.relay.forget()

    def heard(self) -> list[bytes]:
        return [b"".join(talker.heard) for talker in [*self.publishers, *self.subscribers]]

    def counted(self) -> Any:
        found = self.node.statistics()
        # The greatest queue depends on how the bytes came.
        return replace(
            found, clients=tuple(replace(row, queued_bytes_peak=0) for row in found.clients)
        )


def update_frame(talker: Talker, update: dict[str, Any]) -> bytes:
    obj = CLASSES[update["kind"]](id=update["id"], part="p")
    if update["size"] is not None:
        obj.size = update["size"]
    if update["name"] is not None:
        obj.name = update["name"]
    payload = obj.encode()
    if update["form"] == "order" and payload[0] == 0xA3:
        # The last field before the others: in order, but not as an encoder writes it.
        rest, part = payload[1:-3], payload[-3:]
        payload = payload[:1] + part + rest
    elif update["form"] == "unknown" and payload[0] < 0xB7:
        payload = bytes((payload[0] + 1,)) + payload[1:] + b"\x09\x05"
    attributes = int(obj.attributes) | (8 if update["clears"] else 0)
    is_remove = update["form"] == "remove" and update["kind"] % 2
    facts: dict[str, Any] = {"attributes": attributes, "sent_time": update["time"]}
    if is_remove:
        facts["remove_obj"] = 1
    if update["subject"]:
        facts["subject"] = update["subject"]
    return talker.frame(obj, payload, **facts)


UPDATES = st.fixed_dictionaries(
    {
        "who": st.integers(0, 2),
        "kind": st.integers(0, 5),
        "id": st.integers(0, 2),
        "size": st.sampled_from([None, 1.0, 3.0]),
        "name": st.sampled_from([None, "", "Emma", "x" * 300]),
        "subject": st.sampled_from(["", "", "", "/own/a", "/own/b"]),
        "clears": st.booleans(),
        "time": st.sampled_from([1.0, 2.5, NEVER]),
        "form": st.sampled_from(["", "", "", "", "order", "unknown", "remove"]),
    }
)
MEMBERS = st.tuples(st.just("join"), st.integers(0, 3), st.integers(0, 5), st.integers(1, 2))
STEPS = st.lists(st.lists(UPDATES, min_size=1, max_size=30) | MEMBERS, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    joins=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12),
    steps=STEPS,
    cut_bytes=st.integers(1, 5000),
)
def test_short_way_gives_what_the_long_way_gives(
    joins: list[tuple[int, int]], steps: list[Any], cut_bytes: int
) -> None:
    short, long = Place(joins), Place(joins)
    for step in steps:
        if isinstance(step, tuple):
            _, who, what, event = step
            for place in (short, long):
                place.subscribers[who].join(f"Kind{what}", event=event)
        else:
            _publish(short, long, step, cut_bytes)
        short.carry()
        long.carry()
    assert short.heard() == long.heard()
    assert short.counted() == long.counted()
    assert short.counted().unexplained == 0


def _publish(short: Place, long: Place, updates: list[dict[str, Any]], cut_bytes: int) -> None:
    """Each publisher sends what it has at once, in pieces; or frame by frame."""
    for who, talker in enumerate(short.publishers):
        frames = [update_frame(talker, update) for update in updates if update["who"] == who]
        data = b"".join(frames)
        for start in range(0, len(data), cut_bytes):
            talker.say(data[start : start + cut_bytes])
        for frame in frames:
            long.publishers[who].say(frame)
            long.forget_headers()
        # A turn may end before all of it is processed (the first use of several types). The next
        # publisher must not be served in between, since publishers have no order among each other.
        short.carry()
        long.carry()
