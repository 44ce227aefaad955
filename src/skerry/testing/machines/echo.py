"""An echo by datagrams: a client sends a question until it is answered; a server serves it once.

It has the elements of larger protocols: retries with increasing delays, a bound on pending
questions, detection of duplicates, and questions that survive a restart of the client.

Its scenario takes the factories of the machines as arguments, so that a test can pass a broken one,
which a checker must detect.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from skerry.errors import WouldBlock
from skerry.protocol.backoff import Backoff
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import Address, MachineEvent, Statistics, Transmit
from skerry.protocol.outbox import Outbox
from skerry.testing.checkers import Checker, EachOnce, NoInvention
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Factory, Node, Setting
from skerry.testing.node_faults import ClockDrift, Clogs, Partitions, Pauses, Restarts
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

_HEAD: Final = struct.Struct(">BQI")


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoMessage:
    """A question or its answer: kind, life of the client, number of the question, data."""

    is_answer: bool
    life: int
    number: int
    data: bytes

    def encode(self) -> bytes:
        """Encode the message: a head of 13 bytes, then the data."""
        return _HEAD.pack(2 if self.is_answer else 1, self.life, self.number) + self.data

    @staticmethod
    def decode(data: bytes) -> EchoMessage | None:
        if len(data) < _HEAD.size:
            return None
        kind, life, number = _HEAD.unpack_from(data)
        if kind not in (1, 2):
            return None
        return EchoMessage(is_answer=kind == 2, life=life, number=number, data=data[_HEAD.size :])


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoConfig:
    """Retries and bounds of a client, and the memory of a server."""

    retry: Backoff = field(
        default_factory=lambda: Backoff(first_ns=20_000_000, delay_ns_max=500_000_000)
    )
    attempt_count_max: int = 100
    """Attempts before a question is given up."""
    pending_count_max: int = 64
    """Pending questions. A further one raises `WouldBlock`."""
    served_count_max: int = 10_000
    """Questions that a server recognizes: more than all pending questions of its clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(MachineEvent):
    """A question was answered."""

    life: int
    number: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(MachineEvent):
    """A question had no answer after the last attempt."""

    life: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(MachineEvent):
    """A server received this question for the first time."""

    life: int
    number: int
    data: bytes


class EchoClient(Outbox):
    """Sends questions to one server. Each is answered, or given up, once."""

    def __init__(
        self,
        *,
        server: Address,
        rng: Random,
        now_ns: int,
        disk: bytes | None = None,
        config: EchoConfig | None = None,
        tracer: Tracer = NO_TRACE,
    ) -> None:
        self._server = server
        self._rng = rng
        self._config = config or EchoConfig()
        self._tracer = tracer
        super().__init__()
        self._attempts: dict[int, int] = {}
        self._retries: Deadlines[int] = Deadlines()
        self._questions: dict[int, bytes] = {}
        self.life = rng.getrandbits(64)
        self.next_number = 0
        if disk is not None:
            self._restore(disk, now_ns)

    def ask(self, data: bytes, now_ns: int) -> int:
        """Send a question and return its number, which its answer will have."""
        if len(self._questions) >= self._config.pending_count_max:
            raise WouldBlock(f"{len(self._questions)} questions are pending; wait for answers")
        number = self.next_number
        self.next_number += 1
        self._questions[number] = data
        self._attempts[number] = 0
        self._attempt(number, now_ns)
        return number

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        message = EchoMessage.decode(data)
        if message is None or not message.is_answer:
            self._drop(DropReason.MALFORMED, source, now_ns)
        elif source != self._server or message.life != self.life:
            self._drop(DropReason.STRANGER, source, now_ns)
        elif message.number not in self._questions:
            self._drop(DropReason.DUPLICATE, source, now_ns)
        else:
            self._forget(message.number)
            self._events.append(Answered(life=self.life, number=message.number, data=message.data))

    def advance(self, now_ns: int) -> None:
        """Send questions again that were not answered in time."""
        for number, _ in self._retries.take_due(now_ns):
            if self._attempts[number] < self._config.attempt_count_max:
                self._attempt(number, now_ns)
            else:
                self._forget(number)
                self._events.append(GaveUp(life=self.life, number=number))

    def deadline_ns(self) -> int | None:
        """Time of the next retry."""
        return self._retries.next_ns()

    def statistics(self) -> Statistics:
        return Statistics()

    def durable(self) -> bytes:
        """The life and the pending questions, which the next life sends again."""
        pending = {str(number): data.hex() for number, data in self._questions.items()}
        row = {"life": self.life, "next": self.next_number, "pending": pending}
        return json.dumps(row).encode()

    def _restore(self, disk: bytes, now_ns: int) -> None:
        row = json.loads(disk)
        self.life = row["life"]
        self.next_number = row["next"]
        for text, data in row["pending"].items():
            self._questions[int(text)] = bytes.fromhex(data)
            self._attempts[int(text)] = 0
            self._attempt(int(text), now_ns)

    def _attempt(self, number: int, now_ns: int) -> None:
        message = EchoMessage(
            is_answer=False, life=self.life, number=number, data=self._questions[number]
        )
        self._transmits.append(Transmit(destination=self._server, data=message.encode()))
        self._attempts[number] += 1
        delay_ns = self._config.retry.delay_ns(self._attempts[number], self._rng)
        self._retries.set(number, now_ns + delay_ns)

    def _forget(self, number: int) -> None:
        del self._questions[number]
        del self._attempts[number]
        self._retries.cancel(number)

    def _drop(self, reason: DropReason, source: Address, now_ns: int) -> None:
        self._tracer.emit(DatagramDropped(now_ns=now_ns, source=str(source), reason=reason))


