"""What clients send: the order in which it counts, and who notices what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig, ClientLimits
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.frame_intake import LOOKS_PER_MESSAGE
from skerry.limits import (
    DELIVERIES_PER_LOOK,
    FRESH_LOOK_COUNT,
    ROUND_LOOK_COUNT,
    SELECT_SLICE_COUNT,
)
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason

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
def test_what_came_before_a_fault_counts_and_nothing_after_it(
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


def test_a_frame_may_come_in_any_pieces(harbour: Harbour, maker: Guest) -> None:
    data = b"".join(frame_of(maker, Boat(id=number, name="x" * 40)) for number in range(3))
    before = harbour.node.statistics().received_count
    for byte in data:
        harbour.node.receive(bytes([byte]), maker.address, 0)
    assert [boat.id for boat in harbour.cached(Boat)] == [0, 1, 2]
    assert harbour.node.statistics().received_count == before + 3


def test_what_is_only_a_part_of_others_cannot_be_published(harbour: Harbour, maker: Guest) -> None:
    maker.publish(Part(id=1))
    assert maker.fault == "Part is only for use inside other structs"


def test_a_type_that_nobody_described_is_a_fault(harbour: Harbour, maker: Guest) -> None:
    header = Header("Nothing")
    header.attributes = 2
    maker.say(header, b"\xa0")
    assert maker.fault == "there is no type Nothing"


def test_what_there_is_no_room_for_is_refused_in_one_of_few_words(
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


@pytest.mark.parametrize("wire", [Wire, OldWire], ids=["version 2", "version 1"])
def test_a_client_that_sends_much_is_worked_on_in_turns_and_held_between_them(
    wire: type[Wire], harbour: Harbour
) -> None:
    maker, other = harbour.guest("maker", wire=wire), harbour.guest("other")
    maker.describe(Boat)
    node, count = harbour.node, 2 * SELECT_SLICE_COUNT + 7
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(count))
    node.receive(data, maker.address, 0)
    turns = [len(harbour.cached(Boat))]
    node.receive(frame_of(maker, Boat(id=count)), maker.address, 0)
    while node.is_held(maker.address):
        assert node.take_released() == []
        # Nobody waits for it.
        other.connection.send_message(echo_request(len(turns)), 0.0)
        harbour.carry()
        harbour.carry()
        assert other.messages("DotsEcho")[-1].identifier == len(turns)
        assert node.deadline_ns() == 0
        node.advance(0)
        turns.append(len(harbour.cached(Boat)))
    assert node.take_released() == [maker.address]
    assert [boat.id for boat in harbour.cached(Boat)] == list(range(count + 1))
    assert len(turns) >= 3
    steps = [after - before for before, after in pairwise([0, *turns])]
    assert max(steps) <= SELECT_SLICE_COUNT
    assert node.statistics().received_count >= count


def test_what_a_lost_client_sent_before_counts(harbour: Harbour, maker: Guest) -> None:
    count = 2 * SELECT_SLICE_COUNT
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(count))
    harbour.node.receive(data, maker.address, 0)
    maker.is_mute = True
    harbour.node.stream_closed(maker.address, CloseReason.LOST, 0)
    assert harbour.node.statistics().client_count == 1
    harbour.pump()
    assert len(harbour.cached(Boat)) == count
    assert harbour.node.statistics().client_count == 0


def test_of_a_client_that_is_cut_nothing_more_is_worked_on(harbour: Harbour, maker: Guest) -> None:
    count = 2 * SELECT_SLICE_COUNT
    data = b"".join(frame_of(maker, Boat(id=100_000 + number)) for number in range(count))
    harbour.node.receive(data[: len(data) // 2] + b"\xff" + data, maker.address, 0)
    harbour.pump()
    assert maker.is_cut
    assert len(harbour.cached(Boat)) == count // 2
    assert harbour.node.deadline_ns() != 0


def test_a_client_that_sends_little_has_its_turn_before_those_that_send_much(
    harbour: Harbour,
) -> None:
    crowd = [harbour.guest(f"maker-{number}") for number in range(8)]
    for maker in crowd:
        maker.describe(Boat)
    for number, maker in enumerate(crowd):
        boats = (Boat(id=number * 10_000 + i) for i in range(2 * SELECT_SLICE_COUNT))
        data = b"".join(frame_of(maker, boat) for boat in boats)
        harbour.node.receive(data, maker.address, 0)
    other = harbour.stranger("late")
    harbour.carry()
    harbour.carry()
    other.connection.send_message(echo_request(3), 0.0)
    harbour.node.receive_later(other.connection.take_output(), other.address)
    assert harbour.node.is_held(other.address)
    harbour.node.advance(0)
    assert harbour.node.take_released() == [other.address]
    harbour.carry()
    assert [message.identifier for message in other.messages("DotsEcho")] == [3]


def test_the_first_turn_of_input_that_came_late_is_short(harbour: Harbour) -> None:
    crowd = [harbour.guest(f"maker-{number}") for number in range(4)]
    late = harbour.guest("late")
    for maker in (*crowd, late):
        maker.describe(Boat)
    for number, maker in enumerate(crowd):
        boats = (Boat(id=number * 10_000 + i) for i in range(3 * SELECT_SLICE_COUNT))
        harbour.node.receive(b"".join(frame_of(maker, b) for b in boats), maker.address, 0)
    data = b"".join(frame_of(late, Boat(id=100_000 + i)) for i in range(SELECT_SLICE_COUNT))
    harbour.node.receive_later(data, late.address)
    before = len(harbour.cached(Boat))
    harbour.node.advance(0)
    boats_of_late = [boat for boat in harbour.cached(Boat) if boat.id >= 100_000]
    assert 0 < len(boats_of_late) <= FRESH_LOOK_COUNT
    # All that wait share what is done before the sockets are read again.
    done = len(harbour.cached(Boat)) - before
    assert ROUND_LOOK_COUNT // 2 <= done < ROUND_LOOK_COUNT + SELECT_SLICE_COUNT


def test_messages_to_the_node_count_for_more_than_updates(harbour: Harbour) -> None:
    guest = harbour.guest()
    for number in range(SELECT_SLICE_COUNT):
        guest.connection.send_message(echo_request(number), 0.0)
    harbour.node.receive(guest.connection.take_output(), guest.address, 0)
    harbour.carry()
    answers = guest.messages("DotsEcho")
    assert len(answers) == SELECT_SLICE_COUNT // LOOKS_PER_MESSAGE
    harbour.pump()
    assert [a.identifier for a in guest.messages("DotsEcho")] == list(range(SELECT_SLICE_COUNT))


def test_the_more_subscribers_the_fewer_updates_in_a_turn(harbour: Harbour, maker: Guest) -> None:
    for number in range(10 * DELIVERIES_PER_LOOK):
        harbour.guest(f"reader-{number}").join("Boat")
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(SELECT_SLICE_COUNT))
    harbour.node.receive(data, maker.address, 0)
    assert harbour.node.is_held(maker.address)
    assert len(harbour.cached(Boat)) <= SELECT_SLICE_COUNT // 10


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
