"""Pages about a node."""

from __future__ import annotations

import json
from random import Random

from skerry.apps.node.pages import node_pages
from skerry.engine.carriage.distributor.carriage import GroupCarriage
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.engine.node import NodeCore
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address
from tests.unit.observe.test_system_metrics import statistics as member_statistics


def test_running_node_is_healthy() -> None:
    assert node_pages(NodeCore(), list)["/healthz"]().body == b"ok\n"


def test_node_is_ready_unless_something_is_wrong() -> None:
    faults: list[str] = []
    ready = node_pages(NodeCore(), lambda: faults)["/readyz"]
    assert (ready().status, ready().body) == (200, b"ready\n")
    faults += ["the disk is full", "the node does not listen"]
    assert (ready().status, ready().body) == (503, b"the disk is full\nthe node does not listen\n")


def test_status_has_a_row_for_each_client() -> None:
    core = NodeCore()
    core.stream_opened(Address("client", 1, is_stream=True), 1)
    page = node_pages(core, list)["/status.json"]()
    assert page.content_type == "application/json"
    status = json.loads(page.body)
    assert [row["client_id"] for row in status["clients"]] == [2]
    assert status["clients"][0]["ledger"]["due"] == 0


def test_status_has_the_numbers_of_the_group_if_there_is_one() -> None:
    alone = json.loads(node_pages(NodeCore(), list)["/status.json"]().body)
    assert alone["distributor"] is None
    identity = SenderIdentity(
        address=b"\x0a\x00\x00\x01", sender_id=1, start_ms=1, application_id=0
    )
    group = Address("239.192.7.1", 4711)
    connection = GroupConnection(group=group, identity=identity, rng=Random(1), now_ns=1)
    carrier = GroupCarriage(core := NodeCore(), connection, config=DistributorConfig(), now_ns=1)

    def statistics() -> GroupStatistics:
        return GroupStatistics(carrier=carrier.statistics(), seal=None, kernel_drop_count=3)

    pages = node_pages(core, list, statistics)
    status = json.loads(pages["/status.json"]().body)
    assert status["distributor"]["kernel_drop_count"] == 3
    assert status["distributor"]["carrier"]["dropped"]["malformed"] == 0
    assert status["distributor"]["carrier"]["group"]["publisher_count"] == 1
    assert b"skerry_distributor_kernel_drops_total 3.0" in pages["/metrics"]().body


def test_metrics_are_those_of_the_moment() -> None:
    core = NodeCore()
    metrics = node_pages(core, list)["/metrics"]
    assert b'skerry_clients{door="inside"}' not in metrics().body
    core.stream_opened(Address("client", 1, is_stream=True), 1)
    assert b'skerry_clients{door="inside"} 1.0' in metrics().body
    assert metrics().content_type.startswith("text/plain; version=0.0.4")


def test_status_and_metrics_have_the_system_if_there_is_one() -> None:
    found = member_statistics()
    pages = node_pages(NodeCore(), list, member=lambda: found)
    status = json.loads(pages["/status.json"]().body)
    assert status["system"]["alive_count"] == found.alive_count
    assert status["system"]["machine"]["picture"]["state_sequence"] == 0
    assert b"skerry_system_is_member 1.0" in pages["/metrics"]().body
    assert json.loads(node_pages(NodeCore(), list)["/status.json"]().body)["system"] is None
