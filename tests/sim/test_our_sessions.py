"""Sessions with our additions: a node understands each of them to its end."""

from __future__ import annotations

import pytest

from skerry.engine.node import NodeCore
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, Disconnect
from tests.captured_sessions import CapturedSession
from tests.sim.our_sessions import our_sessions

PEER = Address("peer", 1, is_stream=True)


def test_there_is_one_of_each_framing_that_has_the_additions() -> None:
    assert [session.framing for session in our_sessions()] == ["v2", "json"]


@pytest.mark.parametrize("session", our_sessions(), ids=lambda session: session.name)
def test_a_node_serves_it_as_it_is(session: CapturedSession) -> None:
    node = NodeCore()
    wire = Wire() if session.framing == "v2" else JsonWire(node.registry)
    node.open(PEER, wire, 0)
    for piece in session.pieces:
        node.receive(piece, PEER, 0)
    assert not any(isinstance(item, Disconnect) for item in node.take_transmits())
    statistics = node.statistics()
    assert statistics.held_count == 5
    assert statistics.requests.asked == 6
    assert statistics.requests.ended == {"answered": 2, "failed": 2}
    assert statistics.unexplained == 0
