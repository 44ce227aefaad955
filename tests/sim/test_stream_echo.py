"""The echo over streams, without a network: frames, reconnecting, and silence."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import WouldBlock
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect, Transmit
from skerry.testing.machines.echo import Answered, EchoMessage, Served
from tests.sim.stream_echo import (
    FRAME_BYTES_MAX,
    FrameBuffer,
    StreamEchoClient,
    StreamEchoConfig,
    StreamEchoServer,
    frame,
)

SERVER = Address("server", 7, is_stream=True)
PEER = Address("client", 50000, is_stream=True)
CONFIG = StreamEchoConfig(
    reconnect=Backoff(first_ns=10, delay_ns_max=40, spread_percent=0),
    answer_ns_max=1000,
    pending_count_max=2,
)


def client_of() -> StreamEchoClient:
    return StreamEchoClient(server=SERVER, rng=Random(1), now_ns=0, config=CONFIG)


def opened_client() -> StreamEchoClient:
    client = client_of()
    client.advance(0)
    assert client.take_transmits() == [Connect(destination=SERVER)]
    client.stream_opened(SERVER, 5)
    return client


def answer(client: StreamEchoClient, number: int) -> bytes:
    return frame(EchoMessage(is_answer=True, life=client.life, number=number, data=b"x"))


@given(frames=st.lists(st.binary(max_size=50)), cuts=st.lists(st.integers(1, 20), min_size=1))
def test_frames_are_reassembled_from_any_pieces(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(data).to_bytes(4, "big") + data for data in frames)
    buffer = FrameBuffer()
    out: list[bytes] = []
    turn = 0
    while stream:
        size = cuts[turn % len(cuts)]
        out += buffer.feed(stream[:size]) or []
        stream = stream[size:]
        turn += 1
    assert out == frames


def test_a_frame_has_a_longest_length() -> None:
    assert FrameBuffer().feed(FRAME_BYTES_MAX.to_bytes(4, "big")) == []
    assert FrameBuffer().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big")) is None


def test_questions_asked_before_the_stream_opens_are_sent_when_it_does() -> None:
    client = client_of()
    client.advance(0)
    client.ask(b"early", 1)
    assert client.take_transmits() == [Connect(destination=SERVER)]
    client.stream_opened(SERVER, 5)
    (question,) = client.take_transmits()
    assert type(question) is Transmit
    client.receive(answer(client, 0), SERVER, 6)
    assert client.take_events() == [Answered(life=client.life, number=0, data=b"x")]
    assert client.deadline_ns() is None


def test_a_client_reconnects_with_growing_delays_and_sends_again() -> None:
    client = opened_client()
    client.ask(b"x", 5)
    client.take_transmits()
    for close_ns, due_ns in ((100, 110), (200, 220), (300, 340), (400, 440)):
        client.stream_closed(SERVER, CloseReason.LOST, close_ns)
        assert client.deadline_ns() == due_ns
        client.advance(due_ns)
        assert client.take_transmits() == [Connect(destination=SERVER)]
    client.stream_opened(SERVER, 500)
    assert len(client.take_transmits()) == 1


def test_a_stream_without_answers_is_left() -> None:
    client = opened_client()
    client.ask(b"x", 5)
    client.take_transmits()
    assert client.deadline_ns() == 1005
    client.advance(1005)
    assert client.take_transmits() == [Disconnect(destination=SERVER)]
    assert client.deadline_ns() == 1015


def test_a_server_that_talks_nonsense_is_left() -> None:
    for nonsense in (b"\xff" * 4, b"\x00\x00\x00\x01x"):
        client = opened_client()
        client.receive(nonsense, SERVER, 6)
        assert client.take_transmits() == [Disconnect(destination=SERVER)]


def test_an_answer_counts_once() -> None:
    client = opened_client()
    client.ask(b"x", 5)
    client.receive(answer(client, 0) * 2, SERVER, 6)
    assert len(client.take_events()) == 1


def test_a_client_has_only_so_many_questions_under_way() -> None:
    client = client_of()
    client.ask(b"1", 0)
    client.ask(b"2", 0)
    with pytest.raises(WouldBlock, match="2 questions"):
        client.ask(b"3", 0)


def test_a_server_answers_on_the_same_stream_and_closes_invalid_ones() -> None:
    server = StreamEchoServer()
    server.stream_opened(PEER, 0)
    question = frame(EchoMessage(is_answer=False, life=1, number=2, data=b"x"))
    server.receive(question[:7], PEER, 1)
    assert server.take_transmits() == []
    server.receive(question[7:], PEER, 2)
    answer_frame = frame(EchoMessage(is_answer=True, life=1, number=2, data=b"x"))
    assert server.take_transmits() == [Transmit(destination=PEER, data=answer_frame)]
    assert server.take_events() == [Served(life=1, number=2, data=b"x")]
    server.receive(b"\xff" * 4, PEER, 3)
    assert server.take_transmits() == [Disconnect(destination=PEER)]
    server.advance(4)
    assert server.deadline_ns() is None


def test_a_server_forgets_a_stream_that_closed() -> None:
    server = StreamEchoServer()
    server.stream_opened(PEER, 0)
    server.receive(b"\x00\x00", PEER, 0)
    server.stream_closed(PEER, CloseReason.LOST, 1)
    server.stream_opened(PEER, 2)
    server.receive(frame(EchoMessage(is_answer=False, life=1, number=1, data=b"")), PEER, 3)
    assert len(server.take_transmits()) == 1, "half a frame of the old stream does not count"
