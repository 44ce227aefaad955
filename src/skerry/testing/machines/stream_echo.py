"""The echo carried by streams: a client that comes back after every lost connection.

The messages are those of `echo`, each behind its length in four bytes. A stream may die without a
word, so a client that gets no answer for some time ends it and opens another. Questions without an
answer are asked again on the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from skerry.errors import WouldBlock
from skerry.protocol.backoff import Backoff
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import (
    Address,
    CloseReason,
    Connect,
    Disconnect,
    MachineEvent,
    Statistics,
    Transmit,
)
from skerry.protocol.outbox import Outbox
from skerry.testing.machines.echo import Answered, EchoMessage, EchoServer

__all__ = [
    "FRAME_BYTES_MAX",
    "FrameBuffer",
    "StreamEchoClient",
    "StreamEchoConfig",
    "StreamEchoServer",
    "StreamEchoStatistics",
    "frame",
]

FRAME_BYTES_MAX: Final = 65536
"""One message of the echo; a longer one ends the stream, whoever sent it."""


class FrameBuffer:
    """Puts the pieces of a stream together again."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, piece: bytes) -> list[bytes] | None:
        """The frames that are complete now, or None when the bytes make no sense."""
        self._data += piece
        frames: list[bytes] = []
        while len(self._data) >= 4:
            length = int.from_bytes(self._data[:4], "big")
            if length > FRAME_BYTES_MAX:
                return None
            if len(self._data) < 4 + length:
                break
            frames.append(bytes(self._data[4 : 4 + length]))
            del self._data[: 4 + length]
        return frames


def frame(message: EchoMessage) -> bytes:
    """The message behind its length."""
    data = message.encode()
    return len(data).to_bytes(4, "big") + data


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEchoConfig:
    """How soon a client comes back, and how long it waits for answers."""

    reconnect: Backoff = field(
        default_factory=lambda: Backoff(first_ns=10_000_000, delay_ns_max=1_000_000_000)
    )
    answer_ns_max: int = 3_000_000_000
    """Without any answer for so long, the stream is taken for dead."""
    pending_count_max: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEchoStatistics(Statistics):
    """What a client or server has done in this life."""

    opened_count: int
    pending_count: int


class StreamEchoClient(Outbox):
    """Asks one server over a stream, and keeps asking over the next one."""

    def __init__(
        self, *, server: Address, rng: Random, now_ns: int, config: StreamEchoConfig | None = None
    ) -> None:
        assert server.is_stream
        self._server = server
        self._rng = rng
        self._config = config or StreamEchoConfig()
        self._deadlines: Deadlines[Literal["connect", "answer"]] = Deadlines()
        self._deadlines.set("connect", now_ns)
        self._frames: FrameBuffer | None = None
        self._attempt_count = 0
        self._opened_count = 0
        self._questions: dict[int, bytes] = {}
        self.next_number = 0
        """The number the next question gets."""
        super().__init__()
        self.life = rng.getrandbits(64)

    def ask(self, data: bytes, now_ns: int) -> int:
        """Ask a question, now or when there is a stream."""
        if len(self._questions) >= self._config.pending_count_max:
            raise WouldBlock(f"{len(self._questions)} questions are under way; wait for answers")
        number = self.next_number
        self.next_number += 1
        self._questions[number] = data
        if self._frames is not None:
            self._send(number)
            if "answer" not in self._deadlines:
                self._deadlines.set("answer", now_ns + self._config.answer_ns_max)
        return number

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """Ask all that has no answer."""
        assert peer == self._server
        self._frames = FrameBuffer()
        self._attempt_count = 0
        self._opened_count += 1
        for number in self._questions:
            self._send(number)
        self._await_answer(now_ns)

    def stream_closed(self, _peer: Address, _reason: CloseReason, now_ns: int) -> None:
        """Come back after a while."""
        self._reconnect_later(now_ns)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a piece of the answers."""
        assert self._frames is not None
        assert source == self._server
        frames = self._frames.feed(data)
        messages = None if frames is None else [EchoMessage.decode(frame) for frame in frames]
        if messages is None or None in messages:
            self._leave(now_ns)
            return
        for message in messages:
            if message is not None and message.number in self._questions:
                del self._questions[message.number]
                self._events.append(
                    Answered(life=message.life, number=message.number, data=message.data)
                )
        if messages:
            self._await_answer(now_ns)

    def advance(self, now_ns: int) -> None:
        """Connect, or leave a stream that is silent."""
        for what, _ in self._deadlines.take_due(now_ns):
            if what == "connect":
                self._transmits.append(Connect(destination=self._server))
            else:
                self._leave(now_ns)

    def deadline_ns(self) -> int | None:
        """When to connect, or to stop waiting."""
        return self._deadlines.next_ns()

    def statistics(self) -> StreamEchoStatistics:
        """How often a stream was opened, and what is under way."""
        return StreamEchoStatistics(
            opened_count=self._opened_count, pending_count=len(self._questions)
        )

    def _send(self, number: int) -> None:
        message = EchoMessage(
            is_answer=False, life=self.life, number=number, data=self._questions[number]
        )
        self._transmits.append(Transmit(destination=self._server, data=frame(message)))

    def _await_answer(self, now_ns: int) -> None:
        if self._questions:
            self._deadlines.set("answer", now_ns + self._config.answer_ns_max)
        else:
            self._deadlines.cancel("answer")

    def _leave(self, now_ns: int) -> None:
        self._transmits.append(Disconnect(destination=self._server))
        self._reconnect_later(now_ns)

    def _reconnect_later(self, now_ns: int) -> None:
        self._frames = None
        self._deadlines.cancel("answer")
        self._attempt_count += 1
        delay_ns = self._config.reconnect.delay_ns(self._attempt_count, self._rng)
        self._deadlines.set("connect", now_ns + delay_ns)


class StreamEchoServer:
    """Answers on every stream it is offered; whoever sends nonsense is disconnected."""

    def __init__(self, *, server: EchoServer | None = None) -> None:
        self._server = server or EchoServer()
        self._frames: dict[Address, FrameBuffer] = {}
        self._opened_count = 0
        self._transmits: list[Transmit] = []

    def stream_opened(self, peer: Address, _now_ns: int) -> None:
        """A client is here."""
        self._frames[peer] = FrameBuffer()
        self._opened_count += 1

    def stream_closed(self, peer: Address, _reason: CloseReason, _now_ns: int) -> None:
        """A client is gone."""
        del self._frames[peer]

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a piece of a client's questions."""
        frames = self._frames[source].feed(data)
        if frames is None:
            del self._frames[source]
            self._transmits.append(Disconnect(destination=source))
            return
        for question in frames:
            self._server.receive(question, source, now_ns)
        for answer in self._server.take_transmits():
            length = len(answer.data).to_bytes(4, "big")
            self._transmits.append(Transmit(destination=source, data=length + answer.data))

    def advance(self, now_ns: int) -> None:
        """Nothing is ever due."""

    def take_events(self) -> list[MachineEvent]:
        """Questions served for the first time."""
        return self._server.take_events()

    def take_transmits(self) -> list[Transmit]:
        """Answers, and the ends of streams."""
        transmits, self._transmits = self._transmits, []
        return transmits

    def deadline_ns(self) -> int | None:
        """None: a server only answers."""
        return None

    def statistics(self) -> StreamEchoStatistics:
        """How many streams there were; nothing waits here."""
        return StreamEchoStatistics(opened_count=self._opened_count, pending_count=0)
