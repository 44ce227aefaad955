"""What a link does with the vectors of the node-to-node wire: delivers, answers, or drops them."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest

from skerry.ids import hash64
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, type_tag, writer_id
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.samples import SampleWriter
from skerry.protocol.rtps.submessages import AckNack, Data, DataFragment, GapNotice, Submessage

FOLDER: Final = Path(__file__).resolve().parent / "rtps"
NODE_A, NODE_B, NODE_C = 0x1122334455667788, 0x0A0B0C0D0E0F1011, 0x7F00000000000003
SERVER: Final = NodeType(name="Server")
CLIENT: Final = NodeType(name="Client")
TYPES: Final = NodeTypes([SERVER, CLIENT])
SHARED: Final = writer_id(StreamClass.RELIABLE_SHARED, type_tag("Server"))
CLIENTS: Final = writer_id(StreamClass.RELIABLE_SHARED, type_tag("Client"))
CONFIG: Final = LinkConfig(datagram_bytes=1428)
"""The fragments of the vectors have 1300 bytes."""
LONG: Final = bytes(index * 7 & 0xFF for index in range(3001))
A, B, C = Address("10.0.0.1", 26661), Address("10.0.0.2", 26661), Address("10.0.0.3", 26661)


def content(name: str) -> bytes:
    return bytes.fromhex(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["hex"])


def made(node: int, own_type: NodeType = SERVER) -> Link:
    """A link of a node that has included node a, or of node a itself, that has included b."""
    link = Link(
        channel=Channel.DATA,
        node=node,
        node_types=TYPES,
        own_type=own_type,
        now_ns=0,
        config=CONFIG,
    )
    other, address = (NODE_B, B) if node == NODE_A else (NODE_A, A)
    link.meet(other, SERVER, address)
    link.include(other, 0)
    link.take_transmits()
    return link


def welcome(link: Link, first_seq: int, writer: int = SHARED) -> None:
    """Let the shared stream of node a begin at a number."""
    datagrams = DatagramWriter(guid_prefix(NODE_A, Channel.DATA))
    datagrams.gap(GapNotice(writer, 1, NumberSet(first_seq, first_seq)))
    assert link.receive(datagrams.finish(), A, 0) is None
    link.take_transmits()


def received(link: Link, *names: str) -> list[tuple[int, bytes]]:
    """Type and content of the messages that a link delivers after some vectors."""
    for name in names:
        assert link.receive(content(name), A, 5) is None
    return [
        (data_type, data)
        for event in link.take_events()
        if isinstance(event, RecordsReceived)
        for data_type, _, data in event.records
    ]


def answers(link: Link, to: int = NODE_A) -> list[Submessage]:
    """What a link sends next to a node."""
    reader = DatagramReader(guid_prefix(to, Channel.DATA))
    found = [reader.read(one.data) for one in link.take_transmits()]
    return [one for part in found if isinstance(part, Datagram) for one in part.submessages]


def acknowledged(link: Link) -> list[tuple[int, int, int, list[int]]]:
    """Writer, base, stop and missing numbers of all acknowledgements that it sends next."""
    return [
        (one.writer, one.numbers.base, one.numbers.stop, list(one.numbers.members))
        for one in answers(link)
        if isinstance(one, AckNack)
    ]


def test_03_a_keep_alive_shows_that_its_sender_lives_and_is_not_answered() -> None:
    link = made(NODE_B)
    assert received(link, "03_keep_alive_idle") == []
    assert link.peer_statistics(NODE_A).received_ns == 5
    assert answers(link) == []


def test_04_and_05_data_is_delivered_in_order_and_acknowledged_on_request() -> None:
    link = made(NODE_B)
    welcome(link, 9)
    entity = hash64("dob.entity")
    assert received(link, "04_data_multi") == [(entity, b"hello world")]
    assert answers(link) == []
    assert received(link, "05_data_multi_ack_now") == [(entity, b"hello again!")]
    assert acknowledged(link) == [(SHARED, 11, 11, [])]


def test_06_data_to_one_node_is_acknowledged() -> None:
    link = made(NODE_B)
    found = received(link, "06_data_single_ack_now")
    assert found == [(hash64("dob.request"), b"\x01\x02\x03\x04")]
    assert acknowledged(link) == [(writer_id(StreamClass.RELIABLE_SINGLE, 1), 2, 2, [])]


@pytest.mark.parametrize("order", [*permutations((1, 2, 3))], ids=str)
def test_07_fragments_are_put_together_in_any_order(order: tuple[int, ...]) -> None:
    link = made(NODE_B)
    welcome(link, 11)
    *first, last = (f"07_data_frag_{number}" for number in order)
    assert received(link, *first) == []
    assert received(link, last) == [(hash64("dob.entity"), LONG)]
    received(link, last)
    assert (SHARED, 12, 12, []) in acknowledged(link)


def sender(count: int, *more: bytes) -> tuple[Link, list[Submessage]]:
    """Node a after it has sent samples to b, and what it has sent."""
    link = made(NODE_A)
    for data in (*[bytes(1200)] * count, *more):
        assert link.send_all(SERVER, 7, data, 0)
    return link, answers(link, NODE_B)


def numbers(parts: list[Submessage]) -> list[tuple[int, int]]:
    """The samples and fragments among some submessages; fragment 0 is a whole sample."""
    found = [(one.seq, 0) for one in parts if isinstance(one, Data)]
    return found + [(one.seq, one.number) for one in parts if isinstance(one, DataFragment)]


def test_08_an_acknowledgement_frees_what_is_below_its_base() -> None:
    link, sent = sender(10)
    assert numbers(sent) == [(seq, 0) for seq in range(1, 11)]
    assert link.statistics().queued_packet_count == 10
    received(link, "08_ack")
    assert link.statistics().queued_packet_count == 0
    assert link.peer_statistics(NODE_B).corrupt_count == 0


def test_09_missing_numbers_are_sent_again_at_once_and_only_once() -> None:
    link, sent = sender(17)
    assert len(numbers(sent)) == 17
    link.advance(10_000_000)
    answers(link, NODE_B)
    received(link, "09_ack_with_gaps")
    assert numbers(answers(link, NODE_B)) == [(12, 0), (14, 0), (15, 0)]
    received(link, "09_ack_with_gaps")
    assert answers(link, NODE_B) == [], "its count is not new"


def test_10_and_15_a_missing_fragment_is_sent_again_and_progress_is_noted() -> None:
    link, sent = sender(10, LONG)
    assert numbers(sent)[-3:] == [(11, 1), (11, 2), (11, 3)]
    link.advance(10_000_000)
    answers(link, NODE_B)
    received(link, "08_ack", "10_nack_frag")
    assert numbers(answers(link, NODE_B)) == [(11, 2)]
    link, _ = sender(10, LONG)
    received(link, "08_ack", "15_frag_progress")
    link.advance(200_000_000)
    assert numbers(answers(link, NODE_B)) == [(11, 3)], "the others have arrived"


def test_11_a_request_is_answered() -> None:
    link = made(NODE_B)
    welcome(link, 5)
    assert received(link, "11_ack_request") == []
    assert acknowledged(link) == [(SHARED, 5, 5, [])]


def test_12_a_welcome_is_answered_with_the_number_at_which_the_stream_begins() -> None:
    link = made(NODE_B)
    assert received(link, "12_welcome") == []
    assert acknowledged(link) == [(SHARED, 42, 42, [])]


def test_13_numbers_of_a_gap_are_not_waited_for() -> None:
    link = made(NODE_C, CLIENT)
    welcome(link, 50, CLIENTS)
    assert received(link, "13_gap_list") == []
    datagrams = DatagramWriter(guid_prefix(NODE_A, Channel.DATA))
    sample = SampleWriter()
    for seq in (55, 53, 51):
        sample.add(7, 0, b"%04d" % seq)
        datagrams.data(Data(CLIENTS, seq, sample.finish(is_padded=True)))
    link.receive(datagrams.finish(), A, 5)
    assert received(link) == [(7, b"0051"), (7, b"0053"), (7, b"0055")]


def test_14_best_effort_is_delivered_if_it_is_newer_and_never_answered() -> None:
    link = made(NODE_B)
    assert received(link, "14_best_effort") == [(hash64("dob.message"), b"tick")]
    assert received(link, "14_best_effort") == []
    assert answers(link) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("90_bad_crc", "checksum"),
        ("91_bad_version", "version"),
        ("92_other_destination", "destination"),
        ("93_truncated", "checksum"),
    ],
)
def test_90_to_93_are_dropped_and_counted_and_show_nothing(name: str, reason: str) -> None:
    link = made(NODE_B)
    welcome(link, 9)
    before = link.peer_statistics(NODE_A)
    assert received(link, name) == []
    assert link.statistics().drops == {reason: 1}
    assert link.peer_statistics(NODE_A) == before, "it does not show that its sender lives"
    assert answers(link) == []
