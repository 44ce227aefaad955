"""Requests to other programs that wait for their answers.

Each request is sent once. If the connection is lost before the answer arrives, the handler may have
carried it out or not, and the request fails with that error. A request that could not be sent yet
waits for the next connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skerry.client.core.known_types import KnownTypes
from skerry.errors import (
    CodecError,
    Disconnected,
    EncodeError,
    NotRegistered,
    Refused,
    RequestError,
    RequestTimedOut,
    SkerryError,
    WouldBlock,
)
from skerry.limits import REQUEST_COUNT_MAX
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.client import ClientConnection
from skerry.schema.model import StructType


class Request:
    """One request, until it has a response."""

    def __init__(
        self,
        number: int,
        type_: StructType,
        *,
        handler: str,
        payload: bytes,
        timeout_s: float,
        trace: str,
    ) -> None:
        self.number = number
        self.type = type_
        self.handler = handler
        self.payload = payload
        self.timeout_s = timeout_s
        self.trace = trace
        self.due_ns = 0
        self.is_sent = False
        self.is_done = False
        self.answer: Struct | None = None
        self.error: SkerryError | None = None
        self.wake: Callable[[], object] | None = None

    def finish(self, answer: Struct | None = None, error: SkerryError | None = None) -> None:
        self.is_done = True
        self.answer = answer
        self.error = error
        if self.wake is not None:
            self.wake()

    def __str__(self) -> str:
        return f"{self.type.name} to {self.handler}" if self.handler else self.type.name


class SentRequests:
    """The requests of a space that have no response yet."""

    def __init__(self, types: KnownTypes, bytes_max: int) -> None:
        self._types = types
        self._bytes_max = bytes_max
        self._waiting: dict[int, Request] = {}
        self._last_number = 0
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(
        self,
        type_: StructType,
        *,
        handler: str,
        payload: bytes,
        timeout_s: float,
        now_ns: int,
        trace: str = "",
    ) -> Request:
        """Create a request; raises WouldBlock if too many wait."""
        self._check_room(len(payload))
        self._last_number += 1
        request = Request(
            self._last_number,
            type_,
            handler=handler,
            payload=payload,
            timeout_s=timeout_s,
            trace=trace,
        )
        request.due_ns = now_ns + ns_of_seconds(timeout_s)
        self._waiting[request.number] = request
        self._size += len(payload)
        return request

    def send(
        self, request: Request, connection: ClientConnection, now_ns: int, now_s: float
    ) -> None:
        """Send a request, with the rest of its timeout."""
        left_ns = request.due_ns - now_ns
        if left_ns <= 0:
            # The caller is about to time out.
            return
        message = internal_class("SkerryRequest")(
            number=request.number,
            typeName=request.type.name,
            handler=request.handler or None,
            object=request.payload,
            timeout=left_ns / 1e9,
            trace=request.trace or None,
        )
        try:
            connection.describe(request.type, now_s)
            connection.send_message(message, now_s)
        except EncodeError as error:
            self._finish(request, error=error)
            return
        request.is_sent = True

    def connected(self, connection: ClientConnection, now_ns: int, now_s: float) -> None:
        """Send the requests that waited for a connection."""
        for request in list(self._waiting.values()):
            self.send(request, connection, now_ns, now_s)

    def answered(self, message: Any) -> None:
        """Process a SkerryResponse message."""
        request = self._waiting.get(message.number or 0)
        if request is None:
            # Its caller has stopped waiting.
            return
        outcome = "" if message.outcome is None else message.outcome.label
        if outcome != "answered":
            self._finish(request, error=_failure(request, outcome, message.reason or ""))
            return
        try:
            self._finish(request, self._answer(message))
        except CodecError as error:
            unread = RequestError(f"the answer to {request} cannot be decoded: {error}")
            self._finish(request, error=unread)

    def forget(self, request: Request) -> None:
        """Ignore the response to a request whose caller has stopped waiting."""
        if self._waiting.pop(request.number, None) is not None:
            self._size -= len(request.payload)

    def lost(self, why: str) -> None:
        """The connection is lost: requests that were sent on it fail."""
        for request in list(self._waiting.values()):
            if request.is_sent:
                self._finish(request, error=_unknown_outcome(request, why))

    def end(self, why: str) -> None:
        """All requests fail, since the space is closed."""
        for request in list(self._waiting.values()):
            self._finish(
                request,
                error=_unknown_outcome(request, why) if request.is_sent else Disconnected(why),
            )

    def _answer(self, message: Any) -> Struct | None:
        if message.typeName is None:
            return None
        shape = self._types.main_shape(message.typeName)
        if shape is None:
            raise CodecError(f"the node has not described {message.typeName}")
        data = self._types.readable(message.typeName, message.object or b"")
        if data is None:
            raise CodecError(f"{message.typeName}: this program's definition cannot hold its key")
        answer: Struct = shape.decode(data)
        return answer

    def _finish(
        self, request: Request, answer: Struct | None = None, error: SkerryError | None = None
    ) -> None:
        self.forget(request)
        request.finish(answer, error)

    def _check_room(self, size: int) -> None:
        if len(self._waiting) >= REQUEST_COUNT_MAX:
            raise _too_many(f"{len(self._waiting)} requests, the limit is {REQUEST_COUNT_MAX}")
        # A single request is accepted whatever its size, as a single publish is.
        if self._size + size > self._bytes_max and self._waiting:
            waiting = f"requests of {self._size} bytes"
            raise _too_many(f"{waiting}, and {size} more exceed the limit of {self._bytes_max}")


def timed_out(request: Request, reason: str = "") -> RequestTimedOut:
    """The error of a timeout, whether the client or the node noticed it first."""
    if not (request.is_sent or reason):
        unsent = RequestTimedOut(
            f"{request} was not sent: there was no connection for {request.timeout_s} s"
        )
        unsent.hint = "send it again when the node is connected; it was not carried out"
        return unsent
    why = f": {reason}" if reason else f" within {request.timeout_s} s"
    error = RequestTimedOut(f"no answer to {request}{why}; it may have been carried out, or not")
    error.hint = "raise `timeout`, or check the program that serves it"
    return error


def _failure(request: Request, outcome: str, reason: str) -> SkerryError:
    if outcome == "not_registered":
        return _not_registered(request)
    if outcome == "timed_out":
        return timed_out(request, reason)
    if outcome == "refused":
        return Refused(f"the node refused the request {request}: {reason}")
    if outcome == "overflow":
        return _too_many(reason or "more requests than the node keeps")
    return RequestError(f"{request} failed: {reason}")


def _not_registered(request: Request) -> NotRegistered:
    who = f" as {request.handler}" if request.handler else ""
    error = NotRegistered(f"no program serves {request.type.name}{who}")
    error.hint = "start the program that serves it; `skerry get SkerryHolder` lists services"
    return error


def _too_many(what: str) -> WouldBlock:
    error = WouldBlock(f"too many requests wait for answers: {what}")
    error.hint = "wait for some of the answers before you send more"
    return error


def _unknown_outcome(request: Request, why: str) -> Disconnected:
    error = Disconnected(
        f"{request} was sent when the connection was lost,"
        f" and may have been carried out or not: {why}"
    )
    error.hint = "send it again if it does no harm to carry it out twice"
    return error
