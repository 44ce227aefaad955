"""The nodes and links of a system, and its problems in words."""

from __future__ import annotations

from dataclasses import replace
from time import time
from types import SimpleNamespace
from typing import Any

import skerry
from skerry.apps.system_watch import (
    NodeLink,
    SystemSnapshot,
    SystemWatch,
    has_returned,
    node_name,
    system_snapshot,
)
from skerry.client.api.picture import PictureNode
from skerry.objects.internal import internal_class

NODE = PictureNode(
    id=1,
    name="north",
    kind="full",
    endpoints=("tcp://10.0.0.1:11235",),
    is_dead=False,
    generation=0,
    started=1_700_000_000.0,
    node_type="node",
    control="10.0.0.1:26660",
    data="10.0.0.1:26661",
)
LINK = NodeLink(
    observer=1,
    node=2,
    observer_name="north",
    node_name="south",
    is_dead=False,
    reason="",
    control_received_count=10,
    control_duplicate_count=1,
    control_retransmission_count=2,
    data_received_count=20,
    data_duplicate_count=3,
    data_retransmission_count=4,
    round_trip_s=0.0005,
    lag_s=0.0,
    backlog_bytes=0,
    clock_offset_s=0.002,
    silence_s=0.3,
)
SNAPSHOT = SystemSnapshot(
    system="harbour",
    node=1,
    incarnation=255,
    elected=1,
    election=9,
    sequence=4,
    is_detached=False,
    digest=26,
    nodes=(NODE, replace(NODE, id=2, name="south", endpoints=(), started=0.0)),
    links=(LINK,),
)


def test_nothing_is_wrong_with_a_healthy_system() -> None:
    assert SNAPSHOT.problems() == []
    stopped = replace(NODE, id=3, is_dead=True, reason="ordered")
    assert replace(SNAPSHOT, nodes=(*SNAPSHOT.nodes, stopped)).problems() == []


def test_an_exclusion_is_a_problem_until_the_node_has_joined_again() -> None:
    gone = replace(NODE, id=3, control="10.0.0.1:26664", is_dead=True, reason="silent")
    assert replace(SNAPSHOT, nodes=(*SNAPSHOT.nodes, gone)).problems() == []
    twin = replace(gone, control="10.0.0.2:26660")  # Has the name of another one.
    again = replace(twin, id=4)
    found = replace(SNAPSHOT, nodes=(*SNAPSHOT.nodes, twin, again)).problems()
    assert found == ["north is excluded: silent"]
    assert has_returned(gone, SNAPSHOT.nodes)
    assert not has_returned(gone, [replace(NODE, is_dead=True)])


def test_a_name_that_two_nodes_have_is_a_problem() -> None:
    nodes = [replace(NODE, id=number, name=name) for number, name in enumerate(("", "", "a", "a"))]
    dead = replace(NODE, id=9, name="b", is_dead=True, reason="ordered")
    found = replace(SNAPSHOT, nodes=(*nodes, replace(dead, id=8, is_dead=False), dead))
    assert found.problems() == ["2 nodes have the name a"]


def test_problems_name_the_nodes() -> None:
    south = replace(SNAPSHOT.nodes[1], clock_offset_s=-2.5, unheard_by=(1, 255))
    west = replace(NODE, id=3, name="", is_dead=True, reason="slow")
    found = replace(
        SNAPSHOT,
        nodes=(NODE, south, west),
        links=(replace(LINK, lag_s=2.0), replace(LINK, lag_s=9.0, is_dead=True)),
        is_detached=True,
    )
    assert found.problems() == [
        "0000000000000003 is excluded: slow",
        "the node is cut off from its system",
        "the clock of south differs by -2.5 s",
        "one-way link: north receives nothing of south",
        "one-way link: 00000000000000ff receives nothing of south",
        "south is 2.0 s behind what north sends",
    ]
    assert node_name(west) == "0000000000000003"


def test_nodes_are_in_the_order_of_their_names_and_dead_ones_last() -> None:
    nodes = (replace(NODE, name="z"), replace(NODE, name="b", is_dead=True), NODE)
    picture: Any = SimpleNamespace(
        system="s", node=1, incarnation=2, elected=3, election=4, sequence=5, digest=6
    )
    picture.nodes, picture.is_detached = nodes, False
    assert [one.name for one in system_snapshot(picture).nodes] == ["north", "z", "b"]


def test_a_node_alone_has_no_links(live_node: Any) -> None:
    with skerry.connect(live_node.place, name="watcher") as space, SystemWatch(space) as watch:
        watch.wait_links(0.0)
        found = watch.snapshot(time())
        assert found.links == ()
        assert [one.id for one in found.nodes] == [watch.picture.elected]


def test_outdated_links_are_dropped(live_node: Any) -> None:
    row = internal_class("SkerryRawStatistics")(observer=1, node=2, observerName="north", lag=0.5)
    event: Any = SimpleNamespace(object=row, info=SimpleNamespace(received=100.0))
    with skerry.connect(live_node.place, name="watcher") as space, SystemWatch(space) as watch:
        watch._note(event)
        (link,) = watch.snapshot(101.0).links
        assert (link.observer_name, link.node_name) == ("north", "0000000000000002")
        assert (link.lag_s, link.clock_offset_s, link.round_trip_s) == (0.5, None, None)
        assert watch.snapshot(104.0).links == ()
