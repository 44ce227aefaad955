"""The way of a space to its node: the stream, the handshake, and coming back when it is lost.

On each new connection the node is asked again for everything: what the program wants to hear of,
what it claims, its types, and the flushes that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from mypy_extensions import mypyc_attr

from skerry.client.core.claims import Claims
from skerry.client.core.flushes import Flushes
from skerry.client.core.frame_reading import Misread, TooLarge, read
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.liveness import Liveness, Sign
from skerry.client.core.node_answers import FLUSH_MARK, NodeAnswers
from skerry.client.core.requests import SentRequests
from skerry.client.core.send_buffer import SendBuffer
from skerry.client.core.settings import SpaceConfig, SpaceStatistics
from skerry.client.core.states import (
    CallbackFailed,
    ClaimsChanged,
    ObjectSkipped,
    SpaceState,
    StateChanged,
    Unreadable,
    next_states,
)
from skerry.client.core.subscriptions import DIRECT, SERVICES, SubscribedTypes
from skerry.client.core.update_intake import UpdateIntake
from skerry.errors import CodecError, Disconnected, SchemaError
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.client import (
    EXTENSION_SUBJECTS,
    Accepted,
    ClientConnection,
    Connected,
    Rejected,
    SecretMissing,
)
from skerry.protocol.access.connection import (
    ALIVE_MARK,
    ConnectionBroken,
    ConnectionEnded,
    ConnectionStage,
    ReceivedFrame,
    decode_message,
)
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect, Transmit
from skerry.protocol.outbox import Outbox
from skerry.schema.model import NamedType

__all__ = ["NodeConnection"]

_STEADY_NS: Final = 5_000_000_000
"""A connection that lasted so long was a good one: the next attempt comes soon again."""
_REASONS: Final = {
    CloseReason.ENDED: "the node closed the connection",
    CloseReason.LOST: "the connection broke",
    CloseReason.REFUSED: "nobody listens there",
    CloseReason.TIMED_OUT: "no answer in time",
}


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeConnection(Outbox):
    """The connection of a space to the node at an address, one after the other.

    `wire` makes the framing of a new stream.
    """

    def __init__(
        self,
        *,
        node: Address,
        wire: Callable[[Mapping[str, NamedType]], Wire],
        rng: Random,
        config: SpaceConfig | None = None,
        wall_offset_ns: int = 0,
        lock: Any = None,
    ) -> None:
        super().__init__()
        self.config = config or SpaceConfig()
        self.types = KnownTypes()
        self.intake = UpdateIntake()
        self.intake.is_sheltered = lock is not None
        self.interests = SubscribedTypes(self.intake, self.types)
        self.buffer = SendBuffer(self.config.send_bytes_max, lock)
        """What was published and waits. Who publishes asks it first, as the shortest way."""
        self.state = SpaceState.CONNECTING
        self.is_refused = False
        """Whether there is no connection because the node does not want us, or we not it."""
        self.is_rejected = False
        """Whether the node rejected the last attempt to connect."""
        self.client_id = 0
        """What the node calls us; 0 before the first connection."""
        self.server_name = ""
        self._failure: str | None = None
        self._node = node
        self._new_wire = wire
        sample = wire(self.types.by_name)
        self._wire = None if type(sample) is Wire else sample
        """Makes frames; none for the usual one, which has a shorter way."""
        self.buffer.is_short = self._wire is None
        self._rng = rng
        self._wall_offset_ns = wall_offset_ns
        self._moved_bytes = 0
        self._flushes = Flushes()
        self._claims = Claims()
        self._requests = SentRequests(self.types, self.config.send_bytes_max)
        self._answers = NodeAnswers(
            self.types, self.interests, self._flushes, self._claims, self._requests
        )
        self._connection: ClientConnection | None = None
        self._has_stream = False
        self._is_paused = False
        self._has_subjects: bool | None = None
        """Whether the node knows subjects; None before we met it."""
        self._uses_subjects = False
        self._liveness = Liveness(self.config)
        self._connect_ns: int | None = None
        """When to ask for a stream."""
        self._attempt_count = 0
        self._connected_count = 0
        self._unknown_count = 0
        self._skipped_count = 0
        self._unreadable_names: set[str] = set()
        """Types of which an object could not be read, on this connection."""
        self._opened_ns = 0
        self._detail = ""

    @property
    def failure(self) -> str | None:
        """Why the space is over, once it is."""
        return self._failure

    @failure.setter
    def failure(self, why: str) -> None:
        self._failure = why
        self.buffer.is_short = False

    @property
    def has_additions(self) -> bool:
        """Whether the node of the last connection has our additions to DOTS."""
        return bool(self._has_subjects)

    # -- the machine's contract

    def start(self, now_ns: int) -> None:
        """Begin; `advance` then asks for the first stream."""
        self._connect_ns = now_ns

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """There is a stream: wait for the node to introduce itself."""
        if self.state is SpaceState.CLOSED:
            return
        self._has_stream = True
        self._is_paused = False
        self.is_rejected = False
        self._opened_ns = now_ns
        self._liveness.opened(now_ns)
        wire = self._new_wire(self.types.by_name)
        wire.limit_frames(self.config.frame_bytes_max, skips_large=True)
        self._connection = ClientConnection(
            wire,
            name=self.config.name,
            cnonce=f"{self._rng.getrandbits(64):016x}",
            secret=self.config.secret,
            extensions=self.config.extensions,
        )

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        """The stream is gone, or never came to be."""
        self._has_stream = False
        detail, self._detail = self._detail, ""
        if self.state is not SpaceState.CLOSED:
            self._lost(detail or _REASONS[reason], now_ns)

    def explain(self, detail: str) -> None:
        """Why the stream will be told closed, in better words than the reason alone has."""
        self._detail = detail

    @property
    def heard_ns(self) -> int:
        """When bytes of the node were received last, or the stream to it was opened."""
        return self._liveness.heard_ns

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Bytes from the node."""
        connection, intake = self._connection, self.intake
        if connection is None:
            return
        self._liveness.heard(now_ns)
        # Whoever gives us bytes then takes what we have to say: callbacks need not wake it.
        self.buffer.note_awaited()
        now_s = self._wall_s(now_ns)
        intake.now_s = now_s
        for item in read(connection, intake, data):
            if self._connection is not connection:
                # A callback, or the item before, was the end of it.
                break
            if isinstance(item, ReceivedFrame):
                self._heard(connection, item, now_ns, now_s)
            elif isinstance(item, Misread):
                self._unreadable(item, now_ns)
            elif isinstance(item, TooLarge):
                self.note_skipped(item.name, item.size)
            else:
                self._broken(item, now_ns)
        if intake.failures:
            self._collect_failures()

    def advance(self, now_ns: int) -> None:
        """Connect, ask a silent node for a sign, or leave it."""
        if self._connect_ns is not None and self._connect_ns <= now_ns:
            self._connect_ns = None
            self._transmits.append(Connect(destination=self._node))
        is_waiting = bool(self._flushes) or self.interests.is_owed
        for sign in self._liveness.advance(now_ns, is_waiting=is_waiting):
            if sign is Sign.ASK:
                self._send_echo(0, now_ns)
            elif sign is Sign.PROBE:
                self._send_probe(now_ns)
            else:
                self._leave("the node is silent", now_ns)

    def deadline_ns(self) -> int | None:
        """When there is something to be done."""
        return earliest(self._liveness.deadline_ns(), self._connect_ns)

    def has_output(self) -> bool:
        """Whether there is something to transmit, or an event; false also ends the wait for it.

        Whoever publishes wakes up the driver again then.
        """
        if self._transmits or self._events or self._is_paused:
            return True
        connection = self._connection
        if connection is None or connection.out_bytes:
            return True
        return self.buffer.has_waiting()

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent, and streams to open or to end."""
        connection = self._connection
        if connection is not None and not self._is_paused:
            if connection.stage is ConnectionStage.CONNECTED:
                self._move()
            if connection.out_bytes:
                self._transmits.append(self._output(connection))
        return super().take_transmits()

    def statistics(self) -> SpaceStatistics:
        """What was done so far."""
        return SpaceStatistics(
            connected_count=self._connected_count,
            published_count=self.buffer.added_count,
            waiting_bytes=self.buffer.waiting_bytes,
            unknown_count=self._unknown_count,
            skipped_count=self._skipped_count,
        )

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Somebody set the clock."""
        self._wall_offset_ns = wall_offset_ns

    def note_skipped(self, name: str, size: int) -> None:
        """The node sent an object of so many bytes, above the limit, which was dropped."""
        self._skipped_count += 1
        limit = self.config.receive_bytes_max
        self._events.append(ObjectSkipped(name=name, size=size, limit=limit))

    def pause(self) -> None:
        """The stream has more than it likes: nothing is given to it until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """The stream has room again."""
        self._is_paused = False

    # -- the handshake

    def _heard(
        self, connection: ClientConnection, arrival: ReceivedFrame, now_ns: int, now_s: float
    ) -> None:
        """What is not an ordinary object."""
        item = connection.understand(arrival.header, arrival.payload, now_s)
        if item is None:
            return
        if isinstance(item, ReceivedFrame):
            self._served(connection, item, now_ns, now_s)
        elif isinstance(item, Accepted):
            self._accepted(connection, item, now_ns, now_s)
        elif isinstance(item, Connected):
            self._claims.connected(connection, now_s)
            self.interests.told_everything(now_s)
            self._connected(now_ns, now_s)
        elif isinstance(item, Rejected):
            self._rejected(item, now_ns)
        elif isinstance(item, SecretMissing):
            self._refuse("the node asks for a secret, and none was given")
        elif isinstance(item, ConnectionEnded):
            connection.close()
            self._leave(item.text or "the node ended the connection", now_ns)
        else:
            self._broken(item, now_ns)

    def _rejected(self, item: Rejected, now_ns: int) -> None:
        self.is_rejected = True
        if not item.reason:
            self._refuse("the node rejects the client")
            return
        # The node has no room for the client now, which may change: with `wait` the client retries.
        self._end_stream()
        self._lost(f"the node rejects the client: {item.reason}", now_ns)

    def _accepted(
        self, connection: ClientConnection, item: Accepted, now_ns: int, now_s: float
    ) -> None:
        has_subjects = bool(connection.extensions & EXTENSION_SUBJECTS)
        if not has_subjects and (self._uses_subjects or self.interests.has_patterns()):
            self._refuse("subjects are in use here, and the node knows only types")
            return
        if not has_subjects and (len(self._claims) or len(self._requests)):
            self._refuse("claims or requests are in use here, and the node knows only types")
            return
        self._has_subjects = has_subjects
        self.buffer.forget_subjects()
        self.client_id = item.client_id
        self.server_name = connection.server_name
        self.intake.own_id = item.client_id
        self.intake.epoch += 1
        for type_ in self.buffer.types():
            connection.describe(type_, now_s)
        self.interests.connected(connection, now_s)
        if item.has_preload:
            connection.finish_joins(now_s)
        else:
            self._claims.connected(connection, now_s)
            self._connected(now_ns, now_s)

    def _connected(self, now_ns: int, now_s: float) -> None:
        assert self._connection is not None
        self._liveness.let_in(now_ns, is_ours=bool(self._connection.extensions))
        self._connected_count += 1
        self._change(SpaceState.CONNECTED)
        self._move()
        for request in self._answers.types_requests:
            request.send(self._connection, now_s)
        self._requests.connected(self._connection, now_ns, now_s)
        for flush in self._flushes.waiting():
            self._send_echo(flush.number, now_ns)

    def _broken(self, fault: ConnectionBroken, now_ns: int) -> None:
        self._leave(f"the node broke the protocol in {fault.message}: {fault.detail}", now_ns)

    def _unreadable(self, item: Misread, now_ns: int) -> None:
        """An object that is none of its type."""
        name = item.header.type_name
        if self.types.has_conflict(name):
            # It may well be one of the type that the node knows. The program was told of that.
            self._unknown_count += 1
            if name not in self._unreadable_names:
                self._unreadable_names.add(name)
                self._events.append(Unreadable(name=name, detail=str(item.error)))
            return
        self._leave(f"the node sent what is no {name}: {item.error}", now_ns)

    # -- services

    def _served(
        self, connection: ClientConnection, item: ReceivedFrame, now_ns: int, now_s: float
    ) -> None:
        header, payload = item.header, item.payload
        name = header.type_name
        route = self.interests.route_of(name)
        if route is None and name not in SERVICES:
            # A host may send what it never described; that is its business, not our end.
            self._unknown_count += name not in self.types.by_name
            return
        try:
            if name in SERVICES:
                message = decode_message(header, payload)
                self._events += self._answers.take(connection, header, message, now_s)
            if route is not None and header.subscription_id < 0 and name not in DIRECT:
                readable = self.types.readable(name, payload)
                if readable is None:
                    self._unknown_count += 1
                else:
                    self.intake.deliver(route, header, readable)
        except (CodecError, SchemaError) as error:
            self._broken(ConnectionBroken(message=name, detail=str(error)), now_ns)

    # -- the end of a stream

    def _refuse(self, why: str) -> None:
        """What another attempt would not change."""
        self.is_refused = True
        self._end_stream()
        self._over(why)

    def _leave(self, why: str, now_ns: int) -> None:
        """End the stream from here, and come back."""
        connection = self._connection
        if connection is not None and connection.stage is ConnectionStage.CONNECTED:
            connection.end(self._wall_s(now_ns), code=1, text=why)
        self._end_stream()
        self._lost(why, now_ns)

    def _lost(self, why: str, now_ns: int) -> None:
        self._forget_connection()
        unconfirmed_count = self._flushes.lost(self.buffer.moved_count, why)
        self._requests.lost(why)
        if self.state is SpaceState.CONNECTING and not self.config.is_patient:
            self._over(why)
            return
        if self.state is SpaceState.CONNECTED and now_ns - self._opened_ns > _STEADY_NS:
            self._attempt_count = 0
        self._attempt_count += 1
        delay_ns = self.config.reconnect.delay_ns(self._attempt_count, self._rng)
        self._connect_ns = now_ns + delay_ns
        if self.state is SpaceState.CONNECTED:
            self._change(SpaceState.DISCONNECTED, why, unconfirmed_count)
        self._tell_claims(self._claims.disconnected())

    def _over(self, why: str) -> None:
        """There will be no other connection."""
        self._forget_connection()
        self._connect_ns = None
        self.failure = why
        self.intake.is_stopped = True
        self._flushes.end(Disconnected(why))
        self._requests.end(why)
        self._change(SpaceState.CLOSED, why)
        self._tell_claims(self._claims.end())

    def _forget_connection(self) -> None:
        self._connection = None
        self._unreadable_names.clear()
        self.interests.disconnected()
        self._liveness.closed()
        self._written()

    def _end_stream(self) -> None:
        connection = self._connection
        if connection is not None and connection.out_bytes:
            self._transmits.append(self._output(connection))
        if self._has_stream:
            self._has_stream = False
            self._transmits.append(Disconnect(destination=self._node))

    # -- sending

    def _send_echo(self, number: int, now_ns: int) -> None:
        assert self._connection is not None
        echo = internal_class("DotsEcho")(request=True, identifier=number, data=FLUSH_MARK)
        self._connection.send_message(echo, self._wall_s(now_ns))
        self._liveness.asked(now_ns)

    def _send_probe(self, now_ns: int) -> None:
        assert self._connection is not None
        echo = internal_class("DotsEcho")(request=True, data=ALIVE_MARK)
        self._connection.send_message(echo, self._wall_s(now_ns))

    def _say_first(self) -> None:
        """What was published before goes out before what is said next."""
        if self._connection is not None and self._connection.stage is ConnectionStage.CONNECTED:
            self._move()

    def _move(self) -> None:
        connection = self._connection
        assert connection is not None

        def describe(type_: NamedType) -> None:
            connection.describe(type_, 0.0)

        self._moved_bytes += self.buffer.move(connection.outgoing, describe)

    def _output(self, connection: ClientConnection) -> Transmit:
        data = connection.take_output()
        self._written()
        return Transmit(destination=self._node, data=data)

    def _written(self) -> None:
        if self._moved_bytes:
            self.buffer.written(self._moved_bytes)
            self._moved_bytes = 0

    # -- the rest

    def _change(self, state: SpaceState, reason: str = "", unconfirmed_count: int = 0) -> None:
        assert state in next_states(self.state), f"{self.state} to {state}"
        self.state = state
        self._events.append(
            StateChanged(state=state, reason=reason, unconfirmed_count=unconfirmed_count)
        )

    def _tell_claims(self, told: tuple[Callable[[], object], ...]) -> None:
        if told:
            self._events.append(ClaimsChanged(told=told))

    def _collect_failures(self) -> None:
        failures, self.intake.failures = self.intake.failures, []
        for _, error in failures:
            self._events.append(CallbackFailed(error=error))

    def _wall_s(self, now_ns: int) -> float:
        return seconds_of_ns(now_ns + self._wall_offset_ns)
