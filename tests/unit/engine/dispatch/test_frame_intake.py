"""What clients send: the order in which it counts, and who notices what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.dispatch.cache import Cache
from skerry.limits import (
    SELECT_SLICE_COUNT,
)
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: [key] uint32 id; }
    """
)
Boat, Part = TYPES.Boat, TYPES.Part


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.describe(Boat)
    return guest


def frame_of(guest: Guest, obj: Any) -> bytes:
    guest.post(obj)
    return guest.connection.take_output()


@pytest.mark.parametrize("wire", [Wire, OldWire], ids=["version 2", "version 1"])
def test_input_before_a_fault_is_processed_and_nothing_after_it(
    wire: type[Wire], harbour: Harbour
) -> None:
    maker, other = harbour.guest("maker", wire=wire), harbour.guest("other")
    maker.describe(Boat)
    good = [frame_of(maker, Boat(id=number)) for number in (1, 2, 3)]
    maker.post(Boat(id=4))
    bad = maker.connection.take_output()[:-3] + b"\xff\xff\xff"
    maker.say_bytes(good[0] + good[1] + bad + good[2])
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2]
    assert maker.is_cut
    assert not other.is_cut


def test_a_frame_may_arrive_in_any_pieces(harbour: Harbour, maker: Guest) -> None:
    data = b"".join(frame_of(maker, Boat(id=number, name="x" * 40)) for number in range(3))
    before = harbour.node.statistics().received_count
    for byte in data:
        harbour.node.receive(bytes([byte]), maker.address, 0)
    assert [boat.id for boat in harbour.cached(Boat)] == [0, 1, 2]
    assert harbour.node.statistics().received_count == before + 3


def test_an_object_of_a_substruct_only_type_cannot_be_published(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Part(id=1))
    assert maker.fault == "Part is only for use inside other structs"


def test_an_object_of_an_undescribed_type_is_a_fault(harbour: Harbour, maker: Guest) -> None:
    header = Header("Nothing")
    header.attributes = 2
    maker.say(header, b"\xa0")
    assert maker.fault == "there is no type Nothing"


def test_an_object_without_room_is_refused_with_its_verb(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = ClientLimits(type_count_max=1)
    admission = Admission(AdmissionConfig(limits=limits))
    harbour = make_harbour(admission=admission, cache=Cache(bytes_max=200))
    guest = harbour.guest()
    guest.publish(Boat(id=1, name="x" * 300))
    guest.describe(Part)
    assert [what for what, _ in guest.refusals()] == ["publish", "describe"]
    assert not guest.is_cut
    harbour.check()


def test_a_large_message_of_json_is_read_in_turns(harbour: Harbour) -> None:
    node = harbour.node
    maker, other = harbour.guest("maker"), harbour.guest("other")
    bulk = skerry.define_types("struct Bulk { 1: [key] uint32 id; 2: vector<uint32> values; }").Bulk
    maker.describe(bulk)
    address = Address("web", 99, is_stream=True)
    harbour.guests[address] = maker
    node.open(address, JsonWire(node.registry), 0)
    connect = {"clientName": "web", "preloadCache": False}
    say = [[{"typeName": "DotsMsgConnect", "attributes": 6}, connect]]
    values = list(range(8 * SELECT_SLICE_COUNT))
    say += [[{"typeName": "Bulk", "attributes": 6}, {"id": i, "values": values}] for i in (1, 2)]
    for message in say:
        node.receive(json.dumps(message).encode(), address, 0)
    turn_count = 0
    node.take_transmits()
    while node.is_held(address):
        other.connection.send_message(echo_request(turn_count), 0.0)
        node.receive(other.connection.take_output(), other.address, 0)
        node.advance(0)
        turn_count += 1
    assert turn_count >= 4
    assert [obj.id for obj in harbour.cached(bulk)] == [1, 2]
    assert harbour.cached(bulk)[1].values == values


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1, "more": [' + '{"a": {"b": [{"c": 1}]}}, ' * 8000 + "0]}",
        '{"id": 1, "more": "' + "\\n" * 200_000 + '"}',
        '{"id": 1, "more": ' + "[" * 50 + "inf, " * 20_000 + "0" + "]" * 50 + "}",
    ],
)
def test_text_that_takes_long_to_parse_is_parsed_in_turns(harbour: Harbour, text: str) -> None:
    node, maker = harbour.node, harbour.guest("maker")
    maker.describe(Boat)
    address = Address("web", 99, is_stream=True)
    harbour.guests[address] = maker
    node.open(address, JsonWire(node.registry), 0)
    connect = '[{"typeName": "DotsMsgConnect", "attributes": 6}, {"clientName": "web",'
    node.receive(f'{connect} "preloadCache": false}}]'.encode(), address, 0)
    node.receive(f'[{{"typeName": "Boat", "attributes": 2}}, {text}]'.encode(), address, 0)
    turn_count = 0
    while node.is_held(address):
        node.advance(0)
        turn_count += 1
    assert turn_count >= 1 + len(text) // 200_000


def echo_request(number: int) -> Any:
    return internal_class("DotsEcho")(request=True, identifier=number)
