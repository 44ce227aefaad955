"""Pages about a node."""

from __future__ import annotations

import json

from skerry.apps.node_pages import node_pages
from skerry.engine.node import NodeCore
from skerry.protocol.machine import Address


def test_node_that_lives_says_so() -> None:
    assert node_pages(NodeCore(), list)["/healthz"]().body == b"ok\n"


def test_node_is_ready_unless_something_is_wrong() -> None:
    faults: list[str] = []
    ready = node_pages(NodeCore(), lambda: faults)["/readyz"]
    assert (ready().status, ready().body) == (200, b"ready\n")
    faults += ["the disk is full", "nobody listens"]
    assert (ready().status, ready().body) == (503, b"the disk is full\nnobody listens\n")


def test_status_has_a_row_for_each_client() -> None:
    core = NodeCore()
    core.stream_opened(Address("client", 1, is_stream=True), 1)
    page = node_pages(core, list)["/status.json"]()
    assert page.content_type == "application/json"
    status = json.loads(page.body)
    assert [row["client_id"] for row in status["clients"]] == [2]
    assert status["clients"][0]["ledger"]["due"] == 0


def test_metrics_are_those_of_the_moment() -> None:
    core = NodeCore()
    metrics = node_pages(core, list)["/metrics"]
    assert b'skerry_clients{door="inside"}' not in metrics().body
    core.stream_opened(Address("client", 1, is_stream=True), 1)
    assert b'skerry_clients{door="inside"} 1.0' in metrics().body
    assert metrics().content_type.startswith("text/plain; version=0.0.4")
