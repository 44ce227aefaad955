"""The connection of a space to its node: the stream, the handshake, and reconnecting.

On each new connection the space subscribes again, claims again, requests types again and sends the
flushes that wait. This module is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from skerry.client.core.claims import Claims
from skerry.client.core.flushes import Flushes
from skerry.client.core.frame_reading import Misread, TooLarge, read
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.liveness import Liveness, LivenessAction
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
    next_states,
)
from skerry.client.core.subscriptions import Subscriptions
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
    ReceivedFrame,
)
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect, Transmit
from skerry.protocol.outbox import Outbox
from skerry.schema.model import NamedType

_STEADY_NS: Final = 5_000_000_000
"""After a connection that lasted longer than this, the delay between attempts starts again."""
_REASONS: Final = {
    CloseReason.ENDED: "the node closed the connection",
    CloseReason.LOST: "the connection broke",
    CloseReason.REFUSED: "connection refused",
    CloseReason.TIMED_OUT: "the connection timed out",
}


class NodeConnection(Outbox):
    """The machine that connects a space with the node at an address, again after each loss."""

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
        """`wire` makes the framing of a new stream."""
        super().__init__()
        self.config = config or SpaceConfig()
        self.types = KnownTypes()
        self.intake = UpdateIntake()
        self.intake.is_sheltered = lock is not None
        self.subscriptions = Subscriptions(self.intake, self.types)
        self.buffer = SendBuffer(self.config.send_bytes_max, lock)
        """Published frames that wait for the stream. Publishers add to it directly."""
        self.flushes = Flushes()
        self.claims = Claims()
        self.requests = SentRequests(self.types, self.config.send_bytes_max)
        self.answers = NodeAnswers(
            types=self.types,
            intake=self.intake,
            subscriptions=self.subscriptions,
            flushes=self.flushes,
            claims=self.claims,
            requests=self.requests,
        )
        self.state = SpaceState.CONNECTING
        self.is_refused = False
        """Whether connecting has ended for good, by a refusal of the node or of the client."""
        self.is_rejected = False
        """Whether the node rejected the last attempt to connect."""
        self.client_id = 0
        """The client's number at the node; 0 before the first connection."""
        self.server_name = ""
        self.access: ClientConnection | None = None
        """The protocol on the current stream; None without a stream."""
        self.has_subjects: bool | None = None
        """Whether the node supports skerry's additions; None before the first connection."""
        self.uses_subjects = False
        """Whether the program has published under a subject, which needs these additions."""
        self.new_wire = wire
        sample = wire(self.types.by_name)
        self.frame_wire = None if type(sample) is Wire else sample
        """Makes the frames to send; None for version 2, whose frames are made directly."""
        self.buffer.waiting.is_short = self.frame_wire is None
        self._failure: str | None = None
        self._node = node
        self._rng = rng
        self._wall_offset_ns = wall_offset_ns
        self._moved_bytes = 0
        self._has_stream = False
        self._is_paused = False
        self._liveness = Liveness(self.config)
        self._connect_ns: int | None = None
        self._attempt_count = 0
        self._connected_count = 0
        self._skipped_count = 0
        self._opened_ns = 0
        self._detail = ""

    @property
    def failure(self) -> str | None:
        """Why the space is closed; None while it is open."""
        return self._failure

    @failure.setter
    def failure(self, why: str) -> None:
        self._failure = why
        self.buffer.waiting.is_short = False

    @property
    def received_ns(self) -> int:
        """When bytes of the node were received last, or the stream to it was opened."""
        return self._liveness.received_ns

    def wall_s(self, now_ns: int) -> float:
        return seconds_of_ns(now_ns + self._wall_offset_ns)

    # -- the machine's contract

    def start(self, now_ns: int) -> None:
        """Begin; `advance` then opens the first stream."""
        self._connect_ns = now_ns

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """Wait for the first message of the node on a new stream."""
        if self.state is SpaceState.CLOSED:
            return
        self._has_stream = True
        self._is_paused = False
        self.is_rejected = False
        self._opened_ns = now_ns
        self._liveness.opened(now_ns)
        wire = self.new_wire(self.types.by_name)
        wire.limit_frames(self.config.frame_bytes_max, skips_large=True)
        self.access = ClientConnection(
            wire,
            name=self.config.name,
            cnonce=f"{self._rng.getrandbits(64):016x}",
            secret=self.config.secret,
            extensions=self.config.extensions,
        )

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        """The stream is closed, or could not be opened."""
        self._has_stream = False
        detail, self._detail = self._detail, ""
        if self.state is not SpaceState.CLOSED:
            self._lost(detail or _REASONS[reason], now_ns)

    def explain(self, detail: str) -> None:
        """Set the text that the next `stream_closed` reports instead of its general reason."""
        self._detail = detail

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        access, intake = self.access, self.intake
        if access is None:
            return
        self._liveness.received(now_ns)
        # The driver takes output after this call, so callbacks that publish need not wake it.
        self.buffer.note_awaited()
        now_s = self.wall_s(now_ns)
        intake.context.now_s = now_s
        for item in read(access, intake, data):
            if self.access is not access:
                # A callback, or the item before, has ended the connection.
                break
            if isinstance(item, ReceivedFrame):
                self._received(access, item, now_ns, now_s)
            elif isinstance(item, Misread):
                self._unreadable(item, now_ns)
            elif isinstance(item, TooLarge):
                self.note_skipped(item.name, item.size)
            else:
                self._broken(item, now_ns)
        if intake.failures:
            self.collect_failures()

    def advance(self, now_ns: int) -> None:
        """Open a stream, probe a silent node, or close a dead connection."""
        if self._connect_ns is not None and self._connect_ns <= now_ns:
            self._connect_ns = None
            self._transmits.append(Connect(destination=self._node))
        is_waiting = bool(self.flushes) or self.subscriptions.is_awaiting_echo
        for action in self._liveness.advance(now_ns, is_waiting=is_waiting):
            if action is LivenessAction.ECHO:
                self.send_echo(0, now_ns)
            elif action is LivenessAction.PROBE:
                assert self.access is not None
                echo = internal_class("DotsEcho")(request=True, data=ALIVE_MARK)
                self.access.send_message(echo, self.wall_s(now_ns))
            else:
                self._leave("the node is silent", now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return earliest(self._liveness.deadline_ns(), self._connect_ns)

    def has_output(self) -> bool:
        """Whether there are transmits or events. If not, the next publisher wakes the driver."""
        if self._transmits or self._events or self._is_paused:
            return True
        access = self.access
        if access is None or access.out_bytes:
            return True
        return self.buffer.has_waiting()

    def take_transmits(self) -> list[Transmit]:
        """Bytes to send, and streams to open or to close."""
        access = self.access
        if access is not None and not self._is_paused:
            if access.stage is ConnectionStage.CONNECTED:
                self._move()
            if access.out_bytes:
                self._transmits.append(self._output(access))
        return super().take_transmits()

    def statistics(self) -> SpaceStatistics:
        return SpaceStatistics(
            connected_count=self._connected_count,
            published_count=self.buffer.waiting.added_count,
            waiting_bytes=self.buffer.waiting.size,
            unknown_count=self.answers.unknown_count,
            skipped_count=self._skipped_count,
        )

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        self._wall_offset_ns = wall_offset_ns

    def note_skipped(self, name: str, size: int) -> None:
        """Count and report an object above the size limit, which was dropped."""
        self._skipped_count += 1
        limit = self.config.receive_bytes_max
        self._events.append(ObjectSkipped(name=name, size=size, limit=limit))

    def pause(self) -> None:
        """The write buffer of the stream is full: take nothing out until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """The write buffer of the stream has room again."""
        self._is_paused = False

    def close(self, now_ns: int, *, reason: str) -> None:
        """Close the space for good, after the queued frames and a last message are sent."""
        if self.state is SpaceState.CLOSED:
            return
        access = self.access
        if access is not None:
            if access.stage is ConnectionStage.CONNECTED:
                self._move()
            access.end(self.wall_s(now_ns))
        self._end_stream()
        self._end(reason)

    # -- the handshake

    def _received(
        self, access: ClientConnection, frame: ReceivedFrame, now_ns: int, now_s: float
    ) -> None:
        """Process a frame that is not an ordinary object."""
        item = access.understand(frame.header, frame.payload, now_s)
        if item is None:
            return
        if isinstance(item, ReceivedFrame):
            try:
                self._events += self.answers.process(access, item, now_s)
            except (CodecError, SchemaError) as error:
                name = item.header.type_name
                self._broken(ConnectionBroken(message=name, detail=str(error)), now_ns)
        elif isinstance(item, Accepted):
            self._accepted(access, item, now_ns, now_s)
        elif isinstance(item, Connected):
            self.claims.connected(access, now_s)
            self.subscriptions.all_replays_ended(now_s)
            self._connected(now_ns, now_s)
        elif isinstance(item, Rejected):
            self._rejected(item, now_ns)
        elif isinstance(item, SecretMissing):
            self._refuse("the node asks for a secret, and none was given")
        elif isinstance(item, ConnectionEnded):
            access.close()
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
        self, access: ClientConnection, item: Accepted, now_ns: int, now_s: float
    ) -> None:
        has_subjects = bool(access.extensions & EXTENSION_SUBJECTS)
        if not has_subjects and (self.uses_subjects or self.subscriptions.has_patterns()):
            self._refuse("the program uses subjects, and the node supports only types")
            return
        if not has_subjects and (len(self.claims) or len(self.requests)):
            self._refuse("the program uses claims or requests, and the node supports only types")
            return
        self.has_subjects = has_subjects
        self.buffer.waiting.forget_subjects()
        self.client_id = item.client_id
        self.server_name = access.server_name
        self.intake.context.own_id = item.client_id
        self.intake.context.epoch += 1
        for type_ in self.buffer.types():
            access.describe(type_, now_s)
        self.subscriptions.connected(access, now_s)
        if item.has_preload:
            access.finish_joins(now_s)
        else:
            self.claims.connected(access, now_s)
            self._connected(now_ns, now_s)

    def _connected(self, now_ns: int, now_s: float) -> None:
        assert self.access is not None
        self._liveness.connected(now_ns, is_ours=bool(self.access.extensions))
        self._connected_count += 1
        self._change(SpaceState.CONNECTED)
        self._move()
        for request in self.answers.types_requests:
            request.send(self.access, now_s)
        self.requests.connected(self.access, now_ns, now_s)
        for flush in self.flushes.waiting():
            self.send_echo(flush.number, now_ns)

    # -- the end of a stream

    def _broken(self, fault: ConnectionBroken, now_ns: int) -> None:
        self._leave(f"the node broke the protocol in {fault.message}: {fault.detail}", now_ns)

    def _unreadable(self, item: Misread, now_ns: int) -> None:
        events = self.answers.unreadable(item)
        if events is None:
            name = item.header.type_name
            self._leave(f"the node sent an invalid {name}: {item.error}", now_ns)
        else:
            self._events += events

    def _refuse(self, why: str) -> None:
        """Close the space, since another attempt would fail in the same way."""
        self.is_refused = True
        self._end_stream()
        self._end(why)

    def _leave(self, why: str, now_ns: int) -> None:
        """Close the stream, and reconnect."""
        access = self.access
        if access is not None and access.stage is ConnectionStage.CONNECTED:
            access.end(self.wall_s(now_ns), code=1, text=why)
        self._end_stream()
        self._lost(why, now_ns)

    def _lost(self, why: str, now_ns: int) -> None:
        self._forget_access()
        unconfirmed_count = self.flushes.lost(self.buffer.moved_count, why)
        self.requests.lost(why)
        if self.state is SpaceState.CONNECTING and not self.config.is_patient:
            self._end(why)
            return
        if self.state is SpaceState.CONNECTED and now_ns - self._opened_ns > _STEADY_NS:
            self._attempt_count = 0
        self._attempt_count += 1
        delay_ns = self.config.reconnect.delay_ns(self._attempt_count, self._rng)
        self._connect_ns = now_ns + delay_ns
        if self.state is SpaceState.CONNECTED:
            self._change(SpaceState.DISCONNECTED, why, unconfirmed_count)
        self._report_claims(self.claims.disconnected())

    def _end(self, why: str) -> None:
        """Close the space: there is no further attempt to connect."""
        self._forget_access()
        self._connect_ns = None
        self.failure = why
        self.intake.is_stopped = True
        self.flushes.end(Disconnected(why))
        self.requests.end(why)
        self._change(SpaceState.CLOSED, why)
        self._report_claims(self.claims.end())

    def _forget_access(self) -> None:
        self.access = None
        self.answers.disconnected()
        self.subscriptions.disconnected()
        self._liveness.closed()
        self._written()

    def _end_stream(self) -> None:
        access = self.access
        if access is not None and access.out_bytes:
            self._transmits.append(self._output(access))
        if self._has_stream:
            self._has_stream = False
            self._transmits.append(Disconnect(destination=self._node))

    # -- sending

    def send_echo(self, number: int, now_ns: int) -> None:
        """Send the echo of a flush, or with number 0 one that only asks for an answer."""
        assert self.access is not None
        echo = internal_class("DotsEcho")(request=True, identifier=number, data=FLUSH_MARK)
        self.access.send_message(echo, self.wall_s(now_ns))
        self.expect_answer(now_ns)

    def expect_answer(self, now_ns: int) -> None:
        """Close the connection if the node does not answer in time."""
        self._liveness.expect_answer(now_ns)

    def send_published(self) -> None:
        """Queue published frames for sending before the message that the caller sends next."""
        if self.access is not None and self.access.stage is ConnectionStage.CONNECTED:
            self._move()

    def _move(self) -> None:
        access = self.access
        assert access is not None

        def describe(type_: NamedType) -> None:
            access.describe(type_, 0.0)

        self._moved_bytes += self.buffer.move(access.outgoing, describe)

    def _output(self, access: ClientConnection) -> Transmit:
        data = access.take_output()
        self._written()
        return Transmit(destination=self._node, data=data)

    def _written(self) -> None:
        if self._moved_bytes:
            self.buffer.written(self._moved_bytes)
            self._moved_bytes = 0

    # -- events

    def collect_failures(self) -> None:
        """Report the errors of callbacks as events."""
        failures, self.intake.failures = self.intake.failures, []
        for _, error in failures:
            self._events.append(CallbackFailed(error=error))

    def _change(self, state: SpaceState, reason: str = "", unconfirmed_count: int = 0) -> None:
        assert state in next_states(self.state), f"{self.state} to {state}"
        self.state = state
        self._events.append(
            StateChanged(state=state, reason=reason, unconfirmed_count=unconfirmed_count)
        )

    def _report_claims(self, callbacks: tuple[Callable[[], object], ...]) -> None:
        if callbacks:
            self._events.append(ClaimsChanged(callbacks=callbacks))
