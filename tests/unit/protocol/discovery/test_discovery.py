"""Discovery, by two machines that are given each other's datagrams."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from skerry.protocol.discovery.descriptions import (
    NODE_NAME_CHAR_COUNT_MAX,
    DiscoveryKind,
    DiscoveryMessage,
    NodeDescription,
    SystemStanding,
)
from skerry.protocol.discovery.directory import DISCOVERY_NODE_COUNT_MAX
from skerry.protocol.discovery.discovery import ASK_COUNT_MAX, Discovery
from skerry.protocol.discovery.events import (
    ClockMeasured,
    DiscoveryStatistics,
    LightSeed,
    NodeFound,
    NodesRefused,
    RefusedBy,
    SeedIgnored,
)
from skerry.protocol.discovery.probes import ProbeResult, Probes
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, writer_id
from skerry.protocol.rtps.submessages import Heartbeat
from skerry.tracing import DropReason

SERVER = NodeType(name="server")
LIGHT = NodeType(name="light", light=True, may_form_system=False)
TYPES = NodeTypes([SERVER, LIGHT])
SECOND = 1_000_000_000


def description(node: int, node_type: NodeType = SERVER, name: str = "") -> NodeDescription:
    host = f"10.1.{node >> 8}.{node & 255}"
    return NodeDescription(
        node=node,
        name=name or f"n{node}",
        type_id=node_type.id,
        control=Address(host, 26660),
        data=Address(host, 26661),
    )


def discovery(node: int, node_type: NodeType = SERVER, **fields: Any) -> Discovery:
    fields = {"system": 5, "now_ns": 0, **fields}
    me = description(node, node_type)
    return Discovery(me=me, own_type=node_type, node_types=TYPES, rng=Random(1), **fields)


def exchange(*machines: Discovery, now_ns: int) -> None:
    """Deliver all datagrams until none is sent."""
    by_address = {one._me.control: one for one in machines}
    moved = True
    while moved:
        moved = False
        for sender in machines:
            for address, data in sender.take_datagrams():
                moved = True
                if address in by_address:
                    deliver(by_address[address], data, sender._me.control, now_ns)


def deliver(machine: Discovery, data: bytes, source: Address, now_ns: int) -> DropReason | None:
    found = DatagramReader(guid_prefix(machine._me.node, Channel.CONTROL)).read(data)
    if not isinstance(found, Datagram):
        return found
    return machine.receive(found, source, now_ns)


def keep_alive(node: int) -> bytes:
    writer = DatagramWriter(guid_prefix(node, Channel.CONTROL), has_checksum=True)
    stream = writer_id(StreamClass.RELIABLE_SHARED, SERVER.tag)
    writer.heartbeat(Heartbeat(stream, 1, 0, 1, is_final=True, is_live=True))
    return writer.finish()


def advance(*machines: Discovery, now_ns: int) -> None:
    for machine in machines:
        machine.advance(now_ns)
    exchange(*machines, now_ns=now_ns)


def kinds(machine: Discovery, kind: type) -> list[Any]:
    return [one for one in machine.take_events() if isinstance(one, kind)]


def test_two_nodes_report_each_other_once_and_measure_their_clocks() -> None:
    first = discovery(1, seeds=[description(2).control])
    second = discovery(2, wall_offset_ns=3 * SECOND)
    for now_ns in range(0, 20 * SECOND, SECOND):
        advance(first, second, now_ns=now_ns)
    events = first.take_events()
    assert [one.node for one in events if isinstance(one, NodeFound)] == [2]
    assert {one.offset_ns for one in events if isinstance(one, ClockMeasured)} == {3 * SECOND}
    assert [one.node for one in kinds(second, NodeFound)] == [1]
    statistics = first.statistics()
    assert isinstance(statistics, DiscoveryStatistics)
    assert (statistics.known_count, statistics.seed_count) == (1, 0)


def test_a_third_node_is_reported_only_after_it_was_heard() -> None:
    first = discovery(1, seeds=[description(2).control])
    second = discovery(2, seeds=[description(3).control])
    third = discovery(3)
    advance(second, third, now_ns=0)
    advance(first, second, now_ns=0)
    assert [one.node for one in kinds(first, NodeFound)] == [2]
    assert first.statistics().reported_count == 1
    for now_ns in range(SECOND, 10 * SECOND, SECOND):
        advance(first, second, third, now_ns=now_ns)
    assert [one.node for one in kinds(first, NodeFound)] == [3]


def test_no_more_than_the_bound_is_asked_at_once_and_all_in_turn() -> None:
    count = 2 * ASK_COUNT_MAX + 7
    seeds = [description(100 + number).control for number in range(count)]
    machine = discovery(1, seeds=seeds)
    asked: set[Address] = set()
    for turn in range(4):
        machine.advance(turn * 3 * SECOND)
        sent = [address for address, _ in machine.take_datagrams()]
        assert len(sent) == ASK_COUNT_MAX
        asked.update(sent)
    assert asked == set(seeds)


def test_an_unknown_node_whose_keep_alives_arrive_is_asked_and_found() -> None:
    first, second = discovery(1), discovery(2)
    deliver(first, keep_alive(2), description(2).control, now_ns=0)
    advance(first, second, now_ns=0)
    assert [one.node for one in kinds(first, NodeFound)] == [2]
    assert [one.node for one in kinds(second, NodeFound)] == [1]


def test_an_excluded_node_whose_keep_alives_arrive_is_not_asked() -> None:
    first = discovery(1)
    deliver(first, keep_alive(2), description(2).control, now_ns=0)
    first.exclude(2, 1, now_ns=0)
    deliver(first, keep_alive(2), description(2).control, now_ns=0)
    first.advance(0)
    assert first.take_datagrams() == []


def test_more_nodes_than_the_bound_are_refused_and_reported_once() -> None:
    machine = discovery(1)
    for number in range(DISCOVERY_NODE_COUNT_MAX):
        machine.directory.add_known(description(1000 + number))
    for node in (2, 3):
        stranger = discovery(node, seeds=[description(1).control])
        advance(stranger, machine, now_ns=0)
    assert [one.limit for one in kinds(machine, NodesRefused)] == [DISCOVERY_NODE_COUNT_MAX]
    assert machine.statistics().drops == {DropReason.SENDERS.value: 2}


def test_a_node_of_another_system_or_type_is_dropped() -> None:
    machine = discovery(1)
    advance(discovery(2, system=6, seeds=[description(1).control]), machine, now_ns=0)
    other = discovery(3, seeds=[description(1).control])
    other._me = replace(other._me, type_id=99)
    advance(other, machine, now_ns=0)
    assert kinds(machine, NodeFound) == []
    drops = machine.statistics().drops
    assert drops == {DropReason.SYSTEM.value: 1, DropReason.NODE_TYPE.value: 1}


def test_an_excluded_node_is_refused_once_a_second_with_the_reason() -> None:
    machine, other = discovery(1), discovery(2, seeds=[description(1).control])
    machine.standing = SystemStanding(incarnation_id=8, size=3, elected=1)
    machine.exclude(2, 4, 0)
    for now_ns in (0, SECOND // 2):
        other._ask_ns = 0
        advance(other, machine, now_ns=now_ns)
    refused = kinds(other, RefusedBy)
    assert refused == [RefusedBy(node=1, reason=4, standing=machine.standing)]
    assert machine.statistics().refusal_sent_count == 1
    machine.forget([2])
    assert not machine.is_excluded(2)


def test_light_nodes_do_not_meet() -> None:
    light = discovery(2, LIGHT)
    advance(discovery(3, LIGHT, seeds=[description(2).control]), light, now_ns=0)
    assert [one.address for one in kinds(light, LightSeed)] == [description(3).control]
    assert light.statistics().known_count == 0


def test_a_light_node_accepts_an_excluded_one_again_after_a_while() -> None:
    light = discovery(2, LIGHT)
    light.exclude(1, 4, 0)
    light.advance(4 * SERVER.dead_timeout_ns - 1)
    assert light.is_excluded(1)
    light._ask_ns = 0
    light.advance(4 * SERVER.dead_timeout_ns)
    assert not light.is_excluded(1)


def test_a_seed_that_is_no_address_is_reported() -> None:
    seed = Address("harbour.example", 1)
    machine = discovery(1, seeds=[seed])
    assert [one.address for one in kinds(machine, SeedIgnored)] == [seed]


def test_its_own_datagram_ends_the_asking_of_its_own_address() -> None:
    alias = Address("10.9.9.9", 26660)
    machine = discovery(1, seeds=[alias])
    machine.advance(0)
    ((_, data),) = machine.take_datagrams()
    assert machine.is_own(data)
    machine.own_received(data, alias, 0)
    assert machine.statistics().seed_count == 0


def test_a_group_is_asked_often_while_alone_and_seldom_afterwards() -> None:
    group = Address("239.1.1.1", 26650)

    def asked(machine: Discovery, start_ns: int) -> int:
        count = 0
        for now_ns in range(start_ns, start_ns + 60 * SECOND, SECOND):
            machine.advance(now_ns)
            count += sum(address == group for address, _ in machine.take_datagrams())
        return count

    machine = discovery(1, groups=[group])
    assert asked(machine, 0) >= 20
    known = machine.directory.add_known(description(2))
    assert known is not None
    known.packet_received(0, 1)
    known.clock_offset_ns = 0
    assert asked(machine, 60 * SECOND) <= 3


def test_an_answer_is_split_so_that_each_datagram_fits() -> None:
    machine = discovery(1, datagram_bytes=600)
    for number in range(60):
        machine.directory.add_known(description(300 + number))
    asker = discovery(2, seeds=[description(1).control])
    asker.advance(0)
    ((_, data),) = asker.take_datagrams()
    deliver(machine, data, description(2).control, 0)
    answers = machine.take_datagrams()
    assert len(answers) > 5
    assert all(len(data) <= 600 for _, data in answers)
    for _, data in answers:
        deliver(asker, data, description(1).control, 0)
    assert asker.statistics().reported_count == 60


def test_a_known_node_that_asks_in_a_group_is_not_sent_the_list() -> None:
    group = Address("239.1.1.1", 26650)
    machine = discovery(1, groups=[group])
    for number in range(60):
        machine.directory.add_known(description(300 + number))
    asker = discovery(2, groups=[group])
    answer_counts = []
    for now_ns in (0, 60 * SECOND):
        asker.advance(now_ns)
        (data,) = [data for address, data in asker.take_datagrams() if address == group]
        deliver(machine, data, description(2).control, now_ns)
        answers = machine.take_datagrams()
        answer_counts.append(len(answers))
        for _, data in answers:
            deliver(asker, data, description(1).control, now_ns)
        assert asker.directory.known[1].is_complete
        machine.advance(now_ns)
        machine.take_datagrams()
    assert answer_counts[0] > 3
    assert answer_counts[1] == 1
    assert asker.statistics().reported_count == 60


def test_a_light_node_asks_an_excluded_one_when_it_accepts_it_again() -> None:
    light = discovery(2, LIGHT, seeds=[description(1).control])
    advance(light, discovery(1), now_ns=0)
    light.exclude(1, 4, 0)
    assert light.statistics().seed_count == 0
    light._ask_ns = 0
    light.advance(4 * SERVER.dead_timeout_ns)
    assert [address for address, _ in light.take_datagrams()] == [description(1).control]


def test_a_long_name_is_cut() -> None:
    long = description(2, name="x" * (NODE_NAME_CHAR_COUNT_MAX + 1))
    message = DiscoveryMessage(kind=DiscoveryKind.OTHER, node=long)
    found = DiscoveryMessage.decode(message.encode())
    assert found.node is not None
    assert found.node.name == "x" * NODE_NAME_CHAR_COUNT_MAX


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_truncated_message_is_dropped(size: int) -> None:
    machine = discovery(1)
    sender = discovery(2, seeds=[description(1).control])
    sender.advance(0)
    ((_, data),) = sender.take_datagrams()
    found = DatagramReader(guid_prefix(1, Channel.CONTROL)).read(data)
    assert isinstance(found, Datagram)
    for part in found.submessages:
        part.payload = part.payload[:size]  # type: ignore[union-attr]
    assert machine.receive(found, description(2).control, 0) is DropReason.BODY


def known_pair(**fields: Any) -> tuple[Discovery, Discovery]:
    first, second = discovery(1, seeds=[description(2).control], **fields), discovery(2)
    for now_ns in range(0, 20 * SECOND, SECOND):
        advance(first, second, now_ns=now_ns)
    return first, second


def test_a_probe_of_each_size_is_answered_and_timed() -> None:
    first, second = known_pair()
    small, whole = first.probe(20 * SECOND)
    assert small[0] == whole[0] == second._me.control
    assert len(small[1]) < 300
    assert 1447 <= len(whole[1]) <= 1450
    assert first.probes.results() == [
        ProbeResult(node=2, round_trip_ns=None, whole_round_trip_ns=None)
    ]
    sent_before = second.statistics().node_info_sent_count
    for data, now_ns in ((small[1], 20 * SECOND + 5), (whole[1], 20 * SECOND + 9)):
        deliver(second, data, first._me.control, now_ns)
        exchange(first, second, now_ns=now_ns)
    assert first.probes.results() == [ProbeResult(node=2, round_trip_ns=5, whole_round_trip_ns=9)]
    assert second.statistics().node_info_sent_count == sent_before, "no list of nodes"
    first.probe(30 * SECOND)
    assert first.probes.results()[0].round_trip_ns is None, "each round begins without answers"


def test_a_node_that_asks_often_is_answered_four_times_until_the_next_tick() -> None:
    first, second = discovery(1, seeds=[description(2).control]), discovery(2)
    answer_counts = []
    for _ in range(2):
        count = 0
        for _ in range(10):
            first._ask(7, second._me.control, 0)
            for _, data in first.take_datagrams():
                deliver(second, data, first._me.control, 0)
            count += len(second.take_datagrams())
        answer_counts.append(count)
        second.advance(second.deadline_ns() or 0)
        second.take_datagrams()
    assert answer_counts == [4, 4]


def test_answers_to_probes_are_limited_and_do_not_count_as_others() -> None:
    first, second = known_pair()
    answer_count = 0
    for _ in range(20):
        small, _ = first.probe(20 * SECOND)
        deliver(second, small[1], first._me.control, 20 * SECOND)
        answer_count += len(second.take_datagrams())
    assert answer_count == 16
    assert second.directory.known[1].answered_count == 0


def test_an_answer_counts_only_for_the_node_that_was_probed() -> None:
    probes = Probes(Random(1))
    number = probes.add(2, 10, is_whole=True)
    assert not probes.answered(number, 3, 20)
    assert not probes.answered(number + 1, 2, 20)
    assert probes.answered(number, 2, 25)
    assert not probes.answered(number, 2, 30), "a repeated answer"
    assert probes.results() == [ProbeResult(node=2, round_trip_ns=None, whole_round_trip_ns=15)]
