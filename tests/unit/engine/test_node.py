"""The node: what strangers may send it, and what it keeps to itself."""

from __future__ import annotations

import math

import cbor2
import pytest

import skerry
from skerry.engine.node import NodeCore
from skerry.limits import GROUP_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.connection import Arrival, Ended
from skerry.protocol.access.header import ABSENT, Header
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect
from skerry.schema.model import StructType

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: uint32 id; }
    struct Whole { 1: [key] uint32 id; 2: Part part; }
    """
)
LONGER_BOAT = skerry.define_types(
    "struct Boat { 1: [key] uint32 id; 2: string name; 3: float64 length; }"
).Boat
GAP_NS = 10_000_000_000


class Harbour:
    """A node with clients, all of them in this process."""

    def __init__(self) -> None:
        self.node = NodeCore(wall_offset_ns=1_700_000_000_000_000_000)
        self.now_ns = 0
        self.guests: dict[Address, Guest] = {}

    def guest(self, name: str = "guest") -> Guest:
        guest = Guest(self, name, len(self.guests))
        self.guests[guest.address] = guest
        self.node.stream_opened(guest.address, self.now_ns)
        self.pump()
        return guest

    def pump(self) -> None:
        """Carry bytes to and fro until nobody has anything to say."""
        while transmits := self.node.take_transmits():
            for transmit in transmits:
                guest = self.guests[transmit.destination]
                if isinstance(transmit, Disconnect):
                    guest.is_cut = True
                    continue
                for item in guest.connection.receive(transmit.data, 0.0):
                    if isinstance(item, Arrival):
                        guest.heard.append(item)
                    elif isinstance(item, Ended):
                        guest.fault = item.text
                if guest.connection.out_bytes:
                    data = guest.connection.take_output()
                    self.node.receive(data, guest.address, self.now_ns)

    def wait(self, ns: int) -> None:
        self.now_ns += ns
        self.node.advance(self.now_ns)
        self.pump()

    def client_ids(self) -> list[int]:
        cls = internal_class("DotsClient")
        return [cls.decode(entry.payload).id for _, entry in self.node.cache.objects("DotsClient")]


class Guest:
    """One client, and what it heard."""

    def __init__(self, harbour: Harbour, name: str, number: int) -> None:
        self.harbour = harbour
        self.address = Address(name, number, is_stream=True)
        self.connection = ClientConnection(Wire(), name=name, cnonce="", wants_preload=False)
        self.heard: list[Arrival] = []
        self.fault = ""
        self.is_cut = False

    def objects(self, type_name: str) -> list[Arrival]:
        return [item for item in self.heard if item.header.type_name == type_name]

    def join(self, group: str) -> None:
        self.connection.join(group, 0.0)
        self.flush()

    def publish(self, obj: skerry.Struct, *, header: Header | None = None) -> None:
        header = header or header_of(obj)
        self.connection.send(header, obj.encode(), obj.descriptor, 0.0)
        self.flush()

    def say(self, header: Header, payload: bytes) -> None:
        """Anything at all."""
        data = self.connection.wire.frame(header, payload)
        self.harbour.node.receive(data, self.address, self.harbour.now_ns)
        self.harbour.pump()

    def flush(self) -> None:
        data = self.connection.take_output()
        self.harbour.node.receive(data, self.address, self.harbour.now_ns)
        self.harbour.pump()

    def vanish(self) -> None:
        self.harbour.node.stream_closed(self.address, CloseReason.LOST, self.harbour.now_ns)
        self.harbour.pump()


def header_of(obj: skerry.Struct) -> Header:
    header = Header(obj.descriptor.name)
    header.sent_time = 1.0
    header.attributes = int(obj.attributes)
    header.remove_obj = 0
    return header


@pytest.fixture
def harbour() -> Harbour:
    return Harbour()


@pytest.fixture
def watcher(harbour: Harbour) -> Guest:
    """A client that wants boats."""
    guest = harbour.guest("watcher")
    guest.join("Boat")
    return guest


def test_first_definition_of_a_type_stays_and_the_second_is_reported(
    harbour: Harbour, watcher: Guest
) -> None:
    first, second = harbour.guest("first"), harbour.guest("second")
    first.publish(TYPES.Boat(id=1, name="Mary"))
    second.publish(LONGER_BOAT(id=2, name="Anne", length=9.5))
    assert harbour.node.registry["Boat"] == TYPES.Boat.descriptor
    (conflict,) = harbour.node.registry.conflicts
    assert conflict.known_from == f"client {first.connection.client_id} (first)"
    assert conflict.offered_from == f"client {second.connection.client_id} (second)"
    assert isinstance(conflict.offered, StructType)
    assert conflict.offered == LONGER_BOAT.descriptor
    boats = [TYPES.Boat.decode(item.payload) for item in watcher.objects("Boat")]
    assert boats == [TYPES.Boat(id=1, name="Mary"), TYPES.Boat(id=2, name="Anne")]
    assert not second.is_cut


def test_same_definition_of_a_type_again_is_no_conflict(harbour: Harbour) -> None:
    for name in ("first", "second"):
        harbour.guest(name).publish(TYPES.Boat(id=1))
    assert harbour.node.registry.conflicts == ()


def test_forged_facts_of_a_header_are_corrected(harbour: Harbour, watcher: Guest) -> None:
    forger = harbour.guest("forger")
    boat = TYPES.Boat(id=1)
    header = header_of(boat)
    header.sender = watcher.connection.client_id
    header.from_cache = 7
    header.is_from_myself = 1
    header.server_sent_time = 5.0
    forger.publish(boat, header=header)
    (item,) = watcher.objects("Boat")
    assert item.header.sender == forger.connection.client_id
    assert item.header.from_cache == ABSENT
    assert item.header.is_from_myself == 0
    assert item.header.server_sent_time == 1_700_000_000.0
    assert item.header.sent_time == 1.0
    ((_, entry),) = harbour.node.cache.objects("Boat")
    assert entry.modified_from == forger.connection.client_id


@pytest.mark.parametrize("size", [0, 100, 1_000_000])
@pytest.mark.parametrize("tag", [3, 31])
def test_unknown_property_of_any_size_is_passed_over(
    tag: int, size: int, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.publish(TYPES.Boat(id=1))
    header = header_of(TYPES.Boat(id=1, name="Mary"))
    header.attributes |= 1 << tag
    guest.say(header, cbor2.dumps({1: 1, tag: [bytes(size), {"deep": [1.5]}], 2: "Mary"}))
    assert not guest.is_cut
    assert TYPES.Boat.decode(watcher.objects("Boat")[-1].payload) == TYPES.Boat(id=1, name="Mary")
    ((_, entry),) = harbour.node.cache.objects("Boat")
    assert entry.payload == TYPES.Boat(id=1, name="Mary").encode()


BOAT = TYPES.Boat(id=1, name="Mary").encode()


@pytest.mark.parametrize(
    ("type_name", "payload", "fault"),
    [
        ("Boat", BOAT[:-1], "Boat"),
        ("Boat", BOAT + b"\x00", "Boat: bytes follow the object"),
        ("Boat", b"", "Boat"),
        ("Boat", cbor2.dumps({2: "Mary"}), "Boat: the key is not complete"),
        ("Ship", BOAT, "there is no type Ship"),
        ("Sh\udcffip", BOAT, "there is no type Sh\udcffip"),
        ("DotsConnectionState", BOAT, "there is no type DotsConnectionState"),
        ("Part", TYPES.Part(id=1).encode(), "Part is only for use inside other structs"),
        ("DotsMember", b"\xa0", "DotsMember: without groupName or event"),
        ("StructDescriptorData", b"\xa0", ""),
    ],
)
def test_object_that_cannot_be_harms_only_its_sender(
    type_name: str, payload: bytes, fault: str, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.publish(TYPES.Boat(id=5))
    guest.publish(TYPES.Whole(id=1, part=TYPES.Part(id=1)))
    header = header_of(TYPES.Boat(id=1, name="Mary"))
    header.type_name = type_name
    guest.say(header, payload)
    assert guest.is_cut
    assert guest.fault.startswith(fault)
    assert guest.fault
    harbour.guest("next").publish(TYPES.Boat(id=6))
    assert [TYPES.Boat.decode(item.payload).id for item in watcher.objects("Boat")] == [5, 6]
    assert not watcher.is_cut


@pytest.mark.parametrize("sent_time", [math.nan, math.inf, -math.inf, 1e200, -1e11])
def test_time_that_is_none_harms_only_its_sender(
    sent_time: float, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    boat = TYPES.Boat(id=1)
    header = header_of(boat)
    header.sent_time = sent_time
    guest.publish(boat, header=header)
    assert guest.is_cut
    assert guest.fault.startswith("Boat: sentTime is no time")
    assert watcher.objects("Boat") == []
    assert not watcher.is_cut


def test_header_without_attributes_harms_only_its_sender(harbour: Harbour, watcher: Guest) -> None:
    guest = harbour.guest()
    boat = TYPES.Boat(id=1)
    header = header_of(boat)
    header.attributes = ABSENT
    guest.publish(boat, header=header)
    assert guest.is_cut
    assert "a header without attributes" in guest.fault
    assert watcher.objects("Boat") == []
    assert not watcher.is_cut


def test_client_that_left_hears_no_more(harbour: Harbour, watcher: Guest) -> None:
    watcher.connection.leave("Boat", 0.0)
    watcher.flush()
    harbour.guest().publish(TYPES.Boat(id=1))
    assert watcher.objects("Boat") == []


def test_clients_that_are_gone_stay_while_objects_of_theirs_do(harbour: Harbour) -> None:
    maker, idler, stayer = (harbour.guest(name) for name in ("maker", "idler", "stayer"))
    stayer.join("DotsClient")
    maker.publish(TYPES.Boat(id=1))
    maker.vanish()
    idler.vanish()
    ids = [guest.connection.client_id for guest in (maker, idler, stayer)]
    assert harbour.node.deadline_ns() == GAP_NS
    harbour.wait(GAP_NS - 1)
    assert harbour.client_ids() == ids
    harbour.wait(1)
    assert harbour.client_ids() == [ids[0], ids[2]]
    assert stayer.objects("DotsClient")[-1].header.remove_obj == 1
    assert harbour.node.deadline_ns() == 2 * GAP_NS
    boat = TYPES.Boat(id=1)
    header = header_of(boat)
    header.remove_obj = 1
    stayer.publish(boat, header=header)
    harbour.wait(GAP_NS)
    assert harbour.client_ids() == [ids[2]]
    assert harbour.node.deadline_ns() is None


def test_stream_that_nobody_opened_is_passed_over(harbour: Harbour) -> None:
    stranger = Address("stranger", 9, is_stream=True)
    harbour.node.receive(b"\xff" * 100, stranger, 0)
    harbour.node.stream_closed(stranger, CloseReason.LOST, 0)
    assert harbour.node.take_transmits() == []
    assert harbour.node.take_events() == []
    assert harbour.node.deadline_ns() is None
    assert harbour.client_ids() == []


def test_groups_are_bounded_and_go_with_their_last_member() -> None:
    harbour = Harbour()
    guest, other = harbour.guest(), harbour.guest("other")
    guest.connection.join("Nobody", 0.0)
    guest.flush()
    assert len(harbour.node._groups) == 1
    guest.connection.leave("Nobody", 0.0)
    guest.flush()
    assert harbour.node._groups == {}
    harbour.node._groups = {str(number): {} for number in range(GROUP_COUNT_MAX)}
    guest.connection.join("OneMore", 0.0)
    guest.flush()
    assert guest.is_cut
    assert not other.is_cut
