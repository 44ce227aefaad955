"""The echo over streams: a client that reconnects after every lost connection.

The messages are those of `echo`, each after its length in four bytes. A stream may break without
notification, so a client without answers for some time closes it and opens another, on which it
sends all pending questions again.
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
from skerry.testing import (
    MS,
    SECOND,
    Factory,
    Jitter,
    Loss,
    Partitions,
    Pauses,
    Refusals,
    Restarts,
    Setting,
    StreamLosses,
    World,
    scenario,
)
from skerry.testing.machines.echo import Answered, EchoMessage, EchoServer, drive_echo, echo_server

FRAME_BYTES_MAX: Final = 65536
"""One message of the echo. A longer one closes the stream."""


class FrameBuffer:
    """Reassembles frames from pieces of a stream."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, piece: bytes) -> list[bytes] | None:
        """The frames that are complete now, or None if the bytes are not valid."""
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
    """The message after its length."""
    data = message.encode()
    return len(data).to_bytes(4, "big") + data


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEchoConfig:
    """Delays of reconnecting, and the timeout of answers."""

    reconnect: Backoff = field(
        default_factory=lambda: Backoff(first_ns=10_000_000, delay_ns_max=1_000_000_000)
    )
    answer_ns_max: int = 3_000_000_000
    """Time without any answer after which the stream is closed."""
    pending_count_max: int = 64


class StreamEchoClient(Outbox):
    """Sends questions to one server over a stream, and after a loss over the next one."""

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
        self._questions: dict[int, bytes] = {}
        self.next_number = 0
        super().__init__()
        self.life = rng.getrandbits(64)

    def ask(self, data: bytes, now_ns: int) -> int:
        """Send a question, now or when a stream is open. Returns its number."""
        if len(self._questions) >= self._config.pending_count_max:
            raise WouldBlock(f"{len(self._questions)} questions are pending; wait for answers")
        number = self.next_number
        self.next_number += 1
        self._questions[number] = data
        if self._frames is not None:
            self._send(number)
            if "answer" not in self._deadlines:
                self._deadlines.set("answer", now_ns + self._config.answer_ns_max)
        return number

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """Send all pending questions."""
        assert peer == self._server
        self._frames = FrameBuffer()
        self._attempt_count = 0
        for number in self._questions:
            self._send(number)
        self._await_answer(now_ns)

    def stream_closed(self, _peer: Address, _reason: CloseReason, now_ns: int) -> None:
        """Reconnect after a delay."""
        self._reconnect_later(now_ns)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
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
        """Connect, or close a stream without answers."""
        for what, _ in self._deadlines.take_due(now_ns):
            if what == "connect":
                self._transmits.append(Connect(destination=self._server))
            else:
                self._leave(now_ns)

    def deadline_ns(self) -> int | None:
        """Time to connect, or end of the answer timeout."""
        return self._deadlines.next_ns()

    def statistics(self) -> Statistics:
        return Statistics()

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
    """Accepts all streams and answers on them. Clients that send invalid bytes are disconnected."""

    def __init__(self, *, server: EchoServer | None = None) -> None:
        self._server = server or EchoServer()
        self._frames: dict[Address, FrameBuffer] = {}
        self._transmits: list[Transmit] = []

    def stream_opened(self, peer: Address, _now_ns: int) -> None:
        self._frames[peer] = FrameBuffer()

    def stream_closed(self, peer: Address, _reason: CloseReason, _now_ns: int) -> None:
        del self._frames[peer]

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
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
        """Do nothing: a server has no deadlines."""

    def take_events(self) -> list[MachineEvent]:
        return self._server.take_events()

    def take_transmits(self) -> list[Transmit]:
        transmits, self._transmits = self._transmits, []
        return transmits

    def deadline_ns(self) -> int | None:
        return None

    def statistics(self) -> Statistics:
        return Statistics()


# -- the scenario

STREAM_SERVER: Final = Address("server", 7, is_stream=True)


def stream_echo_client(setting: Setting) -> StreamEchoClient:
    """A client that loses its questions in a crash."""
    return StreamEchoClient(server=STREAM_SERVER, rng=setting.rng, now_ns=setting.now_ns)


def stream_echo_server(setting: Setting) -> StreamEchoServer:
    return StreamEchoServer(server=echo_server(setting))


def play_stream_echo(
    world: World,
    node_count: int,
    *,
    client: Factory[StreamEchoClient] = stream_echo_client,
    server: Factory[StreamEchoServer] = stream_echo_server,
) -> None:
    """One server and clients. Streams break, are refused, stall, and end with a crash."""
    world.add("server", server, listens=True)
    clients = [world.add(f"client-{n}", client) for n in range(1, node_count)]
    drive_echo(world, clients)
    world.inject(Loss(0.05))
    world.inject(Jitter(delay_ns_max=2 * MS))
    world.inject(StreamLosses(gap_ns=SECOND))
    world.inject(Refusals(0.2))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=4 * SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=SECOND))
    world.run(faults_ns=10 * SECOND)


stream_echo = scenario(
    "clients send questions to a server over streams that break", node_count=4, node_count_min=2
)(play_stream_echo)
