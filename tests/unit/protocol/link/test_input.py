"""The receiving half of a link."""

from __future__ import annotations

from collections.abc import Callable

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import RecordsReceived, Stalled, StallReason
from skerry.protocol.link.input import KEPT_STREAM_COUNT_MAX, LinkInput
from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, writer_id
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.submessages import AckNack, Data

SINGLE = writer_id(StreamClass.RELIABLE_SINGLE, 3)


def made() -> tuple[LinkInput, list[MachineEvent]]:
    events: list[MachineEvent] = []
    return LinkInput(NodeType(), LinkConfig(), events), events


def data(seq: int, content: bytes = b"x", writer: int = SINGLE) -> Data:
    packing = MessagePacking(1000)
    packing.add(7, 0, content, None)
    return Data(writer, seq, packing.close()[0])


def contents(events: list[MachineEvent]) -> list[bytes]:
    received = [one for one in events if isinstance(one, RecordsReceived)]
    return [content for one in received for _, _, content in one.records]


def test_messages_are_reported_in_order_and_acknowledged(peer: Peer) -> None:
    link, events = made()
    for seq in (2, 1):
        link.process(peer, data(seq, b"%d" % seq), 0)
    assert contents(events) == [b"1", b"2"]
    assert link.received_count == 2
    output = LinkOutput(DatagramWriter(guid_prefix(1, Channel.DATA), has_checksum=True), 1000, 0)
    link.acknowledge(output)
    ((_, (datagram,)),) = output.take()
    found = DatagramReader(peer.prefix).read(datagram)
    assert isinstance(found, Datagram)
    (ack,) = [one for one in found.submessages if isinstance(one, AckNack)]
    assert ack.numbers == NumberSet(3, 3)
    link.acknowledge(output)
    assert output.take() == []


def test_during_a_pause_nothing_is_delivered(peer: Peer) -> None:
    link, events = made()
    link.is_paused = True
    for seq in (1, 2):
        link.process(peer, data(seq, b"%d" % seq), 0)
    assert contents(events) == []
    assert link.waiting_bytes(peer.node) > 0
    link.resume()
    assert contents(events) == [b"1", b"2"]
    assert link.waiting_bytes(peer.node) == 0


def test_messages_without_acknowledgement_are_dropped_during_a_pause(peer: Peer) -> None:
    link, events = made()
    writer = writer_id(StreamClass.BEST_EFFORT_SINGLE, 3)
    link.is_paused = True
    link.process(peer, data(1, b"1", writer), 0)
    link.resume()
    link.process(peer, data(2, b"2", writer), 0)
    assert contents(events) == [b"2"]


def test_a_malformed_sample_is_reported_once_and_counted(peer: Peer) -> None:
    link, events = made()
    for seq in (1, 2):
        link.process(peer, Data(SINGLE, seq, b"nonsense"), 0)
    assert events == [Stalled(node=peer.node, reason=StallReason.MALFORMED)]
    assert peer.corrupt_count == 2


def test_the_stream_of_an_earlier_inclusion_is_ignored(peer: Peer) -> None:
    link, events = made()
    link.process(peer, data(1, b"new"), 0)
    earlier = writer_id(StreamClass.RELIABLE_SINGLE, 2)
    link.process(peer, data(1, b"old", earlier), 0)
    later = writer_id(StreamClass.RELIABLE_SINGLE, 4)
    link.process(peer, data(1, b"later", later), 0)
    assert contents(events) == [b"new", b"later"]


def test_a_stream_to_another_type_is_counted_as_corrupt(peer: Peer) -> None:
    link, events = made()
    link.process(peer, data(1, writer=writer_id(StreamClass.RELIABLE_SHARED, 99)), 0)
    link.process(peer, data(1, writer=0x7F000001), 0)
    assert (peer.corrupt_count, events) == (2, [])


def test_the_streams_of_an_excluded_node_are_forgotten(
    make_peer: Callable[[int], Peer], peer: Peer
) -> None:
    link, events = made()
    link.process(peer, data(2), 0)
    other = make_peer(3)
    link.process(other, data(1, b"other"), 0)
    link.exclude(peer)
    assert link.waiting_bytes(peer.node) == 0
    link.process(peer, data(1, b"again"), 0)
    assert contents(events) == [b"other", b"again"]


def test_streams_of_excluded_light_nodes_are_kept_up_to_a_bound() -> None:
    link, events = made()
    light = NodeType(name="light", light=True, may_form_system=False)
    address = Address("10.0.0.1", 26661)
    peers = [
        Peer(node, light, address, Channel.DATA, node)
        for node in range(1, KEPT_STREAM_COUNT_MAX + 2)
    ]
    for light_peer in peers:
        link.process(light_peer, data(1), 0)
    for light_peer in peers:
        link.exclude(light_peer)
    events.clear()
    # The oldest stream is forgotten, so its first message is new. The second one goes on.
    for light_peer in peers[:2]:
        link.process(light_peer, data(1, b"again"), 0)
    assert [one.node for one in events if isinstance(one, RecordsReceived)] == [peers[0].node]
