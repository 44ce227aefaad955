"""The echo without a network: retries, limits, duplicates, and what survives a restart."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import WouldBlock
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import Address
from skerry.testing import Checker, Exactly, Packet, World
from skerry.testing.machines.echo import (
    Answered,
    EchoClient,
    EchoConfig,
    EchoMessage,
    EchoServer,
    GaveUp,
    Served,
)
from skerry.tracing import DatagramDropped, DropReason, TraceEvent

SERVER = Address("second", 7)
CLIENT = Address("first", 7)
STEADY = Backoff(first_ns=10, delay_ns_max=10, spread_percent=0)


class Drops:
    """Takes the reasons of dropped datagrams."""

    def __init__(self) -> None:
        self.reasons: list[DropReason] = []

    def emit(self, event: TraceEvent) -> None:
        assert isinstance(event, DatagramDropped)
        self.reasons.append(event.reason)


def client_of(config: EchoConfig | None = None, disk: bytes | None = None) -> EchoClient:
    return EchoClient(server=SERVER, rng=Random(1), now_ns=0, config=config, disk=disk)


def answer_to(client: EchoClient, number: int, data: bytes = b"") -> bytes:
    return EchoMessage(is_answer=True, life=client.life, number=number, data=data).encode()


class Arrivals(Checker):
    def __init__(self) -> None:
        self.names: list[str] = []
        """Where each packet arrived."""

    def arrived(self, packet: Packet) -> str | None:
        self.names.append(packet.destination.name)
        return None


def test_client_sends_only_lost_questions_again(world: World) -> None:
    asking, answering = world.pair(
        lambda setting: EchoClient(server=SERVER, rng=setting.rng, now_ns=setting.now_ns),
        lambda _: EchoServer(),
        loss=Exactly(seqs={1}),
    )
    for data in (b"a", b"b", b"c"):
        asking.machine.ask(data, asking.now_ns)
    world.collect(asking)
    arrivals = Arrivals()
    world.watch(arrivals)
    world.run_until(lambda: len(asking.events) == 3)
    assert [event.number for event in asking.events if isinstance(event, Answered)] == [0, 2, 1]
    assert Counter(arrivals.names) == {answering.name: 3, asking.name: 3}


@given(is_answer=st.booleans(), life=st.integers(0, 2**64 - 1), data=st.binary())
def test_a_message_survives_its_bytes(is_answer: bool, life: int, data: bytes) -> None:
    message = EchoMessage(is_answer=is_answer, life=life, number=7, data=data)
    assert EchoMessage.decode(message.encode()) == message


def test_bytes_that_are_not_a_message_are_recognized() -> None:
    assert EchoMessage.decode(b"") is None
    assert EchoMessage.decode(bytes(12)) is None
    assert EchoMessage.decode(b"\x03" + bytes(12)) is None
    assert EchoMessage.decode(b"\x01" + bytes(12)) is not None


def test_a_client_gives_up_after_its_last_attempt() -> None:
    client = client_of(EchoConfig(retry=STEADY, attempt_count_max=3))
    client.ask(b"x", 0)
    for now_ns in (10, 20):
        assert client.deadline_ns() == now_ns
        client.advance(now_ns)
        assert client.take_events() == []
    assert len(client.take_transmits()) == 3
    client.advance(30)
    assert client.take_events() == [GaveUp(life=client.life, number=0)]
    assert client.take_transmits() == []
    assert client.deadline_ns() is None


def test_a_client_has_only_so_many_questions_under_way() -> None:
    client = client_of(EchoConfig(pending_count_max=2))
    client.ask(b"1", 0)
    client.ask(b"2", 0)
    with pytest.raises(WouldBlock, match="2 questions"):
        client.ask(b"3", 0)
    client.receive(answer_to(client, 0), SERVER, 1)
    assert client.ask(b"3", 1) == 2


def test_every_reason_to_drop_an_answer_is_reached() -> None:
    drops = Drops()
    client = EchoClient(server=SERVER, rng=Random(1), now_ns=0, tracer=drops)
    client.ask(b"x", 0)
    question = client.take_transmits()[0].data
    client.receive(b"nonsense", SERVER, 1)
    client.receive(question, SERVER, 1)
    client.receive(answer_to(client, 0), Address("stranger"), 1)
    other_life = EchoMessage(is_answer=True, life=client.life ^ 1, number=0, data=b"")
    client.receive(other_life.encode(), SERVER, 1)
    client.receive(answer_to(client, 0), SERVER, 1)
    client.receive(answer_to(client, 0), SERVER, 1)
    assert drops.reasons == [
        DropReason.MALFORMED,
        DropReason.MALFORMED,
        DropReason.STRANGER,
        DropReason.STRANGER,
        DropReason.DUPLICATE,
    ]
    assert client.take_events() == [Answered(life=client.life, number=0, data=b"")]


def test_questions_without_answer_survive_a_restart() -> None:
    client = client_of()
    for data in (b"a", b"b"):
        client.ask(data, 0)
    client.receive(answer_to(client, 0), SERVER, 1)
    again = EchoClient(server=SERVER, rng=Random(2), now_ns=0, disk=client.durable())
    assert again.life == client.life
    assert [EchoMessage.decode(t.data) for t in again.take_transmits()] == [
        EchoMessage(is_answer=False, life=client.life, number=1, data=b"b")
    ]
    assert again.ask(b"c", 0) == 2


def test_without_a_disk_a_client_begins_another_life() -> None:
    assert EchoClient(server=SERVER, rng=Random(2), now_ns=0).life != client_of().life


def test_a_server_answers_every_time_and_serves_once() -> None:
    server = EchoServer()
    question = EchoMessage(is_answer=False, life=1, number=2, data=b"x").encode()
    for _ in range(3):
        server.receive(question, CLIENT, 0)
    assert server.take_events() == [Served(life=1, number=2, data=b"x")]
    answers = server.take_transmits()
    assert [answer.destination for answer in answers] == [CLIENT] * 3
    assert EchoMessage.decode(answers[0].data) == EchoMessage(
        is_answer=True, life=1, number=2, data=b"x"
    )
    server.advance(1)
    assert server.deadline_ns() is None


def test_a_server_drops_messages_that_are_not_questions() -> None:
    drops = Drops()
    server = EchoServer(tracer=drops)
    server.receive(b"", CLIENT, 0)
    server.receive(EchoMessage(is_answer=True, life=1, number=2, data=b"").encode(), CLIENT, 0)
    assert drops.reasons == [DropReason.MALFORMED] * 2
    assert server.take_transmits() == []


def test_a_server_remembers_only_so_many_questions() -> None:
    server = EchoServer(config=EchoConfig(served_count_max=2))
    for number in (0, 1, 2, 2, 1, 0):
        server.receive(
            EchoMessage(is_answer=False, life=1, number=number, data=b"").encode(), CLIENT, 0
        )
    served = [event.number for event in server.take_events() if isinstance(event, Served)]
    assert served == [0, 1, 2, 0], "the oldest was forgotten"
