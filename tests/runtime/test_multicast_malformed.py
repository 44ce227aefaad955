"""Malformed datagrams in a group are counted by reason and do no harm."""

from __future__ import annotations

import queue
import select
import socket
import struct
from collections.abc import Iterator
from random import Random

import pytest

from skerry import distributor
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    END,
    GOODBYE,
    HEARTBEAT,
    NAK,
    REQUEST,
    START,
    UPDATE,
    WHOLE,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
)
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.protocol.machine import Address
from skerry.runtime.udp.multicast import MulticastSocket
from skerry.tracing import DropReason

HOST = "239.255.77.6"


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def stranger(port: int) -> Iterator[MulticastSocket]:
    made = MulticastSocket(Address(HOST, port), interface="127.0.0.1", ttl=0, trains=False)
    yield made
    made.close()


def header(kind: int, flags: int = WHOLE, sender_id: int = 7) -> bytes:
    return JAVA_WIRE.header(
        DatagramHeader(
            kind=kind,
            flags=flags,
            address=b"\x0a\0\0\1",
            sender_id=sender_id,
            start=1234,
            application_id=5,
        )
    )


def data(seq: int, body: bytes, *, count: int = 1, flags: int = WHOLE) -> bytes:
    return header(UPDATE, flags) + struct.pack(">II", seq, count) + body


def update(subject: bytes, content: bytes) -> bytes:
    return JAVA_WIRE.subject_head(subject) + len(content).to_bytes(4, "big") + content


def malformed(port: int) -> dict[DropReason, list[bytes]]:
    """Datagrams by what is wrong with them, in an order in which all of it is seen."""
    group = socket.inet_aton(HOST)
    place = group + struct.pack(">II", port, 7)
    value = DatagramHeader(
        kind=HEARTBEAT, flags=WHOLE, address=b"\x0a\0\0\1", sender_id=7, start=1234,
        application_id=5,
    )  # fmt: skip
    heartbeat = JAVA_WIRE.encode(
        HeartbeatMessage(
            header=value, group=group, port=port, sender_id=7, start_ms=1234, last_seq=0
        )
    )
    reversed_group = Configuration(
        header=DatagramHeader(
            kind=CONFIGURATION, address=b"\1\0\0\x0a", sender_id=9, start=1, application_id=5
        ),
        group=group[::-1],
        port=port,
        sender_id=9,
        start=1,
        heartbeat_interval_ms=1,
        configuration_interval_ms=1,
        host=b"\1\0\0\x0a",
        application="other",
    )
    first = data(1, update(b"/a", b"from a stranger"))
    return {
        DropReason.SHORT: [
            b"",
            b"\1",
            header(UPDATE)[:-1],
            header(UPDATE),
            header(UPDATE) + bytes(7),
        ],
        DropReason.VERSION: [b"\3\0" + header(UPDATE)[2:] + bytes(20), b"\xff" * 100],
        DropReason.KIND: [header(99) + bytes(50), header(0) + bytes(50)],
        DropReason.BODY: [
            heartbeat[:-1],
            heartbeat + b"\0",
            header(GOODBYE),
            header(CONFIGURATION) + place + b"\0" * 20,
            header(REQUEST) + b"\0" * 10,
            header(NAK) + place + struct.pack(">I", 0xFFFFFFFF),
        ],
        DropReason.DUPLICATE: [first, first],
        DropReason.UPDATES: [
            data(2, b""),
            data(2, update(b"/a", b"x"), count=2),
            data(2, update(b"/a", b"x"), count=0xFFFFFFFF),
            data(2, update(b"/a", b"x") + b"more"),
            data(2, b"\1\xff\xff\xff\xff/a"),
            data(2, b"\1\0\0\0\2/a\1\x7f\xff\xff\xffx"),
        ],
        DropReason.SUBJECT: [data(2, update(b"no slash", b"x") + update(b"", b"x"), count=2)],
        DropReason.PIECES: [
            data(3, update(b"/a", b"")[:-4] + struct.pack(">I", 3) + b"12", flags=START),
            data(4, b"345", flags=END),
            data(5, b"what", flags=START),
            data(6, update(b"/a", b"")[:-4] + struct.pack(">I", 0xFFFFFFFF), flags=START),
        ],
        DropReason.JUMP: [data(1_000_000_000, update(b"/a", b"x"))],
        DropReason.DIALECT: [JAVA_WIRE.encode(reversed_group)],
    }


def test_every_kind_of_fault_is_counted_and_nobody_is_harmed(
    port: int, stranger: MulticastSocket
) -> None:
    got: queue.Queue[bytes] = queue.Queue()
    kinds = malformed(port)
    rng = Random(4)
    with distributor.open(
        f"{HOST}:{port}", interface="127.0.0.1", ttl=0, request_timeout_ms=20,
        socket_buffer_bytes=4_000_000,
    ) as connection:  # fmt: skip
        subscriber = connection.subscriber(
            lambda _s, content, _t, _n: got.put(content), lambda _: None
        )
        subscriber.add("/a")
        publisher = connection.publisher()
        for datagrams in kinds.values():
            for datagram in datagrams:
                stranger.send_all([datagram])
        for _ in range(300):
            noise = rng.randbytes(rng.randrange(80))
            stranger.send_all([noise, b"\1\0" + bytes((rng.randrange(9),)) + noise])
        assert got.get(timeout=10) == b"from a stranger"
        publisher.publish("/a", b"from us")
        while got.get(timeout=10) != b"from us":
            pass
        faults = connection.statistics().counters.faults
        for fault, datagrams in kinds.items():
            assert faults[fault.value] >= (
                1 if fault is DropReason.DUPLICATE else len(datagrams) // 2
            )
        # Nothing of it was answered but by the usual requests, and the group still hears us.
        assert select.select([stranger], [], [], 10)[0]


def test_requests_of_strangers_cost_little(port: int, stranger: MulticastSocket) -> None:
    got: queue.Queue[bytes] = queue.Queue()
    with distributor.open(
        f"{HOST}:{port}", interface="127.0.0.1", ttl=0, request_timeout_ms=20
    ) as connection:
        connection.subscriber(lambda _s, content, _t, _n: got.put(content)).add("/a")
        publisher = connection.publisher()
        publisher.publish("/a", b"1")
        assert got.get(timeout=10) == b"1"
        statistics = connection.statistics()
        target = struct.pack(">II", statistics.sender_id, statistics.start_ms & 0xFFFFFFFF)
        for first, last in ((0, 0xFFFFFFFF), (1, 0x7FFFFFFF), (5, 1), (0x80000000, 1)):
            body = b"\x0a\0\0\1" + target + struct.pack(">II", first, last) + b"\0\0"
            stranger.send_all([header(REQUEST) + body] * 20)
        publisher.publish("/a", b"2")
        assert got.get(timeout=10) == b"2"
        assert connection.statistics().counters.resent_datagram_count <= 80
