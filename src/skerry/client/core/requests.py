"""Requests to other programs that wait for their answers.

Each is sent once: when the connection is lost before its answer came, it may have been carried out
or not, and that is told. One that could not be sent yet waits for the next connection.
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
from skerry.protocol.access.client import ClientConnection
from skerry.schema.model import StructType

__all__ = ["Request", "SentRequests", "timed_out"]


class Request:
    """One request, until it has its answer."""

    def __init__(
        self, number: int, type_: StructType, *, handler: str, payload: bytes, timeout_s: float
    ) -> None:
        self.number = number
        self.type = type_
        self.handler = handler
        self.payload = payload
        self.timeout_s = timeout_s
        self.due_ns = 0
        """When nobody waits for it any more."""
        self.is_sent = False
        self.is_done = False
        self.answer: Struct | None = None
        self.error: SkerryError | None = None
        self.wake: Callable[[], object] | None = None
        """Called when it is done."""

    def finish(self, answer: Struct | None = None, error: SkerryError | None = None) -> None:
        """It is over; with an error if it failed."""
        self.is_done = True
        self.answer = answer
        self.error = error
        if self.wake is not None:
            self.wake()

    def __str__(self) -> str:
        return f"{self.type.name} to {self.handler}" if self.handler else self.type.name


class SentRequests:
    """All of one space that are not answered."""

    def __init__(self, types: KnownTypes, bytes_max: int) -> None:
        self._types = types
        self._bytes_max = bytes_max
        self._waiting: dict[int, Request] = {}
        self._last_number = 0
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(
        self, type_: StructType, *, handler: str, payload: bytes, timeout_s: float, now_ns: int
    ) -> Request:
        """A new one; WouldBlock when too many wait."""
        self._check_room(len(payload))
        self._last_number += 1
        request = Request(
            self._last_number, type_, handler=handler, payload=payload, timeout_s=timeout_s
        )
        request.due_ns = now_ns + int(timeout_s * 1e9)
        self._waiting[request.number] = request
        self._size += len(payload)
        return request

    def send(
        self, request: Request, connection: ClientConnection, now_ns: int, now_s: float
    ) -> None:
        """Ask it, with what is left of its time."""
        left_ns = request.due_ns - now_ns
        if left_ns <= 0:
            # Who waits for it is about to see that.
            return
        message = internal_class("SkerryRequest")(
            number=request.number,
            typeName=request.type.name,
            handler=request.handler or None,
            object=request.payload,
            timeout=left_ns / 1e9,
        )
        try:
            connection.describe(request.type, now_s)
            connection.send_message(message, now_s)
        except EncodeError as error:
            self._finish(request, error=error)
            return
        request.is_sent = True

    def connected(self, connection: ClientConnection, now_ns: int, now_s: float) -> None:
        """Ask those that had to wait for a connection."""
        for request in list(self._waiting.values()):
            self.send(request, connection, now_ns, now_s)

    def answered(self, message: Any) -> None:
        """A SkerryResponse came."""
        request = self._waiting.get(message.number or 0)
        if request is None:
            # Nobody waits for it any more.
            return
        outcome = "" if message.outcome is None else message.outcome.label
        if outcome != "answered":
            self._finish(request, error=_failure(request, outcome, message.reason or ""))
            return
        try:
            self._finish(request, self._answer(message))
        except CodecError as error:
            unread = RequestError(f"the answer to {request} cannot be read: {error}")
            self._finish(request, error=unread)

    def given_up(self, request: Request) -> None:
        """Nobody waits for it any more."""
        if self._waiting.pop(request.number, None) is not None:
            self._size -= len(request.payload)

    def lost(self, why: str) -> None:
        """The connection is gone, and with it the answers to what was asked on it."""
        for request in list(self._waiting.values()):
            if request.is_sent:
                self._finish(request, error=_doubt(request, why))

    def end(self, why: str) -> None:
        """There will be no answers."""
        for request in list(self._waiting.values()):
            self._finish(
                request, error=_doubt(request, why) if request.is_sent else Disconnected(why)
            )

    # -- inside

    def _answer(self, message: Any) -> Struct | None:
        if message.typeName is None:
            return None
        shape = self._types.main_shape(message.typeName)
        if shape is None:
            raise CodecError(f"nobody described {message.typeName}")
        data = self._types.readable(message.typeName, message.object or b"")
        if data is None:
            raise CodecError(f"{message.typeName}: this program's definition cannot hold its key")
        answer: Struct = shape.decode(data)
        return answer

    def _finish(
        self, request: Request, answer: Struct | None = None, error: SkerryError | None = None
    ) -> None:
        self.given_up(request)
        request.finish(answer, error)

    def _check_room(self, size: int) -> None:
        if len(self._waiting) >= REQUEST_COUNT_MAX:
            raise _too_many(f"{len(self._waiting)} requests, the limit is {REQUEST_COUNT_MAX}")
        # A single one is let through however small the bound, as when it is published.
        if self._size + size > self._bytes_max and self._waiting:
            waiting = f"requests of {self._size} bytes"
            raise _too_many(f"{waiting}, and {size} more are past the limit of {self._bytes_max}")


def timed_out(request: Request, reason: str = "") -> RequestTimedOut:
    """That the time is over, as it is told whoever saw it first."""
    if not (request.is_sent or reason):
        away = RequestTimedOut(
            f"{request} was not sent: there was no connection for {request.timeout_s} s"
        )
        away.hint = "ask again when the node is there; nobody has carried it out"
        return away
    why = f": {reason}" if reason else f" within {request.timeout_s} s"
    error = RequestTimedOut(f"no answer to {request}{why}; it may have been carried out, or not")
    error.hint = "give it more time with `timeout`, or see how its handler is doing"
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
    error = NotRegistered(f"nobody answers {request.type.name}{who}")
    error.hint = "start the program that serves it; `skerry get SkerryHolder` tells who serves what"
    return error


def _too_many(what: str) -> WouldBlock:
    error = WouldBlock(f"too much waits for answers: {what}")
    error.hint = "wait for some of the answers before you ask on"
    return error


def _doubt(request: Request, why: str) -> Disconnected:
    error = Disconnected(
        f"{request} was under way when the connection was lost,"
        f" and may have been carried out or not: {why}"
    )
    error.hint = "ask again, if to do it twice does no harm"
    return error
