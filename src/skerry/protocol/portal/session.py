"""A client of a portal, as a machine: the hold, publications, subscriptions and reconnection.

Publications wait in a buffer until the hold is released, while the connection is lost, and while
the socket has no room. After the release, the client does not send them before the router knows its
subscriptions, which it finds out by a *marker*: a filter of its own, which the router passes on to
all publishers, so to this client's socket for publications too. Filters of others that the router
knew before have then arrived there as well, because they arrive in order.
"""

from __future__ import annotations

import enum
from random import Random
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.backoff import Backoff
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.identifiers import Identifier, Scheme, prefix, publication_head
from skerry.protocol.portal.messages import (
    REQUEST_FILTER,
    REQUEST_GROUP,
    REQUEST_TYPE,
    RESPONSE_FILTER,
    ManagerQuestion,
    ManagerRequest,
    read_response,
    write_request,
)
from skerry.protocol.portal.publication_buffer import PublicationBuffer
from skerry.protocol.portal.session_messages import (
    AskManager,
    ConnectData,
    DropSockets,
    ManagerSilent,
    PortalLost,
    PortalOpened,
    PublicationsDropped,
    SessionCommand,
    SessionStatistics,
    SetFilter,
    SubscriptionsSettled,
)
from skerry.protocol.portal.session_states import (
    SESSION_TRANSITIONS,
    SessionEvent,
    SessionState,
)
from skerry.protocol.portal.subscriptions import (
    PortalMatch,
    PortalSubscription,
    PortalSubscriptions,
)

