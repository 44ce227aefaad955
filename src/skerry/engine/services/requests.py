"""Requests: each is given to whoever answers such, and has exactly one answer.

The node stands between who asks and who answers. It gives a handler a few requests at a time, in
the order in which they came, and keeps the others; it knows how long each asker waits, and answers
in the place of a handler that is not there, is gone, or takes too long. That a request timed out
does not mean that it was not carried out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from skerry.codec.pieces import cut, split_whole
from skerry.engine.clients import Client
from skerry.engine.dispatch.ledger import RequestCounts
from skerry.engine.dispatch.topics import Topic
from skerry.engine.services.ownership import ClaimPlace, ClaimTable, handler_subject
from skerry.engine.services.request_calls import (
    Answer,
    RequestCall,
    RequestDesk,
    Window,
    call_message,
    request_message,
    response_message,
)
from skerry.engine.types.node_types import NodeTypes
from skerry.errors import DecodeError
from skerry.limits import (
    REQUEST_BYTES_MAX,
    REQUEST_REASON_CHAR_COUNT_MAX,
    REQUEST_TIMEOUT_S_MAX,
    REQUEST_WINDOW_COUNT,
)
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import Header
from skerry.protocol.deadlines import Deadlines

if TYPE_CHECKING:
    from skerry.engine.connections.service_host import ServiceHost

__all__ = ["RequestTable"]

_EMPTY: Final = b"\xa0"
_HANDLER_GONE_NS: Final = 500_000_000
"""How long requests still wait that a handler had when it went."""


class RequestTable:
    """All requests of a node's clients."""

    def __init__(self, node: ServiceHost, types: NodeTypes) -> None:
        self._node = node
        self._types = types
        self._desks: dict[tuple[str, str], RequestDesk] = {}
        self._given: dict[int, dict[int, RequestCall]] = {}
        """What each handler has to answer, by number."""
        self._last_given: dict[int, dict[int, int]] = {}
        """The last request that each handler was given, by handler and asker."""
        self._by_asker: dict[int, dict[int, RequestCall]] = {}
        self._bytes: Counter[int] = Counter()
        """What these take, by asker."""
        self._due: Deadlines[RequestCall] = Deadlines()
        self._next_number = 1
        self._asked_count = 0
        self._abandoned_count = 0
        self._late_count = 0
        self._ended: Counter[str] = Counter()
        self.ownership = ClaimTable(node, types, self._handler_changed)

    @property
    def counts(self) -> RequestCounts:
        """What became of all of them."""
        return RequestCounts(
            asked=self._asked_count,
            ended=dict(self._ended),
            abandoned=self._abandoned_count,
            open=sum(len(calls) for calls in self._by_asker.values()),
            late=self._late_count,
        )

    def deadline_ns(self) -> int | None:
        """When the next one has waited long enough."""
        return self._due.next_ns()

    def advance(self, now_ns: int) -> None:
        """Answer those for which the time is over."""
        for call, _ in self._due.take_due(now_ns):
            is_gone = call.window is not None and not call.window.client.is_present
            self._end(call, "timed_out", now_ns, "its handler is gone" if is_gone else "")

    # -- who asks

    def ask(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A SkerryRequest of a client."""
        message: Any = self._types.class_of(topic).decode(payload)
        mine = self._by_asker.get(client.client_id, {})
        fault = _fault(message)
        if fault is None and message.number in mine:
            fault = f"number {message.number} is in use"
        what = None if fault is not None else self._types.topic(message.typeName)
        if fault is None and what is None and message.typeName not in client.connection.received:
            fault = f"there is no type {message.typeName:.60}"
        if fault is not None:
            self._node.drop(client, now_ns, f"SkerryRequest: {fault}")
            return
        handler = message.handler or ""
        subject = handler_subject(message.typeName, handler)
        why = self._forbidden(client, what, subject)
        if why is not None:
            self._node.count_refusal(client, "request", why)
            self._refuse(client, message, "refused", why, now_ns)
            return
        assert what is not None
        data = _whole(what, message.object)
        limits = client.limits
        if (
            len(mine) >= limits.request_count_max
            or self._bytes[client.client_id] + len(data) > limits.waiting_bytes_max
        ):
            why = f"{len(mine)} requests of {self._bytes[client.client_id]} bytes have no answer"
            self._refuse(client, message, "overflow", why, now_ns)
            return
        self._begin(client, message, what, handler, data, now_ns)

    def _forbidden(self, client: Client, what: Topic | None, subject: str) -> str | None:
        """Why a request of a client is refused; `what` is None if the node does not serve it."""
        if what is None or not _may_ask(client, subject):
            return f"{subject}: not permitted"
        if what.type.flags.internal:
            return f"{what.name}: requests of internal types are not served"
        return self._types.registry.rejection(client.client_id, what.name)

    def _begin(
        self, client: Client, message: Any, what: Topic, handler: str, data: bytes, now_ns: int
    ) -> None:
        call = RequestCall(
            number=self._next_number,
            asker=client,
            asker_number=message.number,
            topic=what,
            handler=handler,
            data=data,
            asked_ns=now_ns,
            due_ns=now_ns + ns_of_seconds(message.timeout),
        )
        self._next_number += 1
        self._asked_count += 1
        self._by_asker.setdefault(client.client_id, {})[call.asker_number] = call
        self._bytes[client.client_id] += len(data)
        desk = self._desks.get((what.name, handler))
        if desk is None:
            self._end(call, "not_registered", now_ns, _nobody(call))
            return
        self._due.set(call, call.due_ns)
        desk.waiting[call.number] = call
        self._give(desk, now_ns)

    # -- who answers

    def answer(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A SkerryResponse of a handler."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.number is None or message.outcome is None:
            self._node.drop(client, now_ns, "SkerryResponse: without number or outcome")
            return
        # What is due is over: who asked waits no more, by a clock that began before ours.
        self.advance(now_ns)
        call = self._given.get(client.client_id, {}).pop(message.number, None)
        if call is None:
            self._late_count += 1
            return
        assert call.window is not None
        call.window.count -= 1
        if call.is_over:
            self._late_count += 1
        else:
            self._take_answer(client, call, message, now_ns)
        desk = self._desks.get((call.topic.name, call.handler))
        if desk is not None and desk.window is call.window:
            self._give(desk, now_ns)

    def _take_answer(self, client: Client, call: RequestCall, message: Any, now_ns: int) -> None:
        if message.outcome.label != "answered":
            reason = (message.reason or "it failed")[:REQUEST_REASON_CHAR_COUNT_MAX]
            # Who has just ceased to answer gives back what came too late for it.
            is_back = message.outcome.label == "not_registered"
            if not (is_back and self._hand_on(call, now_ns)):
                self._end(call, "not_registered" if is_back else "failed", now_ns, reason)
            return
        if (message.typeName is None) != (message.object is None):
            self._end(call, "failed", now_ns, "an answer with half an object")
            self._node.drop(client, now_ns, "SkerryResponse: an object without its type, or alone")
            return
        answer: Answer | None = None
        if message.typeName is not None:
            what = self._types.topic(message.typeName)
            if what is None:
                is_known = message.typeName in client.connection.received
                why = "its handler may not use" if is_known else "nobody has described"
                self._end(call, "failed", now_ns, f"{why} {message.typeName:.60}")
                return
            rejection = self._types.registry.rejection(client.client_id, what.name)
            if rejection is not None:
                self._end(call, "failed", now_ns, rejection)
                return
            try:
                answer = (what, _whole(what, message.object))
            except DecodeError as error:
                self._end(call, "failed", now_ns, f"an answer that is none: {error}")
                raise
        self._end(call, "answered", now_ns, answer=answer)

    def _hand_on(self, call: RequestCall, now_ns: int) -> bool:
        """Let the handler have it that came after the one who gave it back, if there is one.

        Not if that one has a later request of the same client: they are carried out in their order.
        """
        desk = self._desks.get((call.topic.name, call.handler))
        if desk is None or desk.window is call.window:
            return False
        given = self._last_given.get(desk.window.client.client_id, {})
        if given.get(call.asker.client_id, 0) > call.number:
            return False
        call.window = None
        later = [number for number in desk.waiting if number > call.number]
        desk.waiting[call.number] = call
        for number in later:
            desk.waiting.move_to_end(number)
        self._give(desk, now_ns)
        return True

    def forget(self, client: Client, now_ns: int) -> None:
        """A client is gone: nobody hears the answers to it, and it gives none."""
        for call in list(self._by_asker.get(client.client_id, {}).values()):
            self._abandoned_count += 1
            self._over(call)
            call.data = b""
        for call in self._given.pop(client.client_id, {}).values():
            if not call.is_over:
                self._due.set(call, min(call.due_ns, now_ns + _HANDLER_GONE_NS))
        self._last_given.pop(client.client_id, None)
        for given in self._last_given.values():
            given.pop(client.client_id, None)

    def _handler_changed(self, place: ClaimPlace, now_ns: int) -> None:
        """Requests that wait go to the new handler of a place, or nowhere."""
        if place.handler is None:
            return
        at = (place.topic.name, place.handler)
        desk = self._desks.get(at)
        if desk is not None:
            self._close(desk.window)
        if place.holder is None:
            if desk is not None:
                del self._desks[at]
                for call in list(desk.waiting.values()):
                    self._end(call, "not_registered", now_ns, _nobody(call))
            return
        window = Window(client=place.holder.client)
        if desk is None:
            self._desks[at] = RequestDesk(window=window)
        else:
            desk.window = window
            self._give(desk, now_ns)

    def _close(self, window: Window) -> None:
        """A handler gets no more: what it never answered need not be counted any longer."""
        window.is_open = False
        given = self._given.get(window.client.client_id, {})
        for call in list(given.values()):
            if call.window is window and call.is_over:
                del given[call.number]

    def _give(self, desk: RequestDesk, now_ns: int) -> None:
        """Let the handler have what it has room for."""
        window = desk.window
        given = self._given.setdefault(window.client.client_id, {})
        last_given = self._last_given.setdefault(window.client.client_id, {})
        while desk.waiting and window.count < REQUEST_WINDOW_COUNT:
            _, call = desk.waiting.popitem(last=False)
            call.window = window
            window.count += 1
            given[call.number] = call
            last_given[call.asker.client_id] = call.number
            now_s = self._node.wall_s(now_ns)
            window.client.connection.describe(call.topic.type, now_s)
            data = _readable(window.client, call.topic, call.data)
            window.client.connection.send_message(request_message(call, data, now_ns), now_s)

    # -- the end

    def _end(
        self,
        call: RequestCall,
        outcome: str,
        now_ns: int,
        reason: str = "",
        *,
        answer: Answer | None = None,
    ) -> None:
        """The one answer to a request."""
        self._over(call)
        self._ended[outcome] += 1
        self._respond(call.asker, call.asker_number, outcome, reason, now_ns, answer)
        self._trace(call, outcome, reason, now_ns, answer)
        call.data = b""

    def _over(self, call: RequestCall) -> None:
        call.is_over = True
        self._due.cancel(call)
        asker = call.asker.client_id
        calls = self._by_asker[asker]
        del calls[call.asker_number]
        self._bytes[asker] -= len(call.data)
        if not calls:
            del self._by_asker[asker]
            del self._bytes[asker]
        window = call.window
        if window is None:
            desk = self._desks.get((call.topic.name, call.handler))
            if desk is not None:
                desk.waiting.pop(call.number, None)
        elif not window.is_open:
            self._given.get(window.client.client_id, {}).pop(call.number, None)

    def _refuse(self, client: Client, message: Any, outcome: str, why: str, now_ns: int) -> None:
        """The answer to a request that was never begun."""
        self._asked_count += 1
        self._ended[outcome] += 1
        self._respond(client, message.number, outcome, why, now_ns, None)

    def _respond(
        self,
        client: Client,
        number: int,
        outcome: str,
        reason: str,
        now_ns: int,
        answer: Answer | None,
    ) -> None:
        now_s = self._node.wall_s(now_ns)
        if answer is not None:
            client.connection.describe(answer[0].type, now_s)
            answer = (answer[0], _readable(client, *answer))
        client.connection.send_message(response_message(number, outcome, reason, answer), now_s)

    def _trace(
        self,
        call: RequestCall,
        outcome: str,
        reason: str,
        now_ns: int,
        answer: Answer | None,
    ) -> None:
        """Tell those who follow the requests of others."""
        subject = handler_subject(call.topic.name, call.handler)
        if not self._node.is_heard("SkerryCall", subject):
            return
        told = call_message(
            call,
            outcome,
            reason,
            answer,
            asked_s=self._node.wall_s(call.asked_ns),
            took_s=(now_ns - call.asked_ns) / 1e9,
        )
        self._node.say(told, now_ns, subject=subject)


def _fault(message: Any) -> str | None:
    """What a request must have and this one has not."""
    if message.number is None or message.typeName is None or message.object is None:
        return "without number, typeName or object"
    if message.timeout is None or not 0 < message.timeout <= REQUEST_TIMEOUT_S_MAX:
        return f"its timeout is not between 0 and {REQUEST_TIMEOUT_S_MAX:g} s"
    return None


def _whole(what: Topic, data: bytes) -> bytes:
    """The object of a request or answer in canonical form; DecodeError if it is invalid."""
    pieces = split_whole(what.plan, data)
    found = data if pieces.is_canonical else cut(what.plan, pieces, -1)
    if len(found) > REQUEST_BYTES_MAX:
        detail = f"{len(found)} bytes, the limit for requests and answers is {REQUEST_BYTES_MAX}"
        raise DecodeError(type_name=what.name, detail=detail)
    return found


def _readable(client: Client, what: Topic, data: bytes) -> bytes:
    """The object of a request or of an answer as a client with its own definition reads it."""
    reading = client.reading(what)
    return data if reading is None else reading.project(data) or _EMPTY


def _may_ask(client: Client, subject: str) -> bool:
    assert client.rights is not None
    return client.rights.allows("publish", subject)


def _nobody(call: RequestCall) -> str:
    name = f" under the name {call.handler}" if call.handler else ""
    return f"nobody answers {call.topic.name}{name}"
