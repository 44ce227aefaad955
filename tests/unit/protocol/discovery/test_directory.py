"""The nodes and addresses that discovery knows."""

from __future__ import annotations

from skerry.protocol.discovery.descriptions import NodeDescription
from skerry.protocol.discovery.directory import (
    DISCOVERY_NODE_COUNT_MAX,
    DISCOVERY_SEED_COUNT_MAX,
    EXCLUDED_COUNT_MAX,
    Directory,
    ExcludedNode,
    KnownNode,
)
from skerry.protocol.machine import Address

OWN = Address("10.0.0.1", 26660)


def description(node: int) -> NodeDescription:
    host = f"10.{node >> 16 & 255}.{node >> 8 & 255}.{node & 255}"
    control, data = Address(host, 26660), Address(host, 26661)
    return NodeDescription(node=node, name=f"n{node}", type_id=1, control=control, data=data)


def directory() -> Directory:
    return Directory(1, OWN)


def test_a_seed_is_forgotten_when_its_node_is_known() -> None:
    nodes = directory()
    nodes.add_seeds([description(2).control])
    nodes.add_known(description(2))
    assert nodes.seeds == {}
    nodes.add_seeds([description(2).control, OWN])
    assert nodes.seeds == {}


def test_the_address_of_an_excluded_node_is_asked_again_if_it_was_a_seed() -> None:
    nodes = directory()
    nodes.add_seeds([description(2).control])
    for node in (2, 3):
        nodes.add_known(description(node))
        nodes.exclude(node, 1, None)
    assert list(nodes.seeds.values()) == [description(2).control]


def test_a_reported_node_that_is_known_excluded_or_this_one_is_ignored() -> None:
    nodes = directory()
    nodes.add_known(description(2))
    nodes.exclude(3, 1, None)
    for node in (1, 2, 3, 4):
        nodes.add_reported(description(node))
    assert list(nodes.reported) == [4]
    nodes.add_known(description(4))
    assert nodes.reported == {}


def test_known_and_reported_nodes_are_limited() -> None:
    nodes = directory()
    for number in range(DISCOVERY_NODE_COUNT_MAX):
        assert isinstance(nodes.add_known(description(10 + number)), KnownNode)
        nodes.add_reported(description(100_000 + number))
    assert nodes.add_known(description(9)) is None
    nodes.add_reported(description(9))
    assert len(nodes.known) == len(nodes.reported) == DISCOVERY_NODE_COUNT_MAX


def test_seeds_are_limited() -> None:
    nodes = directory()
    nodes.add_seeds(
        description(10 + number).control for number in range(1 + DISCOVERY_SEED_COUNT_MAX)
    )
    assert len(nodes.seeds) == DISCOVERY_SEED_COUNT_MAX


def test_the_oldest_of_too_many_excluded_nodes_is_forgotten() -> None:
    nodes = directory()
    for number in range(1 + EXCLUDED_COUNT_MAX):
        nodes.exclude(10 + number, 1, None)
    assert len(nodes.excluded) == EXCLUDED_COUNT_MAX
    assert not nodes.is_excluded(10)
    assert nodes.is_excluded(11)


def test_a_node_is_accepted_again_when_its_time_is_over() -> None:
    nodes = directory()
    nodes.exclude(2, 7, until_ns=100)
    nodes.exclude(3, 7, until_ns=None)
    nodes.expire(99)
    assert isinstance(nodes.excluded[2], ExcludedNode)
    nodes.expire(100)
    assert list(nodes.excluded) == [3]
    nodes.readmit(3)
    assert not nodes.is_excluded(3)


def test_a_known_node_is_complete_with_all_packets_and_a_measured_clock() -> None:
    known = KnownNode(description(2))
    complete = []
    for packet, packet_count in ((1, 3), (0, 3), (2, 3), (0, 1)):
        known.packet_received(packet, packet_count)
        complete.append(known.is_complete)
        known.clock_offset_ns = 5
    # The last answer has fewer parts, since its sender knows fewer nodes now.
    assert complete == [False, False, True, True]
    known.clock_offset_ns = None
    assert not known.is_complete


def test_an_ipv6_seed_has_an_id_of_its_own() -> None:
    assert Directory.seed_id(Address("fd00::1", 5)) != Directory.seed_id(Address("fd00::1", 6))
