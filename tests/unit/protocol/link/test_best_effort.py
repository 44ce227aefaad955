"""Streams without acknowledgement."""

from __future__ import annotations

from skerry.protocol.link.best_effort import BestEffortInput, BestEffortOutput
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import Address
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, guid_prefix
from skerry.protocol.rtps.samples import read_records
from skerry.protocol.rtps.submessages import Data, DataFragment

CONFIG = LinkConfig(send_queue_packet_count=3)
GROUP = Address("239.1.1.1", 26651)
WRITER = 0x03000001


def output() -> tuple[LinkOutput, BestEffortOutput]:
    writer = DatagramWriter(guid_prefix(1, Channel.DATA), has_checksum=True)
    link = LinkOutput(writer, CONFIG.fragment_bytes, 0)
    return link, BestEffortOutput(WRITER, CONFIG, link, group=GROUP)


def sent(link: LinkOutput) -> list[Data | DataFragment]:
    reader = DatagramReader(guid_prefix(2, Channel.DATA))
    parts: list[Data | DataFragment] = []
    for address, datagrams in link.take():
        assert address == GROUP
        for data in datagrams:
            found = reader.read(data)
            assert isinstance(found, Datagram)
            parts += [one for one in found.submessages if isinstance(one, (Data, DataFragment))]
    return parts


def test_small_messages_share_a_datagram(peer: Peer) -> None:
    link, stream = output()
    stream.peers[2] = peer
    for number in range(5):
        assert stream.send(7, 0, bytes([number]), 0)
    stream.flush(0)
    (part,) = sent(link)
    assert isinstance(part, Data)
    assert [content for _, _, content in read_records(part.payload)] == [
        bytes([n]) for n in range(5)
    ]
    assert peer.sent_packet_count == 1


def test_without_receivers_nothing_is_sent() -> None:
    link, stream = output()
    assert stream.send(7, 0, b"x", 0)
    stream.flush(0)
    assert link.take() == []


def test_more_than_the_queue_at_once_is_dropped_until_the_datagrams_are_taken(peer: Peer) -> None:
    _, stream = output()
    stream.peers[2] = peer
    size = CONFIG.fragment_bytes - 30
    accepted = [stream.send(7, 0, bytes(size), 0) for _ in range(10)]
    assert accepted == [True] * 4 + [False] * 6
    stream.flush(0)
    assert stream.send(7, 0, b"x", 0)


def input_of(peer: Peer) -> BestEffortInput:
    return BestEffortInput(peer, message_bytes_max=100, is_shared=True)


def test_what_is_lost_is_counted_and_what_is_late_is_dropped(peer: Peer) -> None:
    stream = input_of(peer)
    received = [stream.data_received(Data(WRITER, seq, b"%d" % seq)) for seq in (5, 8, 7, 8, 9)]
    assert received == [b"5", b"8", None, None, b"9"]
    assert peer.lost_best_effort_count == 2
    assert peer.duplicate_count == 2


def fragment(seq: int, number: int, sample_bytes: int = 12) -> DataFragment:
    return DataFragment(WRITER, seq, number, 4, sample_bytes, b"%04d" % number)


def test_a_sample_with_a_lost_fragment_is_given_up(peer: Peer) -> None:
    stream = input_of(peer)
    parts = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)]
    whole = [stream.fragment_received(fragment(*part)) for part in parts]
    assert whole == [None] * 4 + [b"000100020003"]


def test_a_sample_above_the_limit_is_dropped(peer: Peer) -> None:
    stream = input_of(peer)
    assert all(stream.fragment_received(fragment(1, n, 101)) is None for n in range(1, 27))
