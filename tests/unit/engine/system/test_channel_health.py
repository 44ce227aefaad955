"""What the picture learns of the nodes on a channel."""

from __future__ import annotations

from skerry.engine.system.channel_health import health_of
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.liveness import ChannelHealth
from skerry.protocol.rtps.entities import Channel


def link(node: int) -> Link:
    own_type = NodeType()
    types = NodeTypes([own_type])
    made = Link(channel=Channel.CONTROL, node=node, node_types=types, own_type=own_type, now_ns=0)
    other = 3 - node
    made.meet(other, own_type, Address(f"10.0.0.{other}", 1))
    made.include(other, 0)
    return made


def test_health_has_the_counters_of_each_node() -> None:
    first, second = link(1), link(2)
    assert health_of(first) == {2: ChannelHealth()}
    assert first.send_to(2, 7, b"data", 0)
    now_ns = 5_000_000
    for one, other in ((first, second), (second, first)):
        one.advance(now_ns)
        for sent in one.take_transmits():
            other.receive(sent.data, Address("10.0.0.9", 1), now_ns, is_multicast=False)
    found = health_of(second)[1]
    assert found.received_count > 0
    assert (found.received_ns, found.multicast_ns) == (now_ns, None)
    assert (found.retransmission_count, found.lag_ns, found.backlog_bytes) == (0, 0, 0)
