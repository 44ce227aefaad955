"""Requests that the node forwards to this space, and the responses to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from skerry.limits import REQUEST_REASON_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection


@dataclass(eq=False, slots=True, kw_only=True)
class ReceivedRequest:
    """A request that this space has to answer."""

    number: int
    """Given by the node, and valid on this connection only."""
    connection: ClientConnection
    """The connection that it was received on; the response must use the same one."""
    type_name: str
    handler: str
    payload: bytes
    client: int
    trace: str = ""
    """The context of its trace; empty if it has none."""
    is_over: bool = False


OnRequest: TypeAlias = Callable[[ReceivedRequest], object]


def request_of(connection: ClientConnection, message: Any) -> ReceivedRequest:
    return ReceivedRequest(
        number=message.number or 0,
        connection=connection,
        type_name=message.typeName or "",
        handler=message.handler or "",
        payload=message.object or b"",
        client=message.client or 0,
        trace=message.trace or "",
    )


def answer(
    request: ReceivedRequest, type_name: str | None, payload: bytes | None, now_s: float
) -> None:
    """Send an answer: an object of a type that was described before, or None."""
    outcome = internal_class("SkerryOutcome")["answered"]
    _respond(request, now_s, outcome=outcome, typeName=type_name, object=payload)


def fail(request: ReceivedRequest, reason: str, now_s: float) -> None:
    # The text may contain characters that UTF-8 cannot encode.
    text = reason[:REQUEST_REASON_CHAR_COUNT_MAX].encode("utf-8", "replace").decode()
    _respond(request, now_s, outcome=internal_class("SkerryOutcome")["failed"], reason=text)


def decline(request: ReceivedRequest, now_s: float) -> None:
    """Send that the request was not processed, because its handler is closed."""
    outcome = internal_class("SkerryOutcome")["not_registered"]
    _respond(request, now_s, outcome=outcome, reason="its handler has just been closed")


def _respond(request: ReceivedRequest, now_s: float, **facts: Any) -> None:
    """Send the response, unless one was sent before."""
    if request.is_over:
        return
    message = internal_class("SkerryResponse")(number=request.number, **facts)
    request.connection.send_message(message, now_s)
    request.is_over = True