_SECOND: Final = 1_000_000_000
HOLD_REQUEST_NS: Final = 100_000_000
"""Interval of requests about the hold, that of Goby."""
_FLUSH_NS: Final = 5_000_000
FLUSH_COUNT_MAX: Final = 100
"""Publications of the backlog that are sent per 5 ms. The router keeps a thousand for a subscriber
and drops the rest, so a backlog of ten thousand must not be sent at once."""
_RETRY: Final = Backoff(first_ns=_SECOND // 20, delay_ns_max=_SECOND)
"""Delays before the manager is asked again. A broker that restarts is back within a second."""
_MARKER_GROUP: Final = "skerry::portal::marker"
_SET: Final = b"\x01"


class _Timer(enum.Enum):
    HOLD_REQUEST = enum.auto()
    SILENCE = enum.auto()
    SETTLE = enum.auto()
    REJOIN = enum.auto()
    RETRY = enum.auto()
    FLUSH = enum.auto()


class _Internal(enum.Enum):
    """Targets of subscriptions of the machine itself."""

    RESPONSE = enum.auto()


class PortalSession:
    """The connection of one client."""

    def __init__(
        self, config: PortalClientConfig, *, process: int, thread: int, rng: Random, now_ns: int
    ) -> None:
        """`process` and `thread` identify its publications; no other client has the same two."""
        assert config.client_name
        self._config = config
        self.process = process
        self.thread = thread
        self._rng = rng
        self._state = SESSION_TRANSITIONS.start
        self._request_head = publication_head(
            self.identifier(REQUEST_GROUP, Scheme.PROTOBUF, REQUEST_TYPE)
        )
        self.subscriptions = PortalSubscriptions(ignored=None if config.echo else (process, thread))
        self._response = PortalSubscription(RESPONSE_FILTER, _Internal.RESPONSE)
        self._buffer = PublicationBuffer(
            count_max=config.buffer_count_max, bytes_max=config.buffer_bytes_max
        )
        self._urgent: bytes | None = None
        """A request about the hold, which does not wait."""
        self._settle_ns = round(config.settle_s * _SECOND)
        self._rejoin_ns = round(config.rejoin_s * _SECOND)
        self._timers: Deadlines[_Timer] = Deadlines()
        self._commands: list[SessionCommand] = []
        self._events: list[MachineEvent] = []
        self._is_ready = False
        self._was_open = False
        self._asks_hold = False
        """Whether the manager has not answered yet that the hold is released."""
        self._marker_number = 0
        self._markers: dict[bytes, int] = {}
        """The numbers of the markers that the router has not passed on yet."""
        self._settled_number = 0
        """The last marker that the router has passed on."""
        self._awaited_number = 0
        """The marker after which the kept publications are sent."""
        self._backlog_count = 0
        """Publications that wait since before the connection was open."""
        self._may_flush = True
        self._reported_drops = False
        self._attempt_count = 0
        self._sent_count = 0
        self._received_count = 0
        self._malformed_count = 0
        self._lost_count = 0
        self._ask(now_ns)

    # -- for the program

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def is_open(self) -> bool:
        return self._state is SessionState.OPEN

    @property
    def settled_number(self) -> int:
        """The last number of `settle` whose subscriptions the router knows."""
        return self._settled_number

    @property
    def waiting_count(self) -> int:
        """Publications that wait."""
        return len(self._buffer)

    def identifier(self, group: str, scheme: int, type_name: str) -> Identifier:
        """The identifier of a publication of this client."""
        return Identifier(
            group=group,
            scheme=scheme,
            type_name=type_name,
            process=self.process,
            thread=self.thread,
        )

    def publish(self, frame: bytes) -> None:
        """Publish a frame, which begins with `publication_head`. The oldest are dropped if too many
        wait."""
        buffer = self._buffer
        dropped_count = buffer.dropped_count
        buffer.append(frame)
        if buffer.dropped_count != dropped_count and not self._reported_drops:
            self._reported_drops = True
            self._events.append(PublicationsDropped(waiting_count=len(buffer)))

    def would_drop(self, frame: bytes) -> bool:
        """Whether publishing the frame would drop others that wait."""
        return self._buffer.is_full_for(frame)

    def subscribe(self, subscription: PortalSubscription) -> None:
        """Add a subscription. Raises LimitExceeded."""
        if self.subscriptions.add(subscription):
            self._set_filter(subscription.filter, is_set=True)

    def unsubscribe(self, subscription: PortalSubscription) -> None:
        """Remove a subscription, if it is there."""
        if self.subscriptions.remove(subscription):
            self._set_filter(subscription.filter, is_set=False)

    def set_ready(self) -> None:
        """All subscriptions are made that are needed before others may publish."""
        if not self._is_ready:
            self._is_ready = True
            self.settle()

    def settle(self) -> int:
        """Find out when the router knows all subscriptions made until now.

        Returns a number. SubscriptionsSettled with it or a later one reports that they are known.
        """
        self._set_filter(self._new_marker(), is_set=True)
        return self._marker_number

    def close(self) -> None:
        """End the client. What waits is not sent."""
        if self._state is not SessionState.CLOSED:
            self._change(SessionEvent.CLOSED)
            self._stop()

    # -- input

    def manager_answered(self, data: bytes, now_ns: int) -> None:
        """The manager has answered the request for the sockets."""
        if self._state is not SessionState.ASKING:
            return
        try:
            response = read_response(data)
        except DecodeError as error:
            self.connection_lost(str(error), now_ns)
            return
        publish, subscribe = response.publish_socket, response.subscribe_socket
        if publish is None or subscribe is None:
            self.connection_lost("the answer of the manager has no sockets", now_ns)
            return
        self._change(SessionEvent.ANSWERED)
        self._asks_hold = True
        self.subscriptions.add(self._response)
        self._markers.clear()
        filters = (*self.subscriptions.filters(), self._new_marker())
        self._commands.append(ConnectData(publish=publish, subscribe=subscribe, filters=filters))
        self._timers.set(_Timer.HOLD_REQUEST, now_ns)
        self._await_answer(now_ns)

    def subscription_passed(self, frame: bytes, now_ns: int) -> None:
        """The router has passed a filter of a subscriber on to the socket for publications."""
        if not frame.startswith(_SET):
            return
        text = frame[1:]
        if text == REQUEST_FILTER:
            # Requests that were sent before it were dropped.
            if self._asks_hold:
                self._timers.set(_Timer.HOLD_REQUEST, now_ns)
        elif text in self._markers:
            self._marker_passed(self._markers[text], now_ns)

    def receive(self, frame: bytes, now_ns: int) -> tuple[PortalMatch, int] | None:
        """Return what a received frame matches, and where its payload starts; None if it is
        malformed, which is counted."""
        self._received_count += 1
        try:
            found = self.subscriptions.match(frame)
        except DecodeError:
            self._malformed_count += 1
            return None
        if self._asks_hold and _Internal.RESPONSE in found[0].targets:
            self._receive_response(frame[found[1] :], now_ns)
        return found

    def connection_lost(self, reason: str, now_ns: int) -> None:
        """A socket was disconnected, or its peer broke the protocol."""
        if self._state in (SessionState.WAITING, SessionState.CLOSED):
            return
        if self._state is SessionState.ASKING:
            self._events.append(ManagerSilent(reason=reason))
        else:
            self._lost_count += 1
            self._events.append(PortalLost(reason=reason))
        self._change(SessionEvent.LOST)
        self._stop()
        self._attempt_count += 1
        self._timers.set(_Timer.RETRY, now_ns + _RETRY.delay_ns(self._attempt_count, self._rng))

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        for timer, _ in self._timers.take_due(now_ns):
            match timer:
                case _Timer.HOLD_REQUEST:
                    self._request_hold(now_ns)
                case _Timer.SILENCE:
                    self.connection_lost("the manager does not answer", now_ns)
                case _Timer.SETTLE:
                    self._marker_passed(self._marker_number, now_ns)
                case _Timer.REJOIN:
                    self._release(now_ns)
                case _Timer.RETRY:
                    self._change(SessionEvent.DELAY_OVER)
                    self._ask(now_ns)
                case _Timer.FLUSH:
                    self._may_flush = True

    # -- output

    def deadline_ns(self) -> int | None:
        """Return when `advance` has to be called; None if there is no deadline."""
        return self._timers.next_ns()

    def take_commands(self) -> list[SessionCommand]:
        """Return what the driver has to do since the last call, in order."""
        commands, self._commands = self._commands, []
        return commands

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def next_frame(self) -> bytes | None:
        """Return the next frame to send; None if there is none now. `frame_sent` removes it."""
        if self._urgent is not None:
            return self._urgent
        if self._state is not SessionState.OPEN or not self._buffer or not self._may_flush:
            return None
        return self._buffer.peek()

    @property
    def has_output(self) -> bool:
        """Whether the driver has to take a turn before the deadline."""
        return bool(self._events or self._commands) or self._urgent is not None

    def wait_for_room(self, until_ns: int) -> None:
        """The socket has no room; nothing is sent before this time."""
        self._may_flush = False
        self._timers.set(_Timer.FLUSH, until_ns)

    def frame_sent(self, now_ns: int) -> None:
        """The socket has taken the frame of `next_frame`."""
        if self._urgent is not None:
            self._urgent = None
            return
        self._buffer.pop()
        self._sent_count += 1
        if not self._buffer:
            self._reported_drops = False
        if self._backlog_count:
            self._backlog_count = min(self._backlog_count - 1, len(self._buffer))
            if self._backlog_count and self._backlog_count % FLUSH_COUNT_MAX == 0:
                self._may_flush = False
                self._timers.set(_Timer.FLUSH, now_ns + _FLUSH_NS)

    def statistics(self) -> SessionStatistics:
        """Return an immutable snapshot of the counters."""
        return SessionStatistics(
            sent_count=self._sent_count,
            received_count=self._received_count,
            malformed_count=self._malformed_count,
            dropped_count=self._buffer.dropped_count,
            waiting_count=len(self._buffer),
            lost_connections_count=self._lost_count,
        )

    # -- inside

    def _ask(self, now_ns: int) -> None:
        request = ManagerRequest(
            question=ManagerQuestion.SOCKETS,
            client_name=self._config.client_name,
            client_pid=self.process,
        )
        self._commands.append(AskManager(data=write_request(request)))
        self._await_answer(now_ns)

    def _await_answer(self, now_ns: int) -> None:
        self._timers.set(_Timer.SILENCE, now_ns + round(self._config.manager_timeout_s * _SECOND))

    def _request_hold(self, now_ns: int) -> None:
        is_settled = self._settled_number == self._marker_number
        request = ManagerRequest(
            question=ManagerQuestion.HOLD,
            client_name=self._config.client_name,
            client_pid=self.process,
            ready=self._is_ready and is_settled,
        )
        self._urgent = self._request_head + write_request(request)
        self._timers.set(_Timer.HOLD_REQUEST, now_ns + HOLD_REQUEST_NS)

    def _receive_response(self, payload: bytes, now_ns: int) -> None:
        try:
            response = read_response(payload)
        except DecodeError:
            self._malformed_count += 1
            return
        if (response.question, response.client_name, response.client_pid) != (
            ManagerQuestion.HOLD,
            self._config.client_name,
            self.process,
        ):
            return
        self._attempt_count = 0
        self._await_answer(now_ns)
        if self._markers and _Timer.SETTLE not in self._timers:
            # Both sockets work, so a marker that does not return soon was dropped.
            self._timers.set(_Timer.SETTLE, now_ns + self._settle_ns)
        is_released = response.hold is False
        if self._state is SessionState.HELD:
            if not self._was_open:
                if is_released:
                    self._release(now_ns)
            elif _Timer.REJOIN not in self._timers:
                # A hold that was released is not set again, also if the broker was started again.
                self._timers.set(_Timer.REJOIN, now_ns + self._rejoin_ns)
        if is_released:
            self._asks_hold = False
            self._timers.cancel(_Timer.HOLD_REQUEST)
            self._timers.cancel(_Timer.SILENCE)
            if self.subscriptions.remove(self._response):
                self._set_filter(RESPONSE_FILTER, is_set=False)

    def _release(self, now_ns: int) -> None:
        self._change(SessionEvent.RELEASED)
        self._awaited_number = self.settle()
        self._timers.set(_Timer.SETTLE, now_ns + self._settle_ns)

    def _marker_passed(self, number: int, now_ns: int) -> None:
        self._settled_number = number
        for text, one in list(self._markers.items()):
            if one <= number:
                del self._markers[text]
                self._set_filter(text, is_set=False)
        if not self._markers:
            self._timers.cancel(_Timer.SETTLE)
        self._events.append(SubscriptionsSettled(number=number))
        if self._asks_hold:
            self._timers.set(_Timer.HOLD_REQUEST, now_ns)
        if self._state is SessionState.SETTLING and number >= self._awaited_number:
            self._open()

    def _open(self) -> None:
        self._change(SessionEvent.SETTLED)
        self._backlog_count = len(self._buffer)
        self._may_flush = True
        self._events.append(PortalOpened(is_first=not self._was_open))
        self._was_open = True

    def _stop(self) -> None:
        for timer in _Timer:
            self._timers.cancel(timer)
        self._urgent = None
        self._asks_hold = False
        self.subscriptions.remove(self._response)
        self._commands.append(DropSockets())

    def _new_marker(self) -> bytes:
        self._marker_number += 1
        text = prefix(
            _MARKER_GROUP, Scheme.CSTR, str(self._marker_number), self.process, self.thread
        )
        self._markers[text] = self._marker_number
        return text

    def _set_filter(self, text: bytes, *, is_set: bool) -> None:
        if self._state in (SessionState.HELD, SessionState.SETTLING, SessionState.OPEN):
            self._commands.append(SetFilter(filter=text, is_set=is_set))

    def _change(self, event: SessionEvent) -> None:
        self._state = SESSION_TRANSITIONS.next_state(self._state, event)
