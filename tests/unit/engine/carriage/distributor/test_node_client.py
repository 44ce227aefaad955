"""The carriage as a client of its node."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.admission.origins import INSIDE
from skerry.engine.carriage.distributor.node_client import NodeClient
from skerry.engine.node import NodeCore
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address

HERE = Address("carrier", 0, is_stream=True)


class Stage:
    """A node and a client, with nothing between."""

    def __init__(self) -> None:
        self.core = NodeCore(node_id=1)
        self.client = NodeClient(self.core, name="carrier of harbour")
        self.received: list[Any] = []

    def open(self) -> None:
        self.core.open(HERE, Wire(), 0, origin=INSIDE)
        self.client.opened(HERE)
        self.carry()

    def carry(self) -> None:
        while transmits := self.core.take_transmits():
            for transmit in transmits:
                self.received += self.client.read(transmit.data, 0)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_node_accepts_the_client_under_its_name(stage: Stage) -> None:
    assert (stage.client.is_open, stage.client.client_id) == (False, 0)
    stage.open()
    assert stage.client.is_open
    (row,) = stage.core.statistics().clients
    assert (row.client_id, row.name, row.kind) == (
        stage.client.client_id,
        "carrier of harbour",
        "inside",
    )


def test_after_a_close_it_can_be_opened_again(stage: Stage) -> None:
    stage.open()
    stage.client.put(b"never sent")
    stage.client.closed()
    assert not stage.client.is_open
    assert stage.client.address is None
    stage.client.flush(0)
    other = Stage()
    other.open()
    assert other.client.is_open


def test_messages_are_sent_with_a_flush_and_delivered_back(site: Any, stage: Stage) -> None:
    stage.open()
    tick = site.make("Tick", number=1)
    stage.core.registry.restore(tick.descriptor)
    header = Header("Tick")
    header.attributes = 2
    data = write_header(header) + tick.encode()
    stage.client.put(data)
    stage.client.put(data)
    assert ticks(stage) == 0
    stage.client.flush(0)
    assert ticks(stage) == 2
    stage.carry()
    assert [(one.type_name, one.sender) for one, _, _ in stage.received] == [
        ("Tick", stage.client.client_id)
    ] * 2
    assert [body[at:] for _, body, at in stage.received] == [tick.encode()] * 2


def test_refusals_are_counted(site: Any, stage: Stage) -> None:
    stage.open()
    client = stage.core._table.by_address[HERE]
    stage.core.host.refuse(client, "publish", "not now", 0)
    stage.carry()
    assert stage.client.refusal_count == 1
    assert stage.received == []


def ticks(stage: Stage) -> int:
    """The number of ticks that the node accepted."""
    return sum(row.accepted for row in stage.core.statistics().types if row.name == "Tick")
