"""An echo by datagrams: a client asks until it is answered, a server answers and serves only once.

Small as it is, it has what larger protocols have: retries with growing delays, a limit on what is
under way, duplicates told apart from news, and questions that survive a restart of the client.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from random import Random
from typing import Final

from skerry.errors import WouldBlock
from skerry.protocol.backoff import Backoff
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import Address, MachineEvent, Statistics, Transmit
from skerry.protocol.outbox import Outbox
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

__all__ = [
    "Answered",
    "EchoClient",
    "EchoConfig",
    "EchoMessage",
    "EchoServer",
    "EchoStatistics",
    "GaveUp",
    "Served",
]

_HEAD: Final = struct.Struct(">BQI")


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoMessage:
    """A question or its answer: kind, life of the client, number of the question, data."""

    is_answer: bool
    life: int
    number: int
    data: bytes

    def encode(self) -> bytes:
        """The message as bytes: a head of 13 bytes, then the data."""
        return _HEAD.pack(2 if self.is_answer else 1, self.life, self.number) + self.data

    @staticmethod
    def decode(data: bytes) -> EchoMessage | None:
        """The message in `data`, or None when there is none."""
        if len(data) < _HEAD.size:
            return None
        kind, life, number = _HEAD.unpack_from(data)
        if kind not in (1, 2):
            return None
        return EchoMessage(is_answer=kind == 2, life=life, number=number, data=data[_HEAD.size :])


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoConfig:
    """How patient and how greedy a client is, and how much a server remembers."""

    retry: Backoff = field(
        default_factory=lambda: Backoff(first_ns=20_000_000, delay_ns_max=500_000_000)
    )
    attempt_count_max: int = 100
    """Attempts before a question is given up."""
    pending_count_max: int = 64
    """Questions under way; one more is refused with `WouldBlock`."""
    served_count_max: int = 10_000
    """Questions a server knows again: more than all its clients have under way together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(MachineEvent):
    """A question has its answer."""

    life: int
    number: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(MachineEvent):
    """A question was asked as often as allowed."""

    life: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(MachineEvent):
    """A server met this question for the first time."""

    life: int
    number: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoStatistics(Statistics):
    """What a client or server has done in this life."""

    sent_count: int
    dropped_count: int
    pending_count: int


class EchoClient(Outbox):
    """Asks one server; every question is answered or given up, once."""

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
        self._sent_count = 0
        self._dropped_count = 0
        self._attempts: dict[int, int] = {}
        self._retries: Deadlines[int] = Deadlines()
        self._questions: dict[int, bytes] = {}
        self.life = rng.getrandbits(64)
        self.next_number = 0
        """The number the next question gets."""
        if disk is not None:
            self._restore(disk, now_ns)

    def ask(self, data: bytes, now_ns: int) -> int:
        """Ask a question; its number comes back with the answer."""
        if len(self._questions) >= self._config.pending_count_max:
            raise WouldBlock(f"{len(self._questions)} questions are under way; wait for answers")
        number = self.next_number
        self.next_number += 1
        self._questions[number] = data
        self._attempts[number] = 0
        self._attempt(number, now_ns)
        return number

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take an answer."""
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
        """Ask again what was not answered in time."""
        for number, _ in self._retries.take_due(now_ns):
            if self._attempts[number] < self._config.attempt_count_max:
                self._attempt(number, now_ns)
            else:
                self._forget(number)
                self._events.append(GaveUp(life=self.life, number=number))

    def deadline_ns(self) -> int | None:
        """When the next question has to be asked again."""
        return self._retries.next_ns()

    def statistics(self) -> EchoStatistics:
        """What was sent and dropped, and what is under way."""
        return EchoStatistics(
            sent_count=self._sent_count,
            dropped_count=self._dropped_count,
            pending_count=len(self._questions),
        )

    def durable(self) -> bytes:
        """The life, and the questions without an answer: the next life goes on asking them."""
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
        self._sent_count += 1
        self._attempts[number] += 1
        delay_ns = self._config.retry.delay_ns(self._attempts[number], self._rng)
        self._retries.set(number, now_ns + delay_ns)

    def _forget(self, number: int) -> None:
        del self._questions[number]
        del self._attempts[number]
        self._retries.cancel(number)

    def _drop(self, reason: DropReason, source: Address, now_ns: int) -> None:
        self._dropped_count += 1
        self._tracer.emit(DatagramDropped(now_ns=now_ns, source=str(source), reason=reason))


class EchoServer(Outbox):
    """Answers every question, and serves each one once in its life."""

    def __init__(self, *, config: EchoConfig | None = None, tracer: Tracer = NO_TRACE) -> None:
        self._config = config or EchoConfig()
        self._tracer = tracer
        super().__init__()
        # A dictionary for its order: the oldest are forgotten first.
        self._served: dict[tuple[int, int], None] = {}
        self._sent_count = 0
        self._dropped_count = 0

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a question."""
        message = EchoMessage.decode(data)
        if message is None or message.is_answer:
            self._dropped_count += 1
            self._tracer.emit(
                DatagramDropped(now_ns=now_ns, source=str(source), reason=DropReason.MALFORMED)
            )
            return
        if self._is_new(message):
            self._events.append(Served(life=message.life, number=message.number, data=message.data))
        # Also an old question is answered: it came again because the answer was lost.
        answer = EchoMessage(
            is_answer=True, life=message.life, number=message.number, data=message.data
        )
        self._transmits.append(Transmit(destination=source, data=answer.encode()))
        self._sent_count += 1

    def advance(self, now_ns: int) -> None:
        """Nothing is ever due."""

    def deadline_ns(self) -> int | None:
        """None: a server only answers."""
        return None

    def statistics(self) -> EchoStatistics:
        """What was sent and dropped; nothing waits here."""
        return EchoStatistics(
            sent_count=self._sent_count, dropped_count=self._dropped_count, pending_count=0
        )

    def _is_new(self, message: EchoMessage) -> bool:
        key = (message.life, message.number)
        if key in self._served:
            return False
        self._served[key] = None
        if len(self._served) > self._config.served_count_max:
            del self._served[next(iter(self._served))]
        return True
