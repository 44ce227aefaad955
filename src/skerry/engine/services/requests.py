"""Requests: each is forwarded to its handler and gets exactly one response.

The node forwards a few requests at a time to a handler, in the order in which they were received,
and queues the others. It knows the timeout of each request, and responds itself if there is no
handler, if the handler disconnected, or if the request timed out. A request that timed out may
still have been carried out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from skerry.codec.pieces import cut, split_whole
from skerry.durations import DurationCounter
from skerry.engine.clients import Client
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.ledger import RequestCounts
from skerry.engine.dispatch.topics import Topic
from skerry.engine.services.ownership import ClaimTable, ClaimTarget, handler_subject
from skerry.engine.services.request_calls import (
    Answer,
    HandlerWindow,
    RequestCall,
    RequestQueue,
    call_message,
    request_message,
    response_message,
)
from skerry.engine.types.type_table import TypeTable
from skerry.errors import DecodeError
from skerry.limits import (
    REQUEST_BYTES_MAX,
    REQUEST_REASON_CHAR_COUNT_MAX,
    REQUEST_TIMEOUT_S_MAX,
    TRACE_CONTEXT_CHAR_COUNT_MAX,
)
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import Header
from skerry.protocol.deadlines import Deadlines

REQUEST_WINDOW_COUNT: Final = 10
"""Requests that are forwarded to a handler before it has answered the first of them. The others
wait at the node, from where a standby can get them when the handler disconnects."""

_EMPTY: Final = b"\xa0"
_HANDLER_GONE_NS: Final = 500_000_000
"""Timeout of a request whose handler disconnected; a longer timeout of the request is reduced."""


class RequestTable:
    def __init__(self, node: ServiceHost, types: TypeTable) -> None:
        self._node = node
        self._types = types
        self._queues: dict[tuple[str, str], RequestQueue] = {}
        self._forwarded: dict[int, dict[int, RequestCall]] = {}
        """Requests that each handler has to answer, by number."""
        self._last_forwarded: dict[int, dict[int, int]] = {}
        """The number of the last request forwarded to each handler, by handler and requester."""
        self._by_requester: dict[int, dict[int, RequestCall]] = {}
        self._bytes: Counter[int] = Counter()
        """Bytes of open requests, by requester."""
        self._due: Deadlines[RequestCall] = Deadlines()
        self._next_number = 1
        self._asked_count = 0
        self._abandoned_count = 0
        self._late_count = 0
        self._ended: Counter[str] = Counter()
        self._durations = DurationCounter()
        self.ownership = ClaimTable(node, types, self._handler_changed)

    @property
    def counts(self) -> RequestCounts:
        """How many requests were received, and their outcomes."""
        return RequestCounts(
            asked=self._asked_count,
            ended=dict(self._ended),
            abandoned=self._abandoned_count,
            open=sum(len(calls) for calls in self._by_requester.values()),
            late=self._late_count,
            durations=self._durations.durations(),
        )

    def deadline_ns(self) -> int | None:
        """When the next request times out."""
        return self._due.next_ns()

    def advance(self, now_ns: int) -> None:
        """Respond to requests that timed out."""
        for call, _ in self._due.take_due(now_ns):
            is_gone = call.window is not None and not call.window.client.is_present
            self._end(call, "timed_out", now_ns, "its handler disconnected" if is_gone else "")

    # -- requests

    def take_request(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Process a SkerryRequest of a client."""
        message: Any = self._types.class_of(topic).decode(payload)
        mine = self._by_requester.get(client.client_id, {})
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
        why = self._refusal(client, what, subject)
        if why is not None:
            self._node.connections.disconnection.count_refusal(client, "request", why)
            self._refuse(client, message, "refused", why, now_ns)
            return
        assert what is not None
        data = _whole(what, message.object)
        limits = client.limits
        if (
            len(mine) >= limits.request_count_max
            or self._bytes[client.client_id] + len(data) > limits.waiting_bytes_max
        ):
            why = f"{len(mine)} requests of {self._bytes[client.client_id]} bytes have no response"
            self._refuse(client, message, "overflow", why, now_ns)
            return
        self._begin(client, message, what, handler, data, now_ns)

    def _refusal(self, client: Client, what: Topic | None, subject: str) -> str | None:
        """Why a request of a client is refused; `what` is None if the node does not serve it."""
        if what is None or not _may_request(client, subject):
            return f"{subject}: not permitted"
        if what.type.flags.internal:
            return f"{what.name}: requests of internal types are not served"
        return self._types.registry.rejection(client.client_id, what.name)

    def _begin(
        self, client: Client, message: Any, what: Topic, handler: str, data: bytes, now_ns: int
    ) -> None:
        call = RequestCall(
            number=self._next_number,
            requester=client,
            requester_number=message.number,
            topic=what,
            handler=handler,
            data=data,
            trace=message.trace,
            asked_ns=now_ns,
            due_ns=now_ns + ns_of_seconds(message.timeout),
        )
        self._next_number += 1
        self._asked_count += 1
        self._by_requester.setdefault(client.client_id, {})[call.requester_number] = call
        self._bytes[client.client_id] += len(data)
        queue = self._queues.get((what.name, handler))
        if queue is None:
            self._end(call, "not_registered", now_ns, _no_handler(call))
            return
        self._due.set(call, call.due_ns)
        queue.waiting[call.number] = call
        self._forward(queue, now_ns)

    # -- responses

    def take_response(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Process a SkerryResponse of a handler."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.number is None or message.outcome is None:
            self._node.drop(client, now_ns, "SkerryResponse: without number or outcome")
            return
        # Requests that are due have timed out: the requester started its timer before this node.
        self.advance(now_ns)
        call = self._forwarded.get(client.client_id, {}).pop(message.number, None)
        if call is None:
            self._late_count += 1
            return
        assert call.window is not None
        call.window.count -= 1
        if call.is_over:
            self._late_count += 1
        else:
            self._process_response(client, call, message, now_ns)
        queue = self._queues.get((call.topic.name, call.handler))
        if queue is not None and queue.window is call.window:
            self._forward(queue, now_ns)

    def _process_response(
        self, client: Client, call: RequestCall, message: Any, now_ns: int
    ) -> None:
        if message.outcome.label != "answered":
            reason = (message.reason or "it failed")[:REQUEST_REASON_CHAR_COUNT_MAX]
            # A handler that was just removed returns requests that it received after that.
            is_returned = message.outcome.label == "not_registered"
            if not (is_returned and self._reassign(call, now_ns)):
                self._end(call, "not_registered" if is_returned else "failed", now_ns, reason)
            return
        if (message.typeName is None) != (message.object is None):
            fault = "an object without a type, or a type without an object"
            self._end(call, "failed", now_ns, f"the response has {fault}")
            self._node.drop(client, now_ns, f"SkerryResponse: {fault}")
            return
        answer: Answer | None = None
        if message.typeName is not None:
            what = self._types.topic(message.typeName)
            if what is None:
                is_known = message.typeName in client.connection.received
                why = "the handler may not use it" if is_known else "there is no such type"
                self._end(call, "failed", now_ns, f"answer of type {message.typeName:.60}: {why}")
                return
            rejection = self._types.registry.rejection(client.client_id, what.name)
            if rejection is not None:
                self._end(call, "failed", now_ns, rejection)
                return
            try:
                answer = (what, _whole(what, message.object))
            except DecodeError as error:
                self._end(call, "failed", now_ns, f"the answer cannot be decoded: {error}")
                raise
        self._end(call, "answered", now_ns, answer=answer)

    def _reassign(self, call: RequestCall, now_ns: int) -> bool:
        """Forward a request that a former handler returned to the present one.

        Returns False if there is no other handler, or if it already has a later request of the same
        client: the requests of a client are carried out in their order.
        """
        queue = self._queues.get((call.topic.name, call.handler))
        if queue is None or queue.window is call.window:
            return False
        last = self._last_forwarded.get(queue.window.client.client_id, {})
        if last.get(call.requester.client_id, 0) > call.number:
            return False
        call.window = None
        later = [number for number in queue.waiting if number > call.number]
        queue.waiting[call.number] = call
        for number in later:
            queue.waiting.move_to_end(number)
        self._forward(queue, now_ns)
        return True

    def forget(self, client: Client, now_ns: int) -> None:
        """Abandon the requests of a client that disconnected, and shorten those forwarded to it."""
        for call in list(self._by_requester.get(client.client_id, {}).values()):
            self._abandoned_count += 1
            self._over(call)
            call.data = b""
        for call in self._forwarded.pop(client.client_id, {}).values():
            if not call.is_over:
                self._due.set(call, min(call.due_ns, now_ns + _HANDLER_GONE_NS))
        self._last_forwarded.pop(client.client_id, None)
        for last in self._last_forwarded.values():
            last.pop(client.client_id, None)

    def _handler_changed(self, target: ClaimTarget, now_ns: int) -> None:
        """Forward waiting requests to the new handler; without one, respond to them."""
        if target.handler is None:
            return
        at = (target.topic.name, target.handler)
        queue = self._queues.get(at)
        if queue is not None:
            self._close(queue.window)
        if target.holder is None:
            if queue is not None:
                del self._queues[at]
                for call in list(queue.waiting.values()):
                    self._end(call, "not_registered", now_ns, _no_handler(call))
            return
        window = HandlerWindow(client=target.holder.client)
        if queue is None:
            self._queues[at] = RequestQueue(window=window)
        else:
            queue.window = window
            self._forward(queue, now_ns)

    def _close(self, window: HandlerWindow) -> None:
        """Forward nothing more to a handler, and stop counting requests that it never answered."""
        window.is_open = False
        forwarded = self._forwarded.get(window.client.client_id, {})
        for call in list(forwarded.values()):
            if call.window is window and call.is_over:
                del forwarded[call.number]

    def _forward(self, queue: RequestQueue, now_ns: int) -> None:
        """Forward waiting requests to their handler, as many as its window has room for."""
        window = queue.window
        forwarded = self._forwarded.setdefault(window.client.client_id, {})
        last = self._last_forwarded.setdefault(window.client.client_id, {})
        while queue.waiting and window.count < REQUEST_WINDOW_COUNT:
            _, call = queue.waiting.popitem(last=False)
            call.window = window
            window.count += 1
            forwarded[call.number] = call
            last[call.requester.client_id] = call.number
            now_s = self._node.clock.wall_s(now_ns)
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
        """Send the response to a request."""
        self._over(call)
        self._ended[outcome] += 1
        self._durations.add(now_ns - call.asked_ns)
        self._respond(call.requester, call.requester_number, outcome, reason, now_ns, answer)
        self._trace(call, outcome, reason, now_ns, answer)
        call.data = b""

    def _over(self, call: RequestCall) -> None:
        call.is_over = True
        self._due.cancel(call)
        requester = call.requester.client_id
        calls = self._by_requester[requester]
        del calls[call.requester_number]
        self._bytes[requester] -= len(call.data)
        if not calls:
            del self._by_requester[requester]
            del self._bytes[requester]
        window = call.window
        if window is None:
            queue = self._queues.get((call.topic.name, call.handler))
            if queue is not None:
                queue.waiting.pop(call.number, None)
        elif not window.is_open:
            self._forwarded.get(window.client.client_id, {}).pop(call.number, None)

    def _refuse(self, client: Client, message: Any, outcome: str, why: str, now_ns: int) -> None:
        """Send the response to a request that is refused or exceeds a limit."""
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
        now_s = self._node.clock.wall_s(now_ns)
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
        """Publish a SkerryCall, if it has subscribers."""
        subject = handler_subject(call.topic.name, call.handler)
        if not self._node.publisher.has_subscribers("SkerryCall", subject):
            return
        message = call_message(
            call,
            outcome,
            reason,
            answer,
            asked_s=self._node.clock.wall_s(call.asked_ns),
            took_s=(now_ns - call.asked_ns) / 1e9,
        )
        self._node.publisher.publish(message, now_ns, subject=subject)


def _fault(message: Any) -> str | None:
    """What is wrong with a request; None if it is valid."""
    if message.number is None or message.typeName is None or message.object is None:
        return "without number, typeName or object"
    if message.timeout is None or not 0 < message.timeout <= REQUEST_TIMEOUT_S_MAX:
        return f"its timeout is not between 0 and {REQUEST_TIMEOUT_S_MAX:g} s"
    if message.trace is not None and len(message.trace) > TRACE_CONTEXT_CHAR_COUNT_MAX:
        return f"its trace has more than {TRACE_CONTEXT_CHAR_COUNT_MAX} characters"
    return None


def _whole(what: Topic, data: bytes) -> bytes:
    """The object of a request or answer in canonical form; DecodeError if it is invalid."""
    pieces = split_whole(what.plan, data)
    found = data if pieces.is_canonical else cut(what.plan, pieces, -1)
    if len(found) > REQUEST_BYTES_MAX:
        detail = f"{len(found)} bytes, the limit for requests and responses is {REQUEST_BYTES_MAX}"
        raise DecodeError(type_name=what.name, detail=detail)
    return found


def _readable(client: Client, what: Topic, data: bytes) -> bytes:
    """The object of a request or of an answer as a client with its own definition reads it."""
    reading = client.reading(what)
    return data if reading is None else reading.project(data) or _EMPTY


def _may_request(client: Client, subject: str) -> bool:
    assert client.rights is not None
    return client.rights.allows("publish", subject)


def _no_handler(call: RequestCall) -> str:
    name = f" under the name {call.handler}" if call.handler else ""
    return f"there is no handler for {call.topic.name}{name}"
