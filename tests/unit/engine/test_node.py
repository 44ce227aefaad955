"""The node: who comes and goes, what strangers may send it, and what one client costs another."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import cbor2
import pytest

import skerry
from skerry.engine.admission.admission import (
    Admission,
    AdmissionConfig,
    AuthenticationRule,
    ClientLimits,
    Origin,
    PermissionRule,
)
from skerry.engine.dispatch.cache import Cache
from skerry.engine.events import ClientDisconnected, ConnectionTurnedAway
from skerry.limits import STREAM_WAITING_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, Connected, Rejected, SecretMissing
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.wire import OldWire, Wire
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
HERE = Origin(kind="tcp", host="127.0.0.1")
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


# -- coming in


def test_numbers_of_clients_count_up_from_two(harbour: Harbour) -> None:
    assert [harbour.guest(str(n)).client_id for n in range(3)] == [2, 3, 4]


def test_a_stream_of_the_current_framing_needs_no_door(harbour: Harbour) -> None:
    address = Address("anybody", 9, is_stream=True)
    harbour.node.stream_opened(address, 0)
    (transmit,) = harbour.node.take_transmits()
    ((header, _),) = Wire().feed(transmit.data)
    assert header.type_name == "DotsMsgHello"


@pytest.mark.parametrize("wire", [Wire, OldWire])
def test_all_in_one_burst_without_waiting_for_an_answer_works(
    wire: type[Wire], harbour: Harbour
) -> None:
    maker = harbour.guest("maker")
    maker.publish(Boat(id=1), Boat(id=2))
    eager = harbour.stranger("eager", wire=wire, wants_preload=True)
    mouth = AccessConnection(wire())
    connect = internal_class("DotsMsgConnect")
    join = internal_class("DotsMemberEvent")["join"]
    mouth.send_message(connect(clientName="eager", preloadCache=True), 0.0)
    mouth.describe(Boat.descriptor, 0.0)
    mouth.send_message(internal_class("DotsMember")(groupName="Boat", event=join), 0.0)
    mouth.send_message(connect(preloadClientFinished=True), 0.0)
    header = Header("Boat")
    header.attributes = 2
    mouth.send(header, Boat(id=3).encode(), Boat.descriptor, 0.0)
    mouth.send_message(internal_class("DotsEcho")(request=True), 0.0)
    harbour.node.receive(mouth.take_output(), eager.address, harbour.now_ns)
    for transmit in harbour.node.take_transmits():
        eager.hear(transmit.data)
    eager.connection.take_output()
    assert ids(eager) == [1, 2, 3]
    kinds = [type(item) for item in eager.inputs if not hasattr(item, "header")]
    assert kinds == [Accepted, Connected]
    assert eager.names() == ["Boat", "Boat", "DotsCacheInfo", "Boat", "DotsEcho"]


def test_the_whole_cache_comes_before_a_client_is_connected(harbour: Harbour) -> None:
    maker = harbour.guest("maker")
    maker.publish(*[Boat(id=number, name="x" * 30_000) for number in range(10)])
    guest = harbour.guest("guest", wants_preload=True)
    guest.connection.join("Boat", 0.0)
    guest.connection.finish_joins(0.0)
    harbour.carry()
    maker.post(Boat(id=99))
    harbour.pump()
    assert guest.names()[-1] == "DotsCacheInfo"
    assert isinstance(guest.inputs[-1], Connected)
    assert 99 in ids(guest)
    assert guest.counts_down("Boat") == list(reversed(range(10)))


def test_who_says_nothing_is_cut_and_delays_nobody(harbour: Harbour, watcher: Guest) -> None:
    silent, half = harbour.stranger("silent"), harbour.stranger("half")
    silent.is_mute = half.is_mute = True
    harbour.node.receive(b"\x1a\x00", half.address, harbour.now_ns)
    maker = harbour.guest("maker")
    maker.publish(Boat(id=1))
    assert ids(watcher) == [1]
    assert harbour.node.take_transmits() == []
    harbour.wait(9.999)
    assert [guest.is_cut for guest in (silent, half, watcher)] == [False, False, False]
    harbour.wait(0.001)
    assert [guest.is_cut for guest in (silent, half, watcher)] == [True, True, False]
    assert harbour.node.statistics().ends == {"silent": 2}


def test_a_silent_client_is_waited_for_as_long_as_configured(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(handshake_s=0.25))
    silent = harbour.stranger("silent")
    silent.is_mute = True
    assert harbour.node.deadline_ns() == 250_000_000
    harbour.wait(0.25)
    assert silent.is_cut


def test_connections_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(connection_count_max=2))
    first, second = harbour.guest("first"), harbour.guest("second")
    third = harbour.guest("third")
    assert third.is_cut
    (rejected,) = third.inputs
    assert "no room for another connection" in rejected.reason
    assert harbour.node.statistics().ends == {"refused at the door": 1}
    (event,) = harbour.events(ConnectionTurnedAway)
    assert "too many connections" in event.reason
    first.vanish()
    assert not harbour.guest("fourth").is_cut
    assert not second.is_cut


def test_a_secret_is_asked_for_and_checked(make_harbour: Callable[..., Harbour]) -> None:
    config = AdmissionConfig(authentication=(AuthenticationRule(secret="sesame"),))
    harbour = make_harbour(admission=Admission(config, rng=Random(1)))
    right = harbour.guest("right", origin=HERE, secret="sesame")
    wrong = harbour.guest("wrong", origin=HERE, secret="guess")
    none = harbour.guest("none", origin=HERE)
    unix = harbour.guest("unix", origin=Origin(kind="unix"))
    assert right.client_id == 2
    assert isinstance(wrong.inputs[-1], Rejected)
    assert wrong.is_cut
    assert wrong.fault == "", "it is not told why"
    assert none.inputs == [SecretMissing()]
    assert unix.client_id == 5
    assert harbour.node.statistics().ends == {"rejected": 1}
    harbour.check()


# -- what a client may not say


def test_forged_facts_of_a_header_are_corrected(
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


def test_where_an_update_entered_is_told_to_who_asked(
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
def test_object_that_cannot_be_harms_only_its_sender(
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
def test_time_that_is_none_harms_only_its_sender(
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


def test_header_without_attributes_harms_only_its_sender(
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


def test_header_without_a_time_gets_that_of_its_arrival(
    harbour: Harbour, watcher: Guest, make_header: MakeHeader
) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    header = make_header(Boat(id=1))
    header.sent_time = NEVER
    for _ in range(2):
        guest.say(header, Boat(id=1).encode())
    assert [i.header.sent_time for i in watcher.items("Boat")] == [1_700_000_000.0] * 2


def test_a_remove_of_what_is_not_kept_harms_only_its_sender(
    harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.publish(Shout(text="x"))
    guest.remove(Shout(text="x"))
    assert guest.fault == "Shout: it is not cached: nothing to remove"
    assert not watcher.is_cut


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\x00\x00\x00\x01\x80"])
def test_bytes_that_are_no_frame_harm_only_their_sender(
    data: bytes, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.post(Boat(id=1))
    guest.say_bytes(guest.connection.take_output() + data)
    assert guest.is_cut
    assert guest.fault
    assert ids(watcher) == [1], "what came before was whole"


@pytest.mark.parametrize("name", ["DotsMsgHello", "DotsMsgConnect", "DotsMsgConnectResponse"])
def test_a_word_of_the_handshake_at_the_wrong_time_harms_only_its_sender(
    name: str, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.send(name)
    assert guest.is_cut
    assert "not expected while connected" in guest.fault
    assert not watcher.is_cut


def test_an_object_before_the_introduction_ends_the_connection(
    harbour: Harbour, watcher: Guest
) -> None:
    hasty = harbour.stranger("hasty")
    hasty.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
    data = hasty.connection.take_output()
    harbour.node.receive(data, hasty.address, harbour.now_ns)
    harbour.carry()
    assert hasty.is_cut
    assert hasty.names() == []
    assert not watcher.is_cut


# -- going


def test_an_error_of_a_client_is_answered_by_the_same(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("DotsMsgError", errorCode=4, errorText="broken")
    assert guest.is_cut
    assert guest.fault == "received DOTS error: (4) broken"


@pytest.mark.parametrize("is_orderly", [True, False])
def test_what_a_client_changed_last_goes_with_it_if_it_is_to(
    is_orderly: bool, harbour: Harbour
) -> None:
    watcher, first, second = (harbour.guest(n) for n in ("watcher", "first", "second"))
    watcher.join("Guard")
    watcher.join("DotsClient")
    first.publish(Guard(id=1), Guard(id=2), Boat(id=1))
    first.publish(Guard(id=3), subject="/gate/3")
    second.publish(Guard(id=2, name="mine"))
    watcher.forget()
    if is_orderly:
        first.goodbye()
    else:
        first.vanish()
    assert [guard.id for guard in harbour.cached(Guard)] == [2]
    assert harbour.cached(Boat) == [Boat(id=1)]
    items = watcher.items("Guard")
    gone = [(Guard.decode(i.payload).id, int(i.header.sender)) for i in items]
    assert gone == [(1, 1), (3, 1)]
    assert all(item.header.remove_obj == 1 for item in items)
    assert watcher.names()[0] == "DotsClient", "its end is told before"


def test_client_that_left_hears_no_more(harbour: Harbour, watcher: Guest) -> None:
    watcher.leave("Boat")
    harbour.guest().publish(Boat(id=1))
    assert ids(watcher) == []


def test_stream_that_nobody_opened_is_passed_over(harbour: Harbour) -> None:
    stranger = Address("stranger", 9, is_stream=True)
    harbour.node.receive(b"\xff" * 100, stranger, 0)
    harbour.node.stream_closed(stranger, CloseReason.LOST, 0)
    harbour.node.pause(stranger)
    harbour.node.resume(stranger, 0)
    assert harbour.node.take_transmits() == []
    assert harbour.node.take_events() == []
    assert harbour.node.deadline_ns() is None


def test_a_node_that_ends_tells_all_its_clients(harbour: Harbour) -> None:
    first, second, silent = harbour.guest("1"), harbour.guest("2"), harbour.stranger("silent")
    harbour.node.farewell(harbour.now_ns)
    harbour.pump()
    assert all(guest.is_cut for guest in (first, second, silent))
    assert [type(g.inputs[-1]).__name__ for g in (first, second)] == [
        "ConnectionEnded",
        "ConnectionEnded",
    ]
    assert harbour.node.statistics().client_count == 0


# -- slow clients


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


def test_what_waits_for_one_address_is_bounded(make_harbour: Callable[..., Harbour]) -> None:
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


def test_objects_of_one_address_are_bounded_however_often_it_comes_back(
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


# -- bounds of one client


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
    assert ids(watcher) == [1], "what is refused nobody hears"
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


# -- counters


def test_statistics_tell_how_things_go(harbour: Harbour, watcher: Guest) -> None:
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


def statistics_of(statistics: Any, type_name: str) -> Any:
    return next(row for row in statistics.types if row.name == type_name)


def test_wall_time_follows_when_somebody_sets_the_clock(harbour: Harbour, watcher: Guest) -> None:
    harbour.node.set_wall_offset(5_000_000_000, harbour.now_ns)
    harbour.guest("maker").publish(Boat(id=1))
    assert watcher.items("Boat")[0].header.server_sent_time == 5.0


def test_extensions_are_offered_where_they_may_be_used(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    assert harbour.guest().connection.extensions == 3
    assert harbour.guest("old", wire=OldWire).connection.extensions == 0
    closed = harbour.guest("closed door", has_extensions=False)
    assert (closed.connection.extensions, closed.connection.has_filters) == (0, False)
    assert make_harbour(extensions=False).guest().connection.extensions == 0


# -- other rules while it runs


def test_other_permissions_hold_at_once_for_who_is_there(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, viewer, maker, late = (harbour.guest(n) for n in ("seer", "viewer", "maker", "late"))
    plain = harbour.plain("plain")
    maker.publish(Boat(id=1))
    for guest in (seer, plain):
        guest.join("Boat")
    viewer.open_view(Boat, 1, where="id > 0")
    late.join("Car")
    silent = harbour.stranger("silent")
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("/Boat/hidden/...",), allow=False),
        PermissionRule(verbs=("publish",), subjects=("Boat",), client="maker"),
        PermissionRule(verbs=("subscribe",), subjects=("Car",)),
        PermissionRule(verbs=("subscribe",), subjects=("Boat",), client="other"),
    )
    harbour.node.renew_admission(AdmissionConfig(permission=rules), harbour.now_ns)
    harbour.pump()
    for guest in (seer, viewer, plain):
        assert guest.is_cut
        assert guest.fault == "Boat: not permitted any more"
    assert not late.is_cut
    maker.publish(Boat(id=2))
    maker.remove(Boat(id=2))
    assert maker.refusals() == [("remove", "Boat: not permitted")]
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2]
    assert not silent.is_cut
    silent.join("Boat")
    assert silent.refusals() == [("subscribe", "Boat: not permitted")]
    harbour.check()


def test_subjects_that_are_hidden_from_now_on_are_not_told(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    seer.join("Boat")
    maker.publish(Boat(id=1), subject="/hidden/1")
    rules = (
        PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="seer", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour.node.renew_admission(AdmissionConfig(permission=rules), harbour.now_ns)
    maker.publish(Boat(id=1, name="x"), subject="/hidden/1")
    maker.publish(Boat(id=2))
    assert ids(seer) == [1, 2]
    assert not seer.is_cut
    assert harbour.row("Boat").refused == 1
    harbour.check()


def test_what_a_client_described_in_vain_is_taken_up_when_it_may(
    make_harbour: Callable[..., Harbour],
) -> None:
    nobody = AdmissionConfig(permission=(PermissionRule(verbs=("clear",)),))
    harbour = make_harbour(admission=Admission(nobody, rng=Random(1)))
    guest = harbour.guest()
    guest.publish(Boat(id=1))
    assert guest.refusals() == [("publish", "Boat: not permitted")]
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; }").Boat
    second, broken = harbour.guest("second"), harbour.guest("broken")
    second.publish(other(id=1))
    part = internal_class("StructPropertyData")(name="x", tag=1, isKey=False, type="Missing")
    broken.send("StructDescriptorData", name="Wreck", properties=[part])
    assert "Missing" in broken.fault
    harbour.node.renew_admission(AdmissionConfig(), harbour.now_ns)
    guest.publish(Boat(id=2))
    assert [boat.id for boat in harbour.cached(Boat)] == [2]
    assert not guest.is_cut
    second.publish(other(id=3))
    assert [what for what, _ in second.refusals()] == ["publish"]
    assert [boat.id for boat in harbour.cached(Boat)] == [2, 3]
    assert harbour.node.statistics().conflict_count == 0
    harbour.check()


HIDING = (
    PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="seer", allow=False),
    PermissionRule(verbs=("all",)),
)


@pytest.mark.parametrize("listed_count_max", [0, 10_000])
def test_a_replay_under_way_tells_nothing_that_is_hidden_from_now_on(
    listed_count_max: int,
    make_harbour: Callable[..., Harbour],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skerry.engine.services.joining.REPLAY_SORTED_COUNT_MAX", listed_count_max)
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for number in range(6):
        maker.post(Boat(id=number, name="x" * 40_000), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6), Boat(id=7))
    seer.pause()
    seer.join("Boat")
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    seer.resume()
    assert ids(seer) == [6, 7]
    assert seer.counts_down("Boat") == [1, 0]
    assert len(seer.messages("DotsCacheInfo")) == 1
    assert not seer.is_cut
    harbour.check()


def test_a_view_under_way_tells_nothing_that_is_hidden_from_now_on(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for number in range(6):
        maker.post(Boat(id=number, name="x" * 40_000), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6))
    seer.connection.join(
        "Boat", 0.0, subscription_id=1, filter_=make_filter(Boat.descriptor, "id >= 0", None)
    )
    harbour.carry()
    harbour.carry()
    told = len(seer.items("Boat", 1))
    assert 0 < told < 6
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    harbour.pump()
    assert [boat.id for boat in seer.objects(Boat, 1)][told:] == [6]
    assert seer.counts_down("Boat", 1)[-1] == 0
    # What it knows goes when it changes, and of what it was not told it hears nothing.
    maker.publish(Boat(id=0, name="y"), subject="/hidden/0")
    maker.publish(Boat(id=5, name="y"), subject="/hidden/5")
    gone = [item for item in seer.items("Boat", 1) if item.header.remove_obj == 1]
    assert [Boat.decode(item.payload).id for item in gone] == [0]
    harbour.check()


@pytest.mark.parametrize("number", [None, 1])
def test_what_waits_for_a_slow_client_is_not_told_when_it_is_hidden_meanwhile(
    number: int | None, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for cls in (Boat, Shout):
        maker.describe(cls)
        if number is None:
            seer.join(cls.descriptor.name, is_conflated=True)
        else:
            seer.open_view(cls, number, is_conflated=True)
    seer.pause()
    for turn in range(3):
        maker.post(Boat(id=1, name=f"{turn}" + "x" * 100_000), subject="/hidden/1")
    maker.publish(Boat(id=2))
    maker.publish(Shout(text="before"), subject="/hidden/2")
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    maker.publish(Boat(id=1, name="after"), subject="/hidden/1")
    seer.forget()
    seer.resume()
    assert "after" not in [boat.name for boat in seer.objects(Boat, number)]
    assert [boat.id for boat in seer.objects(Boat, number)][-1] == 2
    assert seer.objects(Shout, number) == []
    assert not seer.is_cut
    harbour.check()


def test_what_was_found_for_a_view_is_not_told_when_it_is_hidden_meanwhile(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    harbour.node._table.by_id[seer.client_id].queue.work_max = 2
    for number in range(6):
        maker.post(Boat(id=number), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6))
    wanted = make_filter(Boat.descriptor, "id >= 0", None)
    seer.connection.join("Boat", 0.0, subscription_id=1, filter_=wanted)
    harbour.carry()
    harbour.node.advance(harbour.now_ns)
    assert seer.items("Boat", 1) == []
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    harbour.pump()
    assert [boat.id for boat in seer.objects(Boat, 1)] == [6]
    assert seer.counts_down("Boat", 1) == [0]
    harbour.check()
