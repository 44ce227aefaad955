"""The picture of a system of one, and of several nodes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skerry.engine.events import NodesForgotten
from skerry.engine.services.picture import (
    Observations,
    PublishedPicture,
    exclusion_text,
    observations,
    probe_objects,
    raw_objects,
)
from skerry.objects.internal import internal_class
from skerry.protocol.discovery.probes import ProbeResult
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.entries import NodeEntry, RawStatistics, SystemState
from skerry.protocol.picture.liveness import ChannelHealth
from skerry.protocol.picture.raw_table import RawTable

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


def test_a_node_alone_is_a_system_of_one(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(name="north", system="fleet", node_id=77)
    guest = harbour.guest()
    places = ["tcp://127.0.0.1:11235"]
    harbour.node.set_endpoints(places, harbour.now_ns)
    guest.join("SkerryPicture")
    (picture,) = guest.messages("SkerryPicture")
    assert (picture.system, picture.node, picture.elected) == ("fleet", 77, 77)
    assert (picture.sequence, picture.isDetached) == (1, False)
    assert picture.election
    assert picture.incarnation
    (node,) = picture.nodes
    assert (node.id, node.name, node.kind, node.endpoints) == (77, "north", "full", places)
    assert (node.isDead, node.generation, node.reason) == (False, 0, None)
    assert (node.nodeType, node.control, node.data) == ("node", None, None)
    assert node.started == 1_700_000_000.0
    harbour.check()


def test_a_further_endpoint_is_published_in_the_same_picture(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(node_id=77)
    guest = harbour.guest()
    guest.join("SkerryPicture")
    for places in (["a"], ["a", "b"]):
        harbour.node.set_endpoints(places, harbour.now_ns)
    harbour.pump()
    pictures = guest.messages("SkerryPicture")
    assert [p.nodes[0].endpoints for p in pictures] == [["a"], ["a", "b"]]
    assert [p.sequence for p in pictures] == [1, 1]
    assert pictures[0].digest == pictures[1].digest


SERVER = NodeType(name="server")
LIGHT = NodeType(name="light", light=True, may_form_system=False)
ENTRIES = (
    NodeEntry(
        node=77,
        name="north",
        type_id=SERVER.id,
        control=Address("10.0.0.1", 26660),
        data=Address("10.0.0.1", 26661),
    ),
    NodeEntry(
        node=-5,
        name="south",
        type_id=LIGHT.id,
        control=Address("fe80::1", 26660),
        data=Address("fe80::1", 26661),
        is_dead=True,
        generation=3,
        dead_reason=ExclusionReason.SILENT,
    ),
)


def seen_by(node: int) -> PublishedPicture:
    state = SystemState(elected_id=77, election_id=9, sequence=4, nodes=ENTRIES).sealed()
    return PublishedPicture(
        node=node, state=state, node_types=NodeTypes([SERVER, LIGHT]), incarnation_id=6
    )


def test_a_node_with_peers_publishes_the_picture_that_it_is_given(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(system="fleet", node_id=77, has_peers=True)
    harbour.node.set_endpoints(["tcp://127.0.0.1:1"], harbour.now_ns)
    assert harbour.cached(internal_class("SkerryPicture")) == [], "no system was joined yet"
    harbour.node.set_picture(seen_by(77), harbour.now_ns)
    (picture,) = harbour.cached(internal_class("SkerryPicture"))
    assert (picture.elected, picture.election, picture.sequence) == (77, 9, 4)
    assert (picture.node, picture.incarnation) == (77, 6)
    wanted = hashlib.sha256(struct.pack(">qBIqBI", -5, 1, 3, 77, 0, 0)).digest()[:8]
    assert picture.digest == int.from_bytes(wanted, "big")
    south, north = picture.nodes
    assert (north.nodeType, north.kind, north.endpoints) == (
        "server",
        "full",
        ["tcp://127.0.0.1:1"],
    )
    assert (south.nodeType, south.kind, south.endpoints) == ("light", "light", None)
    assert (south.control, south.data) == ("[fe80::1]:26660", "[fe80::1]:26661")
    assert (south.isDead, south.generation, south.reason) == (True, 3, "silent")


def test_reasons_of_later_versions_have_a_text() -> None:
    assert exclusion_text(ExclusionReason.BLACK_LISTED) == "black listed"
    assert exclusion_text(99) == "reason 99"


def test_a_client_asks_to_forget_nodes(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(has_peers=True)
    guest = harbour.guest("operator")
    harbour.node.take_events()
    guest.send("SkerryForget", nodes=[5, -6])
    assert harbour.node.take_events() == [NodesForgotten(nodes=(5, -6), client_name="operator")]
    assert guest.refusals() == []


def test_a_node_alone_has_no_others_to_forget(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("SkerryForget", nodes=[5])
    why = "SkerryForget: the node has no system, so it knows no other nodes"
    assert guest.refusals() == [("administer", why)]


def test_a_node_without_extensions_publishes_no_picture(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(extensions=False)
    harbour.node.set_endpoints([], harbour.now_ns)
    assert harbour.cached(internal_class("SkerryPicture")) == []


def test_only_a_node_publishes_a_picture(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("SkerryPicture")
    why = "SkerryPicture: only the node publishes and removes its objects"
    assert guest.refusals() == [("publish", why)]


def test_clients_cannot_clear_the_picture(harbour: Harbour) -> None:
    harbour.node.set_endpoints(["tcp://127.0.0.1:1"], 0)
    guest = harbour.guest()
    guest.join("SkerryPicture")
    guest.send("DotsClearCache", typeNames=["SkerryPicture"])
    assert [what for what, _ in guest.refusals()] == ["clear"]
    assert len(harbour.cached(internal_class("SkerryPicture"))) == 1
    assert all(item.header.remove_obj != 1 for item in guest.items("SkerryPicture"))


def raw_of(node: int, **others: ExclusionReason | None) -> RawStatistics:
    """Raw statistics of a node: the others by name, with the reason for which each is dead."""
    entries = [
        replace(entry(NUMBERS[name]), is_dead=reason is not None, dead_reason=int(reason or 0))
        for name, reason in others.items()
    ]
    return RawStatistics(me=entry(node), nodes=tuple(entries))


NUMBERS = {"a": 1, "b": 2, "c": 3}
NOWHERE = Address("10.0.0.1", 1)


def entry(node: int) -> NodeEntry:
    return NodeEntry(node=node, name=f"n{node}", type_id=SERVER.id, control=NOWHERE, data=NOWHERE)


def table_of(*raws: RawStatistics) -> RawTable:
    table = RawTable(entry(1), SERVER, NodeTypes([SERVER]))
    for raw in raws:
        table.add(raw.me, SERVER, 0).raw_received(raw)
    return table


def test_a_link_is_one_way_if_only_one_end_is_silent_for_the_other() -> None:
    silent, deaf = ExclusionReason.SILENT, ExclusionReason.UNANSWERED
    own = raw_of(1, b=None, c=None)
    both = table_of(raw_of(2, a=None, c=None), raw_of(3, a=None, b=None))
    assert observations(both, own) == Observations()
    one_way = table_of(raw_of(2, a=None, c=None), raw_of(3, a=None, b=silent))
    assert observations(one_way, own).unheard_by == {2: (3,)}
    notified = table_of(raw_of(2, a=None, c=deaf), raw_of(3, a=None))
    assert observations(notified, own).unheard_by == {2: (3,)}
    apart = table_of(raw_of(2, a=None, c=silent), raw_of(3, a=None, b=silent))
    assert observations(apart, own).unheard_by == {}
    ordered = table_of(raw_of(2, a=None, c=ExclusionReason.ORDERED), raw_of(3, a=None, b=silent))
    assert observations(ordered, own).unheard_by == {}


def test_a_link_is_not_one_way_for_a_node_that_has_joined_again() -> None:
    deaf = replace(entry(9), is_dead=True, dead_reason=int(ExclusionReason.UNANSWERED))
    own = RawStatistics(me=entry(1), nodes=(entry(3), deaf))
    table = table_of(raw_of(3, a=None))
    assert observations(table, own).unheard_by == {1: (9,)}
    table.nodes[3].entry = replace(table.nodes[3].entry, name=deaf.name)
    assert observations(table, own) == Observations()


def test_clock_differences_are_published_in_steps() -> None:
    table = table_of(raw_of(2), raw_of(3))
    table.nodes[2].clock_offset_ns = -1_260_000_000
    table.nodes[3].clock_offset_ns = 49_000_000
    assert observations(table, raw_of(1)).clock_offsets_ms == {2: -1300}


def test_observations_are_part_of_the_published_picture(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(system="fleet", node_id=77, has_peers=True)
    seen = Observations(clock_offsets_ms={77: 1300}, unheard_by={77: (-5,)})
    harbour.node.set_picture(replace(seen_by(77), observations=seen), harbour.now_ns)
    (picture,) = harbour.cached(internal_class("SkerryPicture"))
    south, north = picture.nodes
    assert (north.clockOffset, north.unheardBy) == (1.3, [-5])
    assert (south.clockOffset, south.unheardBy) == (None, None)


def test_raw_objects_have_what_each_node_observes() -> None:
    table = table_of(raw_of(2, a=None, c=ExclusionReason.SLOW), raw_of(3))
    table.nodes[2].clock_offset_ns = 5_000_000
    table.nodes[2].control = ChannelHealth(received_ns=1_000_000_000)
    own = table.statistics(1, 1)
    made: list[Any] = list(raw_objects(table, own, 3_000_000_000))
    rows = {(row.observer, row.node): row for row in made}
    assert set(rows) == {(1, 2), (1, 3), (2, 1), (2, 3)}
    assert (rows[1, 2].clockOffset, rows[1, 2].silence) == (0.005, 2.0)
    assert rows[1, 3].clockOffset is None
    assert (rows[2, 3].isDead, rows[2, 3].reason) == (True, "slow")
    assert (rows[2, 3].observerName, rows[2, 3].nodeName) == ("n2", "n3")


def test_probes_are_published_of_nodes_that_are_alive() -> None:
    table = table_of(raw_of(2), raw_of(3), raw_of(4))
    table.kill(table.nodes[3], ExclusionReason.SILENT, 0)
    results = [
        ProbeResult(node=2, round_trip_ns=1_000_000, whole_round_trip_ns=None),
        ProbeResult(node=3, round_trip_ns=1, whole_round_trip_ns=1),
        ProbeResult(node=4, round_trip_ns=None, whole_round_trip_ns=2_000_000),
        ProbeResult(node=9, round_trip_ns=1, whole_round_trip_ns=1),
    ]
    made: list[Any] = list(probe_objects(table, results, datagram_bytes=1450, mtu=1500))
    assert [(one.node, one.roundTripTime, one.wholeRoundTripTime) for one in made] == [
        (2, 0.001, None),
        (4, None, 0.002),
    ]
    assert {(one.control, one.datagramBytes, one.mtu) for one in made} == {
        ("10.0.0.1:1", 1450, 1500)
    }
