"""The distributor's wire as it was captured: read, understood, and written again as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import (
    Delivered,
    LossReason,
    OtherDialect,
    SenderFound,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Nak,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE, DatagramWire
from skerry.protocol.machine import Address
from tests.overviews import read_overview

FOLDER = Path(__file__).resolve().parent / "distributor"
MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One datagram, and its fields by name."""

    file: str
    number: int
    data: bytes
    fields: dict[str, Any]

    @property
    def wire(self) -> DatagramWire:
        return PYCAST_WIRE if self.file == "pycast-dialect" else JAVA_WIRE


def captured(*files: str) -> list[Captured]:
    return [
        Captured(
            file=name,
            number=number,
            data=bytes.fromhex(packet["hex"]),
            fields={field["name"]: field["value"] for field in packet["fields"]},
        )
        for name in files
        for number, packet in enumerate(vector(name)["packets"])
    ]


def vector(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
DATAGRAMS = captured(*[name for name in FILES if name != "management-overview"])


def dotted(address: bytes) -> str:
    return ".".join(map(str, address))


def test_all_vectors_are_there() -> None:
    assert len(FILES) == 10
    assert len(DATAGRAMS) == 20


@pytest.mark.parametrize("packet", DATAGRAMS, ids=lambda p: f"{p.file}-{p.number}")
def test_every_datagram_is_decoded_and_encoded_to_the_same_bytes(packet: Captured) -> None:
    message = packet.wire.decode(packet.data)
    assert packet.wire.encode(message) == packet.data


@pytest.mark.parametrize("packet", DATAGRAMS, ids=lambda p: f"{p.file}-{p.number}")
def test_every_field_has_the_documented_value(packet: Captured) -> None:
    message = packet.wire.decode(packet.data)
    fields = packet.fields
    header = message.header
    assert header.kind == fields["message_type"]
    assert header.flags == fields["segment_flags"]
    assert dotted(header.address) == fields["local_address"]
    assert header.sender_id == fields["sender_id"]
    start = "sender_start_time_s" if packet.wire is PYCAST_WIRE else "sender_start_time_low32"
    assert header.start == fields[start]
    assert header.application_id == fields["application_id"]
    CHECKS[type(message)](message, fields)


def check_update(message: Any, fields: dict[str, Any]) -> None:
    assert message.seq == fields["sequence_number"]
    assert message.count == fields["update_count"]


def check_heartbeat(message: Any, fields: dict[str, Any]) -> None:
    check_place(message, fields)
    assert message.start_ms == fields["sender_start_time_ms"]
    assert message.last_seq == fields["last_sequence_number"]


def check_configuration(message: Any, fields: dict[str, Any]) -> None:
    check_place(message, fields)
    starts = (fields.get("sender_start_time_ms"), fields.get("sender_start_time_s_again"))
    assert message.start in starts
    assert message.heartbeat_interval_ms == fields["heartbeat_interval_ms"]
    assert message.configuration_interval_ms == fields["configuration_interval_ms"]
    assert dotted(message.host) == fields["host_address"]
    assert message.application == fields["application_name"]


def check_request(message: Any, fields: dict[str, Any]) -> None:
    assert dotted(message.address) == fields["requestor_address"]
    assert message.target_id == fields["target_sender_id"]
    assert message.target_start == fields["target_start_time_low32"]
    assert message.first_seq == fields["low_sequence_number"]
    assert message.last_seq == fields["high_sequence_number"]
    assert message.host == fields["requestor_host_name"]
    assert message.application == fields["requestor_application_name"]


def check_nak(message: Any, fields: dict[str, Any]) -> None:
    check_place(message, fields)
    assert len(message.seqs) == fields["nak_count"]
    numbers = [fields[f"nak_sequence_number_{n}"] for n in range(1, len(message.seqs) + 1)]
    assert list(message.seqs) == numbers


def check_place(message: Any, fields: dict[str, Any]) -> None:
    assert dotted(message.group) == fields["group_address"]
    assert message.port == fields["group_port"]
    assert message.sender_id == fields["sender_id_again"]


CHECKS: dict[type[Any], Callable[[Any, dict[str, Any]], None]] = {
    UpdateMessage: check_update,
    HeartbeatMessage: check_heartbeat,
    Configuration: check_configuration,
    RepairRequest: check_request,
    Nak: check_nak,
}


def test_the_overview_is_decoded_and_encoded_to_the_same_bytes() -> None:
    (packet,) = captured("management-overview")
    overview = read_overview(packet.data)
    assert overview.encode() == packet.data
    fields = packet.fields
    assert overview.application == fields["application_name"]
    assert overview.distributor_id == fields["distributor_id"]
    assert (overview.start_time, overview.address) == (fields["start_time"], fields["ip_address"])
    assert (overview.host, overview.tcp_port) == (fields["host_name"], fields["mgmt_tcp_port"])
    assert (overview.publisher_count, overview.connection_count) == (1, 1)


# -- captured programs as peers of a connection


def connection(dialect: Dialect = Dialect.JAVA, *, group: str = "224.10.10.44") -> GroupConnection:
    made = GroupConnection(
        group=Address(group, 5656),
        identity=SenderIdentity(
            address=b"\x7f\0\0\1", sender_id=61_234, start_ms=1_794_726_400_000, application_id=1
        ),
        rng=Random(1),
        now_ns=0,
        config=DistributorConfig(dialect=dialect),
    )
    made.subscribe("/...", None)
    return made


def feed(made: GroupConnection, packets: list[Captured]) -> list[Any]:
    for packet in packets:
        made.receive(packet.data, Address("127.0.0.1", 5656), 0)
    return list(made.take_events())


def test_updates_of_the_java_program_are_delivered() -> None:
    made = connection()
    packets = captured("configuration")[:1] + captured("update-single")
    found, delivered = feed(made, [*packets, *captured("heartbeat")[:1]])
    assert isinstance(found, SenderFound)
    assert (found.sender.application, found.sender.start) == ("PUBLISHER", 1_794_726_418_298)
    assert isinstance(delivered, Delivered)
    assert delivered.updates == [("/foo/bar", b"update-%d" % n) for n in (1, 2, 3)]
    made.advance(100 * MS)
    assert made.take_transmits() == []


def test_a_batch_of_the_java_program_is_delivered() -> None:
    (delivered,) = feed(connection(), captured("update-batch"))
    assert delivered.updates == [
        ("/foo/fie", b"update-1"),
        ("/foo/bar", b"update-2"),
        ("/foo/fie", b"update-3"),
        ("/foo/bar", b"update-4"),
    ]


def test_a_large_update_of_the_java_program_is_reassembled() -> None:
    whole = vector("update-segmented")["reassembled"]
    (delivered,) = feed(connection(), captured("update-segmented"))
    assert delivered.updates == [(whole["subject"], bytes.fromhex(whole["payload_hex"]))]


def test_a_loss_is_requested_as_by_the_java_program_and_its_answer_is_used() -> None:
    original, request, answer = captured("retransmission")
    made = connection()
    before = seq_changed(original, 3)
    after = seq_changed(original, 5)
    feed(made, [before, after])
    made.advance(20 * MS)
    (transmit,) = made.take_transmits()
    ours = JAVA_WIRE.decode(transmit.data)
    theirs = JAVA_WIRE.decode(request.data)
    assert isinstance(ours, RepairRequest)
    assert isinstance(theirs, RepairRequest)
    assert (ours.target_id, ours.target_start) == (theirs.target_id, theirs.target_start)
    assert (ours.first_seq, ours.last_seq) == (theirs.first_seq, theirs.last_seq) == (4, 4)
    (delivered,) = feed(made, [answer])
    assert delivered.updates[0] == ("/foo/bar", b"update-4")


def seq_changed(packet: Captured, seq: int) -> Captured:
    data = packet.data[:20] + seq.to_bytes(4, "big") + packet.data[24:]
    return Captured(file=packet.file, number=packet.number, data=data, fields={})


def test_a_request_of_the_java_program_is_answered_with_the_same_bytes() -> None:
    original, request, answer = captured("retransmission")
    header = JAVA_WIRE.decode_header(original.data)
    made = GroupConnection(
        group=Address("224.10.10.44", 5656),
        identity=identity_of(header),
        rng=Random(1),
        now_ns=0,
        first_seq=4,
    )
    made.open_publisher(0)
    made.take_transmits()
    made.publish("/foo/bar", b"update-4", 0)
    (sent,) = made.take_transmits()
    assert sent.data == original.data
    made.receive(request.data, Address("127.0.0.1", 5656), 0)
    made.advance(20 * MS)
    (again,) = made.take_transmits()
    assert again.data == answer.data


def identity_of(header: DatagramHeader) -> SenderIdentity:
    return SenderIdentity(
        address=header.address,
        sender_id=header.sender_id,
        start_ms=header.start,
        application_id=header.application_id,
    )


def test_sent_datagrams_equal_those_of_the_java_program() -> None:
    configuration = captured("configuration")[0]
    message = JAVA_WIRE.decode(configuration.data)
    assert isinstance(message, Configuration)
    made = GroupConnection(
        group=Address("224.10.10.44", 5656),
        identity=SenderIdentity(
            address=message.header.address,
            sender_id=message.sender_id,
            start_ms=message.start,
            application_id=message.header.application_id,
        ),
        rng=Random(1),
        now_ns=0,
        config=DistributorConfig(
            application="PUBLISHER",
            heartbeat_interval_ms=message.heartbeat_interval_ms,
            configuration_interval_ms=message.configuration_interval_ms,
            tail_heartbeat_ms=0,
        ),
    )
    made.open_publisher(0)
    announcement, _ = made.take_transmits()
    assert announcement.data == configuration.data
    for number in (1, 2, 3):
        made.publish("/foo/bar", b"update-%d" % number, 0)
    sent = [transmit.data for transmit in made.take_transmits()]
    assert sent == [packet.data for packet in captured("update-single")]
    made.advance(3000 * MS)
    made.take_transmits()
    made.advance(6000 * MS)
    beats = [t.data for t in made.take_transmits() if t.data[2] == 3]
    assert beats == [captured("heartbeat")[0].data]


def test_a_large_update_is_cut_as_the_java_program_cuts_it() -> None:
    packets = captured("update-segmented")
    whole = vector("update-segmented")["reassembled"]
    made = GroupConnection(
        group=Address("224.10.10.81", 5656),
        identity=identity_of(JAVA_WIRE.decode_header(packets[0].data)),
        rng=Random(1),
        now_ns=0,
        config=DistributorConfig(segment_bytes=256),
    )
    made.open_publisher(0)
    made.take_transmits()
    made.publish(whole["subject"], bytes.fromhex(whole["payload_hex"]), 0)
    assert [t.data for t in made.take_transmits()] == [packet.data for packet in packets]


@pytest.mark.parametrize(
    ("file", "number"), [("configuration", 0), ("heartbeat", 0), ("retransmission", 1)]
)
def test_a_java_program_is_detected_by_any_of_its_control_messages(file: str, number: int) -> None:
    packet = captured(file)[number]
    made = connection()
    made.open_publisher(0)
    made.take_transmits()
    made.receive(packet.data, Address("127.0.0.1", 5656), 0)
    made.publish("/a", bytes(16_000), 0)
    data = [t.data for t in made.take_transmits() if t.data[2] == 1]
    assert max(map(len, data)) == 8192
    assert len(data) == 2, "the Java program puts together no more"
    assert not any(isinstance(event, TooLargeForJava) for event in made.take_events())
    made.publish("/a", bytes(17_000), 0)
    (event,) = [event for event in made.take_events() if isinstance(event, TooLargeForJava)]
    assert (event.subject, event.size, event.limit) == ("/a", 17_000, 16_316)


@pytest.mark.parametrize("file", ["retransmission-nak", "retransmission-nak-empty"])
def test_a_nak_of_the_java_program_is_processed(file: str) -> None:
    (nak,) = captured(file)
    header = JAVA_WIRE.decode_header(nak.data)
    made = connection()
    for seq in (4, 7):
        update = UpdateMessage(
            header=DatagramHeader(
                kind=1,
                address=header.address,
                sender_id=header.sender_id,
                start=header.start,
                application_id=header.application_id,
            ),
            seq=seq,
            count=0,
            body=b"",
        )
        made.receive(JAVA_WIRE.encode(update), Address("127.0.0.1", 5656), 0)
    made.advance(20 * MS)
    (lost,) = feed(made, [nak])
    assert isinstance(lost, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq, lost.reason) == (5, 7, LossReason.NAK)


def test_pycast_is_an_option_and_detected_without_it() -> None:
    packets = captured("pycast-dialect")
    found, delivered = feed(connection(Dialect.PYCAST, group="224.10.11.12"), packets)
    assert isinstance(found, SenderFound)
    assert (found.sender.application, found.sender.start) == ("test", 1_794_726_700)
    assert isinstance(delivered, Delivered)
    ((subject, data),) = delivered.updates
    assert (subject, len(data)) == ("/test/0000", 67)
    (other,) = feed(connection(Dialect.JAVA, group="224.10.11.12"), packets)
    assert isinstance(other, OtherDialect)
    assert other.address == "127.0.0.1"
