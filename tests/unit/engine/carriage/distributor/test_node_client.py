"""The carrier as a client of its node."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.admission.admission import INSIDE
from skerry.engine.carriage.distributor.node_client import NodeClient
from skerry.engine.node import NodeCore
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address

HERE = Address("carrier", 0, is_stream=True)


class Stage:
    """A node and a door, with nothing between."""

    def __init__(self) -> None:
        self.core = NodeCore(node_id=1)
        self.door = NodeClient(self.core, name="carrier of harbour")
        self.heard: list[Any] = []

    def open(self) -> None:
        self.core.open(HERE, Wire(), 0, origin=INSIDE)
        self.door.opened(HERE)
        self.carry()

    def carry(self) -> None:
        while transmits := self.core.take_transmits():
            for transmit in transmits:
                self.heard += self.door.hear(transmit.data, 0)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_node_lets_it_in_and_knows_it_by_name(stage: Stage) -> None:
    assert (stage.door.is_open, stage.door.client_id) == (False, 0)
    stage.open()
    assert stage.door.is_open
    (row,) = stage.core.statistics().clients
    assert (row.client_id, row.name, row.kind) == (
        stage.door.client_id,
        "carrier of harbour",
        "inside",
    )


def test_after_a_close_it_can_be_opened_again(stage: Stage) -> None:
    stage.open()
    stage.door.put(b"never sent")
    stage.door.closed()
    assert not stage.door.is_open
    assert stage.door.address is None
    stage.door.flush(0)
    other = Stage()
    other.open()
    assert other.door.is_open


def test_objects_are_handed_over_with_a_flush_and_come_back(site: Any, stage: Stage) -> None:
    stage.open()
    tick = site.make("Tick", number=1)
    stage.core.registry.restore(tick.descriptor)
    header = Header("Tick")
    header.attributes = 2
    data = write_header(header) + tick.encode()
    stage.door.put(data)
    stage.door.put(data)
    assert ticks(stage) == 0
    stage.door.flush(0)
    assert ticks(stage) == 2
    stage.carry()
    assert [(one.type_name, one.sender) for one, _, _ in stage.heard] == [
        ("Tick", stage.door.client_id)
    ] * 2
    assert [body[at:] for _, body, at in stage.heard] == [tick.encode()] * 2


def test_refusals_are_counted(site: Any, stage: Stage) -> None:
    stage.open()
    client = stage.core._clients[HERE]
    stage.core.host.refuse(client, "publish", "not now", 0)
    stage.carry()
    assert stage.door.refusal_count == 1
    assert stage.heard == []


def ticks(stage: Stage) -> int:
    """How many the node has taken."""
    return sum(row.accepted for row in stage.core.statistics().types if row.name == "Tick")
