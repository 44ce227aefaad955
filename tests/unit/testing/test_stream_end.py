"""One end of a simulated stream: the queue of pieces to send."""

from __future__ import annotations

from random import Random

from skerry.protocol.machine import Address
from skerry.testing import World
from skerry.testing.stream_end import Signal, StreamEnd
from tests.sim.probe import Probe

PEER = Address("peer", 7, is_stream=True)


def test_signals_keep_their_order_among_the_bytes(world: World) -> None:
    end = StreamEnd(world.add("a", Probe), PEER)
    for piece in (Signal.CONNECT, b"abc", b"def", Signal.ENDED):
        end.push(piece)
    rng = Random(1)
    assert end.outgoing_bytes == 6
    assert end.cut(100, rng) is Signal.CONNECT
    data = b""
    while len(data) < 6:
        piece = end.cut(4, rng)
        assert isinstance(piece, bytes)
        assert 0 < len(piece) <= 4
        data += piece
    assert data == b"abcdef"
    assert end.outgoing_bytes == 0
    assert end.cut(100, rng) is Signal.ENDED


def test_a_shut_end_has_nothing_to_send(world: World) -> None:
    end = StreamEnd(world.add("a", Probe), PEER)
    end.push(b"abc")
    end.shut()
    assert not end.is_open
    assert not end.outgoing
    assert end.outgoing_bytes == 0
