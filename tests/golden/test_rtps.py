"""The vectors of the node-to-node wire: written byte for byte, read with the fields they state."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skerry.ids import hash64
from skerry.protocol.discovery.descriptions import (
    DiscoveryKind,
    DiscoveryMessage,
    NodeDescription,
)
from skerry.protocol.machine import Address
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import (
    DISCOVERY_READER,
    DISCOVERY_WRITER,
    Channel,
    StreamClass,
    guid_prefix,
    type_tag,
    writer_id,
)
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.samples import SampleWriter, read_records
from skerry.protocol.rtps.submessages import (
    AckNack,
    Data,
    DataFragment,
    GapNotice,
    Heartbeat,
    NackFragments,
)
from skerry.tracing import DropReason

FOLDER = Path(__file__).resolve().parent / "rtps"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
NODE_A, NODE_B, NODE_C = 0x1122334455667788, 0x0A0B0C0D0E0F1011, 0x7F00000000000003
TAG = type_tag("Server")
SHARED = writer_id(StreamClass.RELIABLE_SHARED, TAG)
CLIENTS = writer_id(StreamClass.RELIABLE_SHARED, type_tag("Client"))
BEST_EFFORT = writer_id(StreamClass.BEST_EFFORT_SHARED, TAG)
SINGLE = writer_id(StreamClass.RELIABLE_SINGLE, 1)
TIME_NS = 1_700_000_000_500_000_000
FRAGMENT_BYTES = 1300
LONG = bytes(index * 7 & 0xFF for index in range(3001))


def vector(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def content(name: str) -> bytes:
    return bytes.fromhex(vector(name)["hex"])


def reader_of(node: int, channel: Channel = Channel.DATA) -> DatagramReader:
    return DatagramReader(guid_prefix(node, channel))


def sample(data_type: str, body: bytes, *, is_padded: bool = True) -> bytes:
    writer = SampleWriter()
    writer.add(hash64(data_type), 0, body)
    return writer.finish(is_padded=is_padded)


def made(
    *parts: Any,
    source: int = NODE_A,
    channel: Channel = Channel.DATA,
    to: int | None = None,
    is_timed: bool = False,
) -> bytes:
    writer = DatagramWriter(guid_prefix(source, channel))
    if to is not None:
        writer.destination(guid_prefix(to, channel))
    if is_timed:
        writer.timestamp(TIME_NS)
    methods: dict[type, Any] = {
        Data: writer.data,
        DataFragment: writer.fragment,
        Heartbeat: writer.heartbeat,
        AckNack: writer.acknack,
        NackFragments: writer.nack_fragments,
        GapNotice: writer.gap,
    }
    for part in parts:
        methods[type(part)](part)
    return writer.finish()


def heartbeat(writer: int, first: int, last: int, count: int, **flags: bool) -> Heartbeat:
    return Heartbeat(
        writer, first, last, count, flags.get("is_final", False), flags.get("is_live", False)
    )


def fragments() -> list[DataFragment]:
    whole = sample("dob.entity", LONG, is_padded=False)
    return [
        DataFragment(
            SHARED,
            11,
            index + 1,
            FRAGMENT_BYTES,
            len(whole),
            whole[index * FRAGMENT_BYTES : (index + 1) * FRAGMENT_BYTES],
        )
        for index in range(3)
    ]


VICTORY = b"\x08\x02\x11" + (0x0123456789ABCDEF).to_bytes(8, "little")
WRITTEN = {
    "03_keep_alive_idle": made(heartbeat(SHARED, 1, 0, 1, is_final=True, is_live=True)),
    "04_data_multi": made(Data(SHARED, 9, sample("dob.entity", b"hello world")), is_timed=True),
    "05_data_multi_ack_now": made(
        Data(SHARED, 10, sample("dob.entity", b"hello again!")),
        heartbeat(SHARED, 1, 10, 2),
        is_timed=True,
    ),
    "06_data_single_ack_now": made(
        Data(SINGLE, 1, sample("dob.request", b"\x01\x02\x03\x04")),
        heartbeat(SINGLE, 1, 1, 1),
        to=NODE_B,
        is_timed=True,
    ),
    "07_data_frag_1": made(fragments()[0], is_timed=True),
    "07_data_frag_2": made(fragments()[1], is_timed=True),
    "07_data_frag_3": made(fragments()[2], heartbeat(SHARED, 1, 11, 3), is_timed=True),
    "08_ack": made(AckNack(SHARED, NumberSet(11, 11), 1), source=NODE_B, to=NODE_A),
    "09_ack_with_gaps": made(
        AckNack(SHARED, NumberSet(12, 18, (12, 14, 15)), 2), source=NODE_B, to=NODE_A
    ),
    "10_nack_frag": made(
        NackFragments(SHARED, 11, NumberSet(2, 4, (2,)), 1),
        AckNack(SHARED, NumberSet(11, 11), 3),
        source=NODE_B,
        to=NODE_A,
    ),
    "11_ack_request": made(heartbeat(SHARED, 5, 17, 4), to=NODE_B),
    "12_welcome": made(
        GapNotice(SHARED, 1, NumberSet(42, 42)), heartbeat(SHARED, 42, 41, 5), to=NODE_B
    ),
    "13_gap_list": made(GapNotice(CLIENTS, 50, NumberSet(51, 55, (52, 54))), to=NODE_C),
    "14_best_effort": made(Data(BEST_EFFORT, 3, sample("dob.message", b"tick")), is_timed=True),
    "15_frag_progress": made(
        NackFragments(SHARED, 11, NumberSet(3, 3), 2), source=NODE_B, to=NODE_A
    ),
    "16_election_victory": made(
        Data(SHARED, 4, sample("sp.election", VICTORY)), channel=Channel.CONTROL, is_timed=True
    ),
}


def described(node: int, name: str, node_type: str, number: int) -> NodeDescription:
    return NodeDescription(
        node=node,
        name=name,
        type_id=hash64(node_type),
        control=Address(f"10.0.0.{number}", 26660),
        data=Address(f"10.0.0.{number}", 26661),
    )


ALPHA = described(NODE_A, "alpha", "Server", 1)
BETA = described(NODE_B, "beta", "Server", 2)
GAMMA = described(NODE_C, "gamma", "Client", 3)
SYSTEM, SEED_ID = hash64("StandAlone"), hash64("10.0.0.2:26660")
DISCOVERY = {
    "01_discover": [
        DiscoveryMessage(kind=DiscoveryKind.DISCOVER, node=ALPHA, sent_to=SEED_ID, system=SYSTEM)
    ],
    "02_node_info": [
        DiscoveryMessage(kind=DiscoveryKind.SELF, node=BETA, sent_to=SEED_ID, system=SYSTEM),
        DiscoveryMessage(kind=DiscoveryKind.OTHER, node=GAMMA),
        DiscoveryMessage(kind=DiscoveryKind.SEED, seed=Address("10.0.0.9", 26660)),
    ],
    "17_refusal": [
        DiscoveryMessage(
            kind=DiscoveryKind.REFUSAL,
            node=replace(ALPHA, control=Address(""), data=Address("")),
            system=SYSTEM,
            reason=1,
        )
    ],
}


@pytest.mark.parametrize("name", DISCOVERY)
def test_a_message_of_discovery_is_written_byte_for_byte(name: str) -> None:
    source, to = (NODE_B, NODE_A) if name == "02_node_info" else (NODE_A, None)
    writer = DatagramWriter(guid_prefix(source, Channel.CONTROL))
    to = NODE_B if name == "17_refusal" else to
    if to is not None:
        writer.destination(guid_prefix(to, Channel.CONTROL))
    writer.timestamp(TIME_NS)
    first_seq = 2 if name == "17_refusal" else 1
    for seq, message in enumerate(DISCOVERY[name], first_seq):
        writer.data(Data(DISCOVERY_WRITER, seq, message.encode()), DISCOVERY_READER)
    assert writer.finish().hex(" ", 4) == content(name).hex(" ", 4)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_vector_is_written_byte_for_byte(name: str) -> None:
    assert WRITTEN[name].hex(" ", 4) == content(name).hex(" ", 4)


REFUSED = {
    "90_bad_crc": DropReason.CHECKSUM,
    "91_bad_version": DropReason.VERSION,
    "92_other_destination": DropReason.DESTINATION,
    "93_truncated": DropReason.CHECKSUM,
}


def test_every_vector_is_written_or_refused() -> None:
    assert {*WRITTEN, *DISCOVERY, *REFUSED} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_read_again_and_gives_the_same_bytes(name: str) -> None:
    data = content(name)
    channel = Channel(data[11])
    receiver = {NODE_A: NODE_B, NODE_B: NODE_A}[int.from_bytes(data[12:20], "big")]
    if name == "13_gap_list":
        receiver = NODE_C
    found = reader_of(receiver, channel).read(data)
    if name in REFUSED:
        assert found is REFUSED[name]
        return
    assert isinstance(found, Datagram)
    fields = [field["field"] for field in vector(name)["fields"]]
    to = receiver if "INFO_DST.guidPrefix" in fields else None
    is_timed = "INFO_TS.seconds" in fields
    assert found.sent_ns == (TIME_NS if is_timed else None)
    if name.startswith(("01", "02", "17")):
        parts = [part for part in found.submessages if isinstance(part, Data)]
        assert len(parts) == len(found.submessages)
        messages = [DiscoveryMessage.decode(part.payload) for part in parts]
        assert messages == DISCOVERY[name]
        return
    again = made(*found.submessages, source=found.node, channel=channel, to=to, is_timed=is_timed)
    assert again == data


def test_the_truncated_vector_is_refused_without_checksums_as_well() -> None:
    reader = DatagramReader(guid_prefix(NODE_B, Channel.DATA), has_checksum=False)
    assert reader.read(content("93_truncated")) is DropReason.BODY


def test_a_datagram_of_node_0_is_refused() -> None:
    """The id stands for all nodes, or for none."""
    data = made(heartbeat(SHARED, 1, 0, 1), source=0)
    assert reader_of(NODE_B).read(data) is DropReason.BODY
    assert isinstance(reader_of(NODE_B).read(WRITTEN["11_ack_request"]), Datagram)


def test_records_are_read_as_the_vector_states() -> None:
    found = reader_of(NODE_B).read(content("04_data_multi"))
    assert isinstance(found, Datagram)
    (data,) = found.submessages
    assert isinstance(data, Data)
    assert read_records(data.payload) == [(hash64("dob.entity"), 0, b"hello world")]
