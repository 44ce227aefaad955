"""A client's space, as a pure machine: what it published, what it sees, and its way to the node.

It asks for a stream, shakes hands, asks the node for everything the program wants, and when the
stream is lost does all of it again. Callbacks are called while bytes are received, so that an
object is found in its container as its event tells. Everything else the program is told comes out
as events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, Literal

from skerry.client.event_queue import OnSlow
from skerry.client.events import BYTES_NAME, Shape
from skerry.client.flushes import Flush, Flushes
from skerry.client.intake import Intake, Target
from skerry.client.interests import LEAVE_MARK, SERVICES, Interest, Interests, refuse_condition
from skerry.client.known_types import KnownTypes
from skerry.client.sending import SendBuffer, raw_payload
from skerry.client.settings import SpaceConfig, SpaceStatistics
from skerry.client.states import (
    CallbackFailed,
    Refusal,
    SpaceState,
    StateChanged,
    TypeConflict,
    Unreadable,
    next_states,
)
from skerry.errors import (
    CodecError,
    DecodeError,
    Disconnected,
    LocalProtocolError,
    SchemaError,
)
from skerry.objects.base import Struct, selection
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.client import (
    EXTENSION_SUBJECTS,
    Accepted,
    ClientConnection,
    ClientInput,
    Connected,
    Rejected,
    SecretMissing,
)
from skerry.protocol.access.connection import (
    ALIVE_MARK,
    Arrival,
    Broken,
    Ended,
    Stage,
    decode_message,
)
from skerry.protocol.access.filters import make_filter
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import (
    Address,
    CloseReason,
    Connect,
    Disconnect,
    Transmit,
)
from skerry.protocol.outbox import Outbox
from skerry.protocol.patterns import check_pattern, check_subject
from skerry.schema.model import NamedType, StructType
from skerry.schema.registry import Registry

__all__ = ["SpaceConfig", "SpaceCore", "SpaceStatistics", "TypesRequest"]

_FLUSH: Final = "skerry-flush"
"""Marks our echoes: a program may send echoes of its own, with numbers of its own."""
_STEADY_NS: Final = 5_000_000_000
"""A connection that lasted so long was a good one: the next attempt comes soon again."""
_REASONS: Final = {
    CloseReason.ENDED: "the node closed the connection",
    CloseReason.LOST: "the connection broke",
    CloseReason.REFUSED: "nobody listens there",
    CloseReason.TIMED_OUT: "no answer in time",
}


class TypesRequest:
    """A question to the node for its types."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        """Only these; all if there are none."""
        self.is_done = False


class SpaceCore(Outbox):
    """One space of the node at an address. `wire` makes the framing of a new stream.

    With a lock, objects may be published from any thread; everything else comes from one.
    """

    def __init__(
        self,
        *,
        node: Address,
        wire: Callable[[Registry], Wire],
        rng: Random,
        config: SpaceConfig | None = None,
        wall_offset_ns: int = 0,
        lock: Any = None,
    ) -> None:
        super().__init__()
        self.config = config or SpaceConfig()
        self.types = KnownTypes()
        self.intake = Intake()
        self.intake.is_sheltered = lock is not None
        self.interests = Interests(self.intake, self.types)
        self.state = SpaceState.CONNECTING
        self._failure: str | None = None
        """Why there will be no connection any more."""
        self.is_refused = False
        """Whether that is because the node does not want us, or we not it."""
        self.client_id = 0
        """What the node calls us; 0 before the first connection."""
        self.server_name = ""
        self._node = node
        self._new_wire = wire
        sample = wire(self.types.registry)
        self._wire = None if type(sample) is Wire else sample
        """Makes frames; none for the usual one, which has a shorter way."""
        self._rng = rng
        self._wall_offset_ns = wall_offset_ns
        self._lock = lock
        self.buffer = SendBuffer(self.config.send_bytes_max, lock)
        """What was published and waits. Who publishes asks it first, as the shortest way."""
        self.buffer.is_short = self._wire is None
        self._moved_bytes = 0
        self._flushes = Flushes()
        self._requests: list[TypesRequest] = []
        self._connection: ClientConnection | None = None
        self._has_stream = False
        self._is_paused = False
        self._has_subjects: bool | None = None
        """Whether the node knows subjects; None before we met it."""
        self._uses_subjects = False
        self._deadlines: Deadlines[Literal["connect", "silence", "idle"]] = Deadlines()
        self._attempt_count = 0
        self._connected_count = 0
        self._unknown_count = 0
        self._unreadable_names: set[str] = set()
        """Types of which an object could not be read, on this connection."""
        self._opened_ns = 0
        self._heard_ns = 0
        self._is_answered = True
        """Whether anything was heard since the node was asked for a sign."""
        self._is_probed = False
        """Whether that was the question which a node answers at once."""
        self._detail = ""

    # -- the machine's contract

    def start(self, now_ns: int) -> None:
        """Begin; `advance` then asks for the first stream."""
        self._deadlines.set("connect", now_ns)

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """There is a stream: wait for the node to introduce itself."""
        if self.state is SpaceState.CLOSED:
            return
        self._has_stream = True
        self._is_paused = False
        self._opened_ns = self._heard_ns = now_ns
        self._is_answered = False
        self._connection = ClientConnection(
            self._new_wire(self.types.registry),
            name=self.config.name,
            cnonce=f"{self._rng.getrandbits(64):016x}",
            secret=self.config.secret,
            extensions=self.config.extensions,
        )
        self._deadlines.set("silence", now_ns + self.config.handshake_ns_max)

    @property
    def failure(self) -> str | None:
        """Why the space is over, once it is."""
        return self._failure

    @failure.setter
    def failure(self, why: str) -> None:
        self._failure = why
        self.buffer.is_short = False

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        """The stream is gone, or never came to be."""
        self._has_stream = False
        detail, self._detail = self._detail, ""
        if self.state is not SpaceState.CLOSED:
            self._lost(detail or _REASONS[reason], now_ns)

    def explain(self, detail: str) -> None:
        """Why the stream will be told closed, in better words than the reason alone has."""
        self._detail = detail

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Bytes from the node."""
        connection = self._connection
        if connection is None:
            return
        self._heard_ns = now_ns
        self._is_answered = True
        # Whoever gives us bytes then takes what we have to say: callbacks need not wake it.
        self.buffer.note_awaited()
        now_s = self._wall_s(now_ns)
        intake = self.intake
        intake.now_s = now_s
        if connection.wire.version == 2:
            self._take_frames(connection, data, now_ns, now_s)
        else:
            self._take_messages(connection, data, now_ns, now_s)
        if intake.failures:
            self._collect_failures()

    def advance(self, now_ns: int) -> None:
        """Connect, ask a silent node for a sign, or leave it."""
        for what, _ in self._deadlines.take_due(now_ns):
            if what == "connect":
                self._transmits.append(Connect(destination=self._node))
            elif what == "silence":
                self._check_silence(now_ns)
            else:
                self._check_idle(now_ns)

    def deadline_ns(self) -> int | None:
        """When there is something to be done."""
        return self._deadlines.next_ns()

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent, and streams to open or to end."""
        connection = self._connection
        if connection is not None and not self._is_paused:
            if connection.stage is Stage.CONNECTED:
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
        )

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Somebody set the clock."""
        self._wall_offset_ns = wall_offset_ns

    def pause(self) -> None:
        """The stream has more than it likes: nothing is given to it until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """The stream has room again."""
        self._is_paused = False

    # -- publishing; from any thread where there is a lock

    def publish(
        self, obj: Struct, now_s: float, only: Iterable[str] | None = None, subject: str = ""
    ) -> bool:
        """Send an object, or what is selected of it; whether whoever writes must be told."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if subject:
            self._check_publish_subject(subject)
        selected = -1 if only is None else int(selection(cls, only))
        frame = plan.update(obj, selected, subject, now_s, self._wire)
        is_due = self.buffer.add(frame, cls.descriptor, plan.plan.name)
        self.buffer.plans[cls] = plan
        return is_due

    def publish_bytes(self, subject: str, data: bytes, now_s: float) -> bool:
        """Send bytes under a subject."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        if not isinstance(data, bytes):
            raise LocalProtocolError(f"expected bytes for {subject:.60}, got {type(data).__name__}")
        self._check_publish_subject(subject)
        cls = internal_class(BYTES_NAME)
        plan = self.types.send_plan(cls)
        frame = plan.raw(raw_payload(data), subject, now_s, self._wire)
        is_due = self.buffer.add(frame, cls.descriptor, BYTES_NAME)
        self.buffer.note_subject(subject)
        return is_due

    def remove(self, obj: Struct, now_s: float, subject: str = "") -> bool:
        """Send the removal of the object with this key."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if not plan.is_cached:
            raise LocalProtocolError(f"{plan.plan.name} is not cached: nothing to remove")
        if subject:
            self._check_publish_subject(subject)
        frame = plan.removal(obj, subject, now_s, self._wire)
        return self.buffer.add(frame, cls.descriptor, plan.plan.name)

    def will_publish(self, cls: type[Struct]) -> None:
        """A class whose type is to be described while connecting, as compiled programs do."""
        self.types.send_plan(cls)
        self.buffer.will_publish(cls.descriptor, cls.descriptor.name)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were published and wait for the stream."""
        return self.buffer.waiting_bytes

    # -- subscribing

    def subscribe(
        self,
        what: type[Struct] | str,
        callback: Callable[[Any], object],
        now_ns: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> tuple[Interest, Target]:
        """Call back for each object that is there, and for each change from then on."""
        self._check_open()
        interest, shape = self._interest(what, where, fields)
        now_s = self._wall_s(now_ns)
        self.intake.now_s = now_s
        is_new = not interest.is_used
        target = self.interests.add(interest, callback, shape, is_strict=on_slow == "disconnect")
        self._say_first()
        if is_new:
            self.interests.ask(interest, now_s)
        else:
            self.interests.refresh(interest, now_s)
        if shape is None and not interest.is_pattern:
            self._learn_of(interest.group, now_s)
        self._collect_failures()
        return interest, target

    def unsubscribe(
        self, interest: Interest, target: Target, now_ns: int, *, on_slow: OnSlow
    ) -> None:
        """Tell somebody nothing more."""
        self._say_first()
        self.interests.remove(
            interest, target, self._wall_s(now_ns), is_strict=on_slow == "disconnect"
        )

    def preload(self, what: type[Struct] | str, now_ns: int) -> None:
        """Ask for something as early as can be, and for as long as the space is there."""
        self._check_open()
        interest, shape = self._interest(what, None, None)
        is_new = not interest.is_used
        if interest.is_pattern:
            self.interests.add(interest, _ignore, None, is_strict=True)
        else:
            interest.holder_count += 1
        now_s = self._wall_s(now_ns)
        if is_new:
            self.interests.ask(interest, now_s)
        if shape is None and not interest.is_pattern:
            self._learn_of(interest.group, now_s)

    def hold(
        self,
        what: type[Struct] | str,
        now_ns: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
    ) -> tuple[Interest, Shape]:
        """Keep the current objects of a type here, until `release`."""
        self._check_open()
        interest, shape = self._interest(what, where, fields)
        if shape is None:
            raise refuse_condition(str(what))
        if not shape.is_cached:
            raise LocalProtocolError(f"{shape.name} is not cached: it has no current objects")
        is_new = not interest.is_used
        interest.holder_count += 1
        if is_new:
            self._say_first()
            self.interests.ask(interest, self._wall_s(now_ns))
        return interest, shape

    def release(self, interest: Interest, now_ns: int) -> None:
        """One holder less."""
        interest.holder_count -= 1
        self._say_first()
        self.interests.release(interest, self._wall_s(now_ns))

    # -- questions

    def flush(self, now_ns: int) -> Flush:
        """Ask for a sign that everything published so far has reached the node."""
        self._check_open()
        flush = self._flushes.begin(self.buffer.added_count)
        if self.state is SpaceState.CONNECTED:
            self._say_first()
            self._send_echo(flush.number, now_ns)
        return flush

    def give_up(self, flush: Flush) -> None:
        """Nobody waits for it any more."""
        self._flushes.given_up(flush)

    def request_types(self, names: Iterable[str], now_ns: int) -> TypesRequest:
        """Ask the node for its types, or for those with these names."""
        self._check_open()
        request = TypesRequest(sorted(names))
        self._requests.append(request)
        if self.state is SpaceState.CONNECTED:
            self._say_first()
            self._send_request(request, self._wall_s(now_ns))
        return request

    def close(self, now_ns: int, *, reason: str = "the space is closed") -> None:
        """Say goodbye and end for good."""
        if self.state is SpaceState.CLOSED:
            return
        connection = self._connection
        if connection is not None:
            if connection.stage is Stage.CONNECTED:
                self._move()
            connection.end(self._wall_s(now_ns))
        self._end_stream()
        self._over(reason)

    # -- what arrives

    def _take_frames(
        self, connection: ClientConnection, data: bytes, now_ns: int, now_s: float
    ) -> None:
        """Frames of version 2, of which objects are dealt with as they stand."""
        cutter, intake = connection.wire.cutter, self.intake
        try:
            if not connection.is_over:
                cutter.load(data)
            while not connection.is_over:
                if connection.stage is Stage.CONNECTING:
                    if not cutter.step():
                        break
                elif intake.take_frames(cutter):
                    break
                header, size = read_header(cutter.body(), 0)
                if intake.broken is not None:
                    self._unreadable(header, now_ns)
                else:
                    self._heard(connection, header, cutter.body()[size:], now_ns, now_s)
                if self._connection is not connection:
                    return
            if self._connection is connection and not connection.is_over:
                # A fault behind whole frames is told when asked again.
                cutter.load(b"")
        except DecodeError as error:
            intake.broken = None
            fault = Broken(message=error.type_name, detail=str(error))
            if self._connection is connection:
                self._broken(fault, now_ns)

    def _take_messages(
        self, connection: ClientConnection, data: bytes, now_ns: int, now_s: float
    ) -> None:
        """What comes in another form."""
        intake = self.intake
        arrived, fault = connection.feed(data)
        index, count = 0, len(arrived)
        while index < count:
            if connection.stage is not Stage.CONNECTING:
                index = int(intake.take(arrived, index))
                if intake.broken is not None:
                    self._unreadable(arrived[index][0], now_ns)
                    index += 1
                    if self._connection is connection:
                        continue
                if index >= count or self._connection is not connection:
                    break
            header, payload = arrived[index]
            index += 1
            self._heard(connection, header, payload, now_ns, now_s)
            if self._connection is not connection:
                break
        if fault is not None and self._connection is connection:
            self._broken(fault, now_ns)

    # -- the handshake

    def _heard(
        self,
        connection: ClientConnection,
        header: Header,
        payload: bytes,
        now_ns: int,
        now_s: float,
    ) -> None:
        """What is not an ordinary object."""
        item: ClientInput | None = connection.understand(header, payload, now_s)
        if item is None:
            return
        if isinstance(item, Arrival):
            self._served(connection, header, payload, now_ns, now_s)
        elif isinstance(item, Accepted):
            self._accepted(connection, item, now_ns, now_s)
        elif isinstance(item, Connected):
            self.interests.told_everything(now_s)
            self._connected(now_ns, now_s)
        elif isinstance(item, Rejected):
            self._refuse("the node does not let us in")
        elif isinstance(item, SecretMissing):
            self._refuse("the node asks for a secret, and none was given")
        elif isinstance(item, Ended):
            connection.stage = Stage.CLOSED
            self._leave(item.text or "the node ended the connection", now_ns)
        else:
            self._broken(item, now_ns)

    def _accepted(
        self, connection: ClientConnection, item: Accepted, now_ns: int, now_s: float
    ) -> None:
        has_subjects = bool(connection.extensions & EXTENSION_SUBJECTS)
        if not has_subjects and (self._uses_subjects or self.interests.has_patterns()):
            self._refuse("subjects are in use here, and the node knows only types")
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
            self._connected(now_ns, now_s)

    def _connected(self, now_ns: int, now_s: float) -> None:
        assert self._connection is not None
        if self._connection.extensions:
            self._deadlines.set("idle", now_ns + self.config.idle_ns_max)
        self._deadlines.cancel("silence")
        self._connected_count += 1
        self._change(SpaceState.CONNECTED)
        self._move()
        for request in self._requests:
            self._send_request(request, now_s)
        for flush in self._flushes.waiting():
            self._send_echo(flush.number, now_ns)

    def _broken(self, fault: Broken, now_ns: int) -> None:
        self._leave(f"the node broke the protocol in {fault.message}: {fault.detail}", now_ns)

    def _unreadable(self, header: Header, now_ns: int) -> None:
        """An object that is none of its type."""
        error, self.intake.broken = self.intake.broken, None
        assert error is not None
        if self.types.has_conflict(header.type_name):
            # It may well be one of the type that the node knows. The program was told of that.
            self._unknown_count += 1
            if header.type_name not in self._unreadable_names:
                self._unreadable_names.add(header.type_name)
                self._events.append(Unreadable(name=header.type_name, detail=str(error)))
            return
        detail = f"the node sent what is no {header.type_name}: {error}"
        self._leave(detail, now_ns)

    # -- services

    def _served(
        self,
        connection: ClientConnection,
        header: Header,
        payload: bytes,
        now_ns: int,
        now_s: float,
    ) -> None:
        name = header.type_name
        route = self.interests.route_of(name)
        if route is None and name not in SERVICES:
            # A host may send what it never described; that is its business, not our end.
            self._unknown_count += name not in self.types.registry
            return
        try:
            if name in SERVICES:
                self._serve(connection, name, decode_message(header, payload), now_s)
            if route is not None and header.subscription_id < 0:
                self.intake.deliver(route, header, payload)
        except (CodecError, SchemaError) as error:
            self._broken(Broken(message=name, detail=str(error)), now_ns)

    def _serve(self, connection: ClientConnection, name: str, message: Any, now_s: float) -> None:
        if name == "DotsEcho":
            if message.data == _FLUSH and not message.request:
                self._flushes.answered(message.identifier or 0)
            elif message.data == LEAVE_MARK and not message.request:
                self.interests.left(now_s)
        elif name == "DotsCacheInfo":
            if message.endTransmission:
                self.interests.told_all(message.typeName or "", now_s)
            if message.endDescriptorRequest and self._requests:
                self._requests.pop(0).is_done = True
        elif name == "SkerryRefusal":
            refusal = Refusal(what=message.what or "", reason=message.reason or "")
            self._flushes.refused(refusal)
            self._events.append(refusal)
            if message.groupName is not None:
                self.interests.refused(message.groupName, message.subscriptionId, str(refusal))
        else:
            self._described(connection, message)

    def _described(self, connection: ClientConnection, message: Any) -> None:
        conflict_count = len(self.types.conflicts)
        found, is_new = self.types.learn_description(message)
        connection.note_described(found.name)
        if is_new and isinstance(found, StructType):
            self.interests.type_known(found)
        for conflict in self.types.conflicts[conflict_count:]:
            self._events.append(
                TypeConflict(name=conflict.known.name, difference=conflict.difference())
            )

    # -- the end of a stream

    def _refuse(self, why: str) -> None:
        """What another attempt would not change."""
        self.is_refused = True
        self._end_stream()
        self._over(why)

    def _leave(self, why: str, now_ns: int) -> None:
        """End the stream from here, and come back."""
        connection = self._connection
        if connection is not None and connection.stage is Stage.CONNECTED:
            connection.end(self._wall_s(now_ns), code=1, text=why)
        self._end_stream()
        self._lost(why, now_ns)

    def _lost(self, why: str, now_ns: int) -> None:
        self._forget_connection()
        unconfirmed_count = self._flushes.lost(self.buffer.moved_count, why)
        if self.state is SpaceState.CONNECTING and not self.config.is_patient:
            self._over(why)
            return
        if self.state is SpaceState.CONNECTED and now_ns - self._opened_ns > _STEADY_NS:
            self._attempt_count = 0
        self._attempt_count += 1
        delay_ns = self.config.reconnect.delay_ns(self._attempt_count, self._rng)
        self._deadlines.set("connect", now_ns + delay_ns)
        if self.state is SpaceState.CONNECTED:
            self._change(SpaceState.DISCONNECTED, why, unconfirmed_count)

    def _over(self, why: str) -> None:
        """There will be no other connection."""
        self._forget_connection()
        self._deadlines.cancel("connect")
        self.failure = why
        self.intake.is_stopped = True
        self._flushes.end(Disconnected(why))
        self._change(SpaceState.CLOSED, why)

    def _forget_connection(self) -> None:
        self._connection = None
        self._unreadable_names.clear()
        self.interests.disconnected()
        self._deadlines.cancel("silence")
        self._deadlines.cancel("idle")
        self._written()

    def _end_stream(self) -> None:
        connection = self._connection
        if connection is not None and connection.out_bytes:
            self._transmits.append(self._output(connection))
        if self._has_stream:
            self._has_stream = False
            self._transmits.append(Disconnect(destination=self._node))

    def _check_silence(self, now_ns: int) -> None:
        """The time for an answer is over."""
        is_handshake = self.state is not SpaceState.CONNECTED
        limit_ns = self.config.handshake_ns_max if is_handshake else self.config.answer_ns_max
        if is_handshake:
            if self._is_answered and self._heard_ns + limit_ns > now_ns:
                self._deadlines.set("silence", self._heard_ns + limit_ns)
            elif self._connection is not None:
                self._leave("the node is silent", now_ns)
            return
        if self._is_answered:
            self._is_probed = False
            if not self._flushes:
                return
        if self._is_answered and self._heard_ns + limit_ns // 2 > now_ns:
            self._deadlines.set("silence", self._heard_ns + limit_ns // 2)
        elif not self._is_probed:
            # It may be well, and wait for its storage to answer what it was asked.
            self._ask_sign(now_ns)
        else:
            self._leave("the node is silent", now_ns)

    def _ask_sign(self, now_ns: int) -> None:
        assert self._connection is not None
        self._is_probed = True
        self._is_answered = False
        echo = internal_class("DotsEcho")(request=True, data=ALIVE_MARK)
        self._connection.send_message(echo, self._wall_s(now_ns))
        self._deadlines.set("silence", now_ns + self.config.answer_ns_max // 2)

    def _check_idle(self, now_ns: int) -> None:
        due_ns = self._heard_ns + self.config.idle_ns_max
        if due_ns > now_ns:
            self._deadlines.set("idle", due_ns)
            return
        self._send_echo(0, now_ns)
        self._deadlines.set("idle", now_ns + self.config.idle_ns_max)

    # -- sending

    def _send_echo(self, number: int, now_ns: int) -> None:
        assert self._connection is not None
        echo = internal_class("DotsEcho")(request=True, identifier=number, data=_FLUSH)
        self._connection.send_message(echo, self._wall_s(now_ns))
        # What was heard before the question is no answer.
        self._is_answered = self._is_probed = False
        self._deadlines.set("silence", now_ns + self.config.answer_ns_max // 2)

    def _send_request(self, request: TypesRequest, now_s: float) -> None:
        assert self._connection is not None
        message = internal_class("DotsDescriptorRequest")()
        if request.names:
            message.whitelist = request.names
        self._connection.send_message(message, now_s)

    def _learn_of(self, name: str, now_s: float) -> None:
        """Hear of new types: one of them is waited for."""
        for group in ("EnumDescriptorData", "StructDescriptorData"):
            interest = self.interests.of_group(group)
            if not interest.is_used:
                interest.holder_count += 1
                self.interests.ask(interest, now_s)
        if self.state is SpaceState.CONNECTED:
            request = TypesRequest([name])
            self._requests.append(request)
            self._send_request(request, now_s)

    def _say_first(self) -> None:
        """What was published before goes out before what is said next."""
        if self._connection is not None and self._connection.stage is Stage.CONNECTED:
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

    def _interest(
        self, what: type[Struct] | str, where: str | None, fields: Iterable[str] | None
    ) -> tuple[Interest, Shape | None]:
        has_condition = where is not None or fields is not None
        if isinstance(what, str) and what.startswith("/"):
            pattern = check_pattern(what)
            if has_condition:
                raise refuse_condition(f"the pattern {what}")
            if self._has_subjects is False:
                raise _no_subjects(self.server_name)
            return self.interests.of_group(pattern), None
        if isinstance(what, str):
            shape = self.types.main_shape(what)
            if shape is None and has_condition:
                raise refuse_condition(what)
        else:
            shape = self.types.shape(what)
        if shape is None:
            return self.interests.of_group(str(what)), None
        if shape.cls.descriptor.flags.substruct_only:
            raise LocalProtocolError(f"{shape.name} is only for use inside other structs")
        if has_condition:
            filter_ = make_filter(shape.cls.descriptor, where, fields)
            return self.interests.of_condition(shape, filter_), shape
        return self.interests.of_group(shape.name), shape

    def _check_open(self) -> None:
        if self.failure is not None:
            raise Disconnected(self.failure)

    def _check_publish_subject(self, subject: str) -> None:
        check_subject(subject)
        if self._has_subjects is False:
            raise _no_subjects(self.server_name)
        self._uses_subjects = True

    def _change(self, state: SpaceState, reason: str = "", unconfirmed_count: int = 0) -> None:
        assert state in next_states(self.state), f"{self.state} to {state}"
        self.state = state
        self._events.append(
            StateChanged(state=state, reason=reason, unconfirmed_count=unconfirmed_count)
        )

    def _collect_failures(self) -> None:
        failures, self.intake.failures = self.intake.failures, []
        for _, error in failures:
            self._events.append(CallbackFailed(error=error))

    def _wall_s(self, now_ns: int) -> float:
        return seconds_of_ns(now_ns + self._wall_offset_ns)


def _ignore(_event: object) -> None:
    """What is preloaded waits for its first subscriber."""


def _no_subjects(server_name: str) -> LocalProtocolError:
    error = LocalProtocolError(f"the node {server_name} knows only types, no subjects")
    error.hint = "subjects need a skerry node, and a listener without `extensions=off`"
    return error