class EchoServer(Outbox):
    """Answers every question, and serves each one once per life."""

    def __init__(self, *, config: EchoConfig | None = None, tracer: Tracer = NO_TRACE) -> None:
        self._config = config or EchoConfig()
        self._tracer = tracer
        super().__init__()
        # A dictionary, because it is ordered: the oldest entry is removed first.
        self._served: dict[tuple[int, int], None] = {}

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        message = EchoMessage.decode(data)
        if message is None or message.is_answer:
            self._tracer.emit(
                DatagramDropped(now_ns=now_ns, source=str(source), reason=DropReason.MALFORMED)
            )
            return
        if self._is_new(message):
            self._events.append(Served(life=message.life, number=message.number, data=message.data))
        # A known question is answered, too: it was sent again because the answer was lost.
        answer = EchoMessage(
            is_answer=True, life=message.life, number=message.number, data=message.data
        )
        self._transmits.append(Transmit(destination=source, data=answer.encode()))

    def advance(self, now_ns: int) -> None:
        """Do nothing: a server has no deadlines."""

    def deadline_ns(self) -> int | None:
        return None

    def statistics(self) -> Statistics:
        return Statistics()

    def _is_new(self, message: EchoMessage) -> bool:
        key = (message.life, message.number)
        if key in self._served:
            return False
        self._served[key] = None
        if len(self._served) > self._config.served_count_max:
            del self._served[next(iter(self._served))]
        return True


# -- the scenario and its checkers


def answered_once() -> EachOnce:
    """A client reports each answer once."""
    return EachOnce("answered once", _answer_key)


def served_once() -> EachOnce:
    """A server serves each question once per life."""
    return EachOnce("served once", _served_key)


def genuine() -> NoInvention:
    """Questions and answers have the data that was announced as (life, number, data)."""
    return NoInvention("genuine", _content_key)


class AllAnswered(Checker):
    """Liveness: every question is answered, except those that a client lost with its disk."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], str] = {}

    def asked(self, node: Node[Any], life: int, number: int) -> None:
        """Record a question that must be answered."""
        self._open[life, number] = node.name

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, GaveUp):
            return f"{node.name} gave up question {event.number}"
        if isinstance(event, Answered):
            self._open.pop((event.life, event.number), None)
        return None

    def liveness(self, world: World) -> str | None:
        for (life, number), name in self._open.items():
            if world.nodes[name].machine.life == life:
                return f"question {number} of {name} has no answer"
        return None


def _answer_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int] | None:
    if not isinstance(event, Answered):
        return None
    return (node.name, event.life, event.number)


def _served_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int, int] | None:
    if not isinstance(event, Served):
        return None
    return (node.name, node.life, event.life, event.number)


def _content_key(_: Node[Any], event: MachineEvent) -> tuple[int, int, bytes] | None:
    if not isinstance(event, (Answered, Served)):
        return None
    return (event.life, event.number, event.data)


SERVER: Final = Address("server", 7)


def echo_client(setting: Setting) -> EchoClient:
    """A client that continues where its last life ended."""
    return EchoClient(
        server=SERVER,
        rng=setting.rng,
        now_ns=setting.now_ns,
        disk=setting.disk,
        tracer=setting.tracer,
    )


def echo_server(setting: Setting) -> EchoServer:
    """A server without memory of its last life."""
    return EchoServer(tracer=setting.tracer)


def play_echo(
    world: World,
    node_count: int,
    *,
    client: Factory[EchoClient] = echo_client,
    server: Factory[EchoServer] = echo_server,
) -> None:
    """One server and clients. Datagrams are lost, duplicated, reordered, delayed and
    partitioned."""
    world.add("server", server)
    clients = [world.add(f"client-{n}", client) for n in range(1, node_count)]
    drive_echo(world, clients)
    world.inject(Loss(0.3))
    world.inject(Duplication(0.1))
    world.inject(Reordering(0.1))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Clogs(gap_ns=3 * SECOND, length_ns_max=SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=SECOND, disk_loss_rate=0.3))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run(faults_ns=10 * SECOND)


echo = scenario(
    "clients send questions to a server by datagrams until they are answered",
    node_count=4,
    node_count_min=2,
)(play_echo)


def drive_echo(world: World, clients: Sequence[Node[Any]]) -> None:
    """Make clients send questions, and check that each is answered."""
    origin = genuine()
    answers = AllAnswered()
    for checker in (origin, answers, answered_once(), served_once()):
        world.watch(checker)

    def ask(_: World, rng: Random) -> None:
        node = rng.choice(clients)
        if not node.is_running:
            return
        data = rng.randbytes(rng.randrange(64))
        life = node.machine.life
        # Announced under the number it will get: the answer must not be there before the question.
        number = node.machine.next_number
        origin.announce((life, number, data))
        try:
            node.do(lambda machine, now_ns: machine.ask(data, now_ns))
        except WouldBlock:
            return  # The client has enough under way; that it says so is what it should do.
        answers.asked(node, life, number)

    world.drive(Repeat(ask, gap_ns_min=MS, gap_ns_max=40 * MS))
