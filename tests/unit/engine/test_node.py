"""The node: who comes and goes, what strangers may send it, and what one client costs another."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import cbor2
import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.dispatch.cache import Cache
from skerry.engine.events import ClientDisconnected
from skerry.limits import STREAM_WAITING_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.machine import Address, CloseReason

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
MakeHeader = Callable[[skerry.Struct], Header]


def limited(**limits: Any) -> Admission:
    return Admission(AdmissionConfig(limits=ClientLimits(**limits)), rng=Random(1))


@pytest.fixture
def watcher(harbour: Harbour) -> Guest:
    """A client that wants boats."""
    guest = harbour.guest("watcher")
    guest.join("Boat")
    return guest


def ids(guest: Guest) -> list[int]:
    return [boat.id for boat in guest.objects(Boat)]


def test_forged_header_fields_are_corrected(
    harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    forger = harbour.guest("forger")
    forger.describe(Boat)
    for number in range(3):
        boat = Boat(id=number)
        header = make_header(boat)
        header.sender = watcher.client_id
        header.from_cache = 7
        header.is_from_myself = 1
        header.server_sent_time = 5.0
        header.subscription_id = 4
        header.sequence = 77
        header.position = 1_000_000
        header.node = 99
        forger.say(header, boat.encode())
    items = watcher.items("Boat")
    assert len(items) == 3
    positions = [int(item.header.position) for item in items]
    assert positions == sorted(set(positions))
    assert positions[-1] < 1000
    for number, item in enumerate(items):
        assert item.header.sender == forger.client_id
        assert item.header.from_cache == ABSENT
        assert item.header.is_from_myself == 0
        assert item.header.subscription_id == ABSENT
        assert item.header.server_sent_time == 1_700_000_000.0
        assert item.header.sent_time == 1.0
        assert item.header.sequence == 2 + number, "after the description"
        assert item.header.node == 0
    assert all(e.modified_from == forger.client_id for _, e in harbour.node.cache.objects("Boat"))


def test_the_origin_of_an_update_is_sent_to_clients_that_asked_for_it(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(node_id=-5)
    asked, ours, plain = harbour.guest("asked"), harbour.guest("ours", extensions=1), None
    plain = harbour.plain()
    for guest in (asked, ours, plain):
        guest.join("Boat")
    maker = harbour.guest("maker", extensions=1)
    maker.publish(Boat(id=1), Boat(id=2))
    facts = [
        (int(i.header.node), int(i.header.sequence), int(i.header.position))
        for i in asked.items("Boat")
    ]
    assert [fact[:2] for fact in facts] == [(-5, 2), (-5, 3)]
    assert facts[1][2] == facts[0][2] + 1
    for guest in (ours, plain):
        headers = [item.header for item in guest.items("Boat")]
        assert [(h.node, h.sequence, h.position) for h in headers] == [(0, ABSENT, ABSENT)] * 2
    late = harbour.guest("late")
    late.join("Boat")
    assert [int(i.header.position) for i in late.items("Boat")] == [f[2] for f in facts]
    assert all(i.header.node == -5 for i in late.items("Boat"))
    harbour.check()


@pytest.mark.parametrize("size", [0, 100, 1_000_000])
@pytest.mark.parametrize("tag", [3, 31])
def test_unknown_property_of_any_size_is_kept_and_plain_programs_do_not_get_it(
    tag: int, size: int, harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    guest, plain = harbour.guest(), harbour.plain()
    plain.join("Boat")
    guest.publish(Boat(id=1))
    header = make_header(Boat(id=1, name="Mary"))
    header.attributes |= 1 << tag
    payload = cbor2.dumps({1: 1, tag: [bytes(size), {"deep": [1.5]}], 2: "Mary"})
    for _ in range(2):
        guest.say(header, payload)
    assert not guest.is_cut
    whole = {1: 1, 2: "Mary", tag: [bytes(size), {"deep": [1.5]}]}
    item = watcher.items("Boat")[-1]
    assert cbor2.loads(item.payload) == whole
    assert item.header.attributes >> tag & 1
    item = plain.items("Boat")[-1]
    assert item.payload == Boat(id=1, name="Mary").encode()
    ((_, entry),) = harbour.node.cache.objects("Boat")
    assert cbor2.loads(entry.payload) == whole
    late, late_plain = harbour.guest("late"), harbour.plain("late too")
    for reader, known in ((late, whole), (late_plain, {1: 1, 2: "Mary"})):
        reader.join("Boat")
        (item,) = reader.items("Boat")
        assert cbor2.loads(item.payload) == known
        assert int(item.header.attributes) == sum(1 << at for at in known)
    guest.publish(Boat(id=1, name="Ann"))
    ((_, entry),) = harbour.node.cache.objects("Boat")
    assert cbor2.loads(entry.payload) == {**whole, 2: "Ann"}
    harbour.check()


BOAT = Boat(id=1, name="Mary").encode()
FAULTS = [
    ("Boat", BOAT[:-1], "Boat"),
    ("Boat", BOAT + b"\x00", "Boat: bytes follow the object"),
    ("Boat", b"", "Boat"),
    ("Boat", cbor2.dumps({2: "Mary"}), "Boat: the key is not complete"),
    ("Boat", cbor2.dumps({1: 1, 2: None}), "Boat"),
    ("Boat", b"\xbf\x01\x01\xff", "Boat"),
    ("Boat", cbor2.dumps({1: 2**40}), "Boat"),
    ("Ship", BOAT, "there is no type Ship"),
    ("Sh\udcffip", BOAT, "there is no type Sh\udcffip"),
    ("DotsConnectionState", BOAT, "there is no type DotsConnectionState"),
    ("Part", Part(id=1).encode(), "Part is only for use inside other structs"),
    ("DotsMember", b"\xa0", "DotsMember: without groupName or event"),
    ("StructDescriptorData", b"\xa0", ""),
    ("", BOAT, "header: a header without typeName"),
]


@pytest.mark.parametrize(("type_name", "payload", "fault"), FAULTS)
@pytest.mark.parametrize("count", [0, 1, 3], ids=["at once", "after one", "after some"])
def test_an_invalid_object_ends_only_its_connection(
    type_name: str,
    payload: bytes,
    fault: str,
    count: int,
    harbour: Harbour,
    watcher: Guest,
    make_header: MakeHeader,
) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    guest.publish(Whole(id=1, part=Part(id=1)))
    header = make_header(Boat(id=1, name="Mary"))
    for number in range(count):
        guest.say(header, Boat(id=number, name="Mary").encode())
    header.type_name = type_name
    guest.say(header, payload)
    assert guest.is_cut
    assert guest.fault.startswith(fault)
    assert guest.fault
    harbour.guest("next").publish(Boat(id=6))
    assert ids(watcher) == [*range(count), 6]
    assert not watcher.is_cut
    assert harbour.node.statistics().ends == {"fault": 1}


@pytest.mark.parametrize("sent_time", [math.nan, math.inf, -math.inf, 1e200, -1e11])
@pytest.mark.parametrize("count", [0, 2])
def test_an_invalid_time_ends_only_its_connection(
    sent_time: float, count: int, harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    header = make_header(Boat(id=1))
    for _ in range(count):
        guest.say(header, Boat(id=1).encode())
    header.sent_time = sent_time
    guest.say(header, Boat(id=1).encode())
    assert guest.is_cut
    assert guest.fault.startswith("Boat: sentTime is not a valid time")
    assert len(ids(watcher)) == count
    assert not watcher.is_cut


def test_a_header_without_attributes_ends_only_its_connection(
    harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    guest = harbour.guest()
    guest.publish(Boat(id=1))
    header = make_header(Boat(id=1))
    header.attributes = ABSENT
    guest.say(header, Boat(id=1).encode())
    assert guest.is_cut
    assert "a header without attributes" in guest.fault
    assert ids(watcher) == [1]
    assert not watcher.is_cut


def test_a_header_without_a_time_gets_the_time_of_its_arrival(
    harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    header = make_header(Boat(id=1))
    header.sent_time = NEVER
    for _ in range(2):
        guest.say(header, Boat(id=1).encode())
    assert [i.header.sent_time for i in watcher.items("Boat")] == [1_700_000_000.0] * 2


def test_a_remove_of_an_uncached_type_ends_only_its_connection(
    harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.publish(Shout(text="x"))
    guest.remove(Shout(text="x"))
    assert guest.fault == "Shout: it is not cached: nothing to remove"
    assert not watcher.is_cut


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\x00\x00\x00\x01\x80"])
def test_bytes_that_are_not_a_frame_end_only_their_connection(
    data: bytes, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.post(Boat(id=1))
    guest.say_bytes(guest.connection.take_output() + data)
    assert guest.is_cut
    assert guest.fault
    assert ids(watcher) == [1], "what came before was whole"


def test_input_of_a_stream_that_was_not_opened_is_ignored(harbour: Harbour) -> None:
    stranger = Address("stranger", 9, is_stream=True)
    harbour.node.receive(b"\xff" * 100, stranger, 0)
    harbour.node.stream_closed(stranger, CloseReason.LOST, 0)
    harbour.node.pause(stranger)
    harbour.node.resume(stranger, 0)
    assert harbour.node.take_transmits() == []
    assert harbour.node.take_events() == []
    assert harbour.node.deadline_ns() is None


def test_a_paused_client_gets_all_of_it_when_it_reads_again(
    harbour: Harbour, watcher: Guest
) -> None:
    maker, other = harbour.guest("maker"), harbour.guest("other")
    other.join("Boat")
    watcher.pause()
    maker.publish(*[Boat(id=number) for number in range(5)])
    assert ids(watcher) == []
    assert ids(other) == [0, 1, 2, 3, 4]
    watcher.resume()
    assert ids(watcher) == [0, 1, 2, 3, 4]
    maker.publish(Boat(id=5))
    assert ids(watcher)[-1] == 5


def test_a_client_that_reads_too_slowly_is_cut_and_no_other(
    make_harbour: Callable[..., Harbour],
) -> None:
    assert ClientLimits().waiting_bytes_max == STREAM_WAITING_BYTES_MAX
    harbour = make_harbour(admission=limited(waiting_bytes_max=10_000))
    slow, other, watcher = (harbour.guest(n) for n in ("slow", "other", "watcher"))
    watcher.join("DotsClient")
    maker = harbour.guest("maker")
    for guest in (slow, other):
        guest.join("Boat")
    slow.join("Guard")
    slow.publish(Guard(id=1))
    slow.pause()
    for number in range(4):
        maker.publish(Boat(id=number, name="x" * 2000))
    assert not slow.is_cut
    maker.publish(Boat(id=4, name="x" * 2000))
    assert slow.is_cut_abruptly
    assert ids(other) == [0, 1, 2, 3, 4]
    assert harbour.cached(Guard) == []
    assert harbour.node.statistics().ends == {"slow": 1}
    (went,) = harbour.events(ClientDisconnected)
    assert (went.name, went.reason) == ("slow", "slow")
    assert went.detail.endswith("bytes and 0 objects waited for it")
    assert watcher.objects(internal_class("DotsClient"))[-1].connectionState.label == "closed"
    harbour.check()


def test_the_queues_of_one_address_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    limits = {"waiting_bytes_max": 10_000, "waiting_bytes_per_address_max": 11_000}
    harbour = make_harbour(admission=limited(**limits))
    here, there = (Origin(kind="tcp", host=f"127.0.0.{number}") for number in (1, 2))
    slow = [harbour.guest(f"slow {number}", origin=here) for number in range(3)]
    other, maker = harbour.guest("other", origin=there), harbour.guest("maker")
    for guest in (*slow, other):
        guest.join("Boat")
        guest.pause()
    maker.publish(Boat(id=1, name="x" * 3000))
    assert not any(guest.is_cut for guest in slow)
    maker.publish(Boat(id=2, name="x" * 3000))
    assert [guest.is_cut_abruptly for guest in slow].count(True) == 2
    assert not other.is_cut
    details = [went.detail for went in harbour.events(ClientDisconnected)]
    words = "bytes that wait to be sent of address 127.0.0.1 (waiting_bytes_per_address_max)"
    assert all(words in detail for detail in details)
    (left,) = [guest for guest in slow if not guest.is_cut]
    left.resume()
    assert ids(left) == [1, 2]
    left.pause()
    maker.publish(Boat(id=3, name="x" * 3000))
    assert not left.is_cut, "what was taken does not count"
    harbour.check()


def test_objects_of_one_address_are_limited_however_often_it_reconnects(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(object_count_per_address_max=2))
    here = Origin(kind="tcp", host="127.0.0.1")
    for number in range(3):
        guest = harbour.guest("guest", origin=here)
        guest.publish(Boat(id=number))
        assert len(guest.refusals()) == (1 if number == 2 else 0)
        guest.vanish()
    assert [boat.id for boat in harbour.cached(Boat)] == [0, 1]
    harbour.guest("unix", origin=Origin(kind="unix")).publish(Boat(id=7))
    assert [boat.id for boat in harbour.cached(Boat)] == [0, 1, 7]
    harbour.check()


def test_updates_a_second_of_one_address_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(updates_per_s_per_address_max=5))
    here = Origin(kind="tcp", host="127.0.0.1")
    for name in ("first", "second"):
        guest = harbour.guest(name, origin=here)
        guest.publish(*[Boat(id=number) for number in range(5)])
        assert guest.is_cut is (name == "second")
    assert guest.fault.endswith(": more than 5 updates a second from one address")
    harbour.check()


def test_updates_a_second_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(updates_per_s_max=5, burst_s=1))
    calm, wild = harbour.guest("calm"), harbour.guest("wild")
    for _ in range(10):
        calm.publish(Boat(id=1))
        harbour.wait(0.25)
    assert not calm.is_cut
    wild.publish(*[Boat(id=number) for number in range(20)])
    assert wild.is_cut
    assert wild.fault == "Boat: more than 5 updates a second"
    assert not calm.is_cut
    assert harbour.node.statistics().ends == {"too much": 1}
    harbour.check()


def test_bytes_a_second_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(bytes_per_s_max=1000))
    wild = harbour.guest("wild")
    wild.publish(*[Boat(id=number, name="x" * 900) for number in range(4)])
    assert wild.fault == "Boat: more than 1000 bytes a second"


def test_objects_of_one_client_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(object_count_max=3))
    guest, other, plain = harbour.guest(), harbour.guest("other"), harbour.plain()
    guest.publish(*[Boat(id=number) for number in range(5)])
    assert [boat.id for boat in harbour.cached(Boat)] == [0, 1, 2]
    refused = guest.refusals()
    assert [what for what, _ in refused] == ["publish", "publish"]
    assert "count of objects of one client" in refused[0][1]
    guest.publish(Boat(id=1, name="known already"))
    other.publish(Boat(id=7))
    assert len(guest.refusals()) == 2
    guest.remove(Boat(id=0))
    guest.publish(Boat(id=8))
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2, 7, 8]
    plain.publish(*[Boat(id=number) for number in range(10, 15)])
    assert plain.is_cut
    assert "count of objects of one client" in plain.fault
    harbour.check()


def test_bytes_of_the_objects_of_one_client_are_bounded(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(object_bytes_max=1000))
    guest, watcher = harbour.guest(), harbour.guest("watcher")
    watcher.join("Boat")
    guest.publish(Boat(id=1, name="x" * 600))
    guest.publish(Boat(id=2, name="x" * 600))
    assert ids(watcher) == [1], "no client receives what is refused"
    assert "bytes of objects of one client" in guest.refusals()[0][1]
    harbour.check()


def test_a_client_at_its_bound_may_still_change_its_objects(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(object_bytes_max=1000))
    guest = harbour.guest()
    guest.publish(Boat(id=1, name="x" * 900))
    guest.publish(Boat(id=1, name="y" * 900))
    assert guest.refusals() == []


def test_a_full_cache_refuses_clients_and_not_the_node(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(cache=Cache(object_count_max=2))
    guest = harbour.guest()
    guest.publish(Boat(id=1), Boat(id=2))
    assert [boat.id for boat in harbour.cached(Boat)] == [1]
    assert "count of cached objects" in guest.refusals()[0][1]
    late = harbour.guest("late")
    assert late.client_id == 3
    guest.publish(Boat(id=1, name="longer than before"))
    assert len(guest.refusals()) == 1
    harbour.check()


def test_wall_time_follows_a_change_of_the_clock(harbour: Harbour, watcher: Guest) -> None:
    harbour.node.set_wall_offset(5_000_000_000, harbour.now_ns)
    harbour.guest("maker").publish(Boat(id=1))
    assert watcher.items("Boat")[0].header.server_sent_time == 5.0
