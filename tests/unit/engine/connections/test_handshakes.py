"""Connections are accepted and rejected as the admission of the node says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.events import ConnectionRejected
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, Connected, Rejected, SecretMissing
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address

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


def test_numbers_of_clients_count_up_from_two(harbour: Harbour) -> None:
    assert [harbour.guest(str(n)).client_id for n in range(3)] == [2, 3, 4]


def test_a_stream_of_the_current_framing_needs_no_listener(harbour: Harbour) -> None:
    address = Address("anybody", 9, is_stream=True)
    harbour.node.stream_opened(address, 0)
    (transmit,) = harbour.node.take_transmits()
    ((header, _),) = Wire().feed(transmit.data)
    assert header.type_name == "DotsMsgHello"


@pytest.mark.parametrize("wire", [Wire, OldWire])
def test_a_handshake_and_objects_may_arrive_in_one_read(wire: type[Wire], harbour: Harbour) -> None:
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


def test_the_whole_cache_is_replayed_before_a_client_is_connected(harbour: Harbour) -> None:
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


def test_a_connection_without_a_handshake_is_closed(harbour: Harbour, watcher: Guest) -> None:
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


def test_a_handshake_times_out_after_the_configured_time(
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
    (event,) = harbour.events(ConnectionRejected)
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


@pytest.mark.parametrize("name", ["DotsMsgHello", "DotsMsgConnect", "DotsMsgConnectResponse"])
def test_a_handshake_message_at_the_wrong_time_ends_only_its_connection(
    name: str, harbour: Harbour, watcher: Guest
) -> None:
    guest = harbour.guest()
    guest.send(name)
    assert guest.is_cut
    assert "not expected while connected" in guest.fault
    assert not watcher.is_cut


def test_an_object_before_the_handshake_ends_the_connection(
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


def test_extensions_are_offered_where_they_may_be_used(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    assert harbour.guest().connection.extensions == 3
    assert harbour.guest("old", wire=OldWire).connection.extensions == 0
    closed = harbour.guest("closed door", has_extensions=False)
    assert (closed.connection.extensions, closed.connection.has_filters) == (0, False)
    assert make_harbour(extensions=False).guest().connection.extensions == 0
