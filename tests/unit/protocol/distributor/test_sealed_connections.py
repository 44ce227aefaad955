"""A connection seals and opens its datagrams, and counts those that are refused."""

from __future__ import annotations

from typing import Any

from skerry.protocol.sealing.seal import Seal
from skerry.tracing import DropReason


class Stamp:
    """The least that a seal can be."""

    overhead_bytes = 5

    def seal(self, datagram: bytes) -> bytes:
        return b"seal:" + datagram

    def open(self, datagram: bytes) -> bytes | None:
        return datagram[5:] if datagram.startswith(b"seal:") else None


def test_sealed_connections_understand_each_other(bus: Any) -> None:
    seal: Seal = Stamp()
    subscriber = bus.subscriber(seal=seal)
    publisher = bus.publisher(seal=seal)
    bus.publish(publisher, "/a", "/b")
    assert bus.subjects(subscriber) == ["/a", "/b"]
    assert all(data.startswith(b"seal:") for _, data in bus.sent)


def test_a_sealed_datagram_is_not_longer_than_an_unsealed_one_may_be(bus: Any) -> None:
    publisher = bus.publisher(seal=Stamp(), segment_bytes=256)
    bus.publish(publisher, "/a", data=bytes(1000))
    assert max(len(data) for _, data in bus.sent) == 256


def test_retransmissions_are_sealed_again(bus: Any) -> None:
    subscriber = bus.subscriber(seal=Stamp())
    publisher = bus.publisher(seal=Stamp())
    bus.drop = lambda _source, _target, data: data[5 + 2] == 1 and data[5 + 23] == 1
    bus.publish(publisher, "/1", "/2")
    bus.run_ms(50)
    assert bus.subjects(subscriber) == ["/1", "/2"]


def test_strangers_are_refused_and_counted(bus: Any) -> None:
    subscriber = bus.subscriber(seal=Stamp())
    stranger = bus.publisher()
    bus.publish(stranger, "/a")
    assert bus.updates(subscriber) == []
    assert subscriber.statistics().faults[DropReason.SEAL.value] == len(bus.sent)
