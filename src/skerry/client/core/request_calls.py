"""Requests that the node gives to this space, and the responses to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from skerry.limits import REQUEST_REASON_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection

__all__ = ["ReceivedRequest", "Taker", "call_of", "fail", "give", "give_back"]


@dataclass(eq=False, slots=True, kw_only=True)
class ReceivedRequest:
    """A request that this space is to answer."""

    number: int
    """Of the node, for this connection only."""
    connection: ClientConnection
    """On which it came; its answer cannot go by another one."""
    type_name: str
    handler: str
    payload: bytes
    client: int
    """Who asks."""
    is_over: bool = False
    """Whether it has its response."""


Taker: TypeAlias = Callable[[ReceivedRequest], object]


def call_of(connection: ClientConnection, message: Any) -> ReceivedRequest:
    """What a SkerryRequest of the node asks."""
    return ReceivedRequest(
        number=message.number or 0,
        connection=connection,
        type_name=message.typeName or "",
        handler=message.handler or "",
        payload=message.object or b"",
        client=message.client or 0,
    )


def give(call: ReceivedRequest, type_name: str | None, payload: bytes | None, now_s: float) -> None:
    """Send the answer, an object of a type that was described, or none."""
    outcome = internal_class("SkerryOutcome")["answered"]
    _respond(call, now_s, outcome=outcome, typeName=type_name, object=payload)


def fail(call: ReceivedRequest, reason: str, now_s: float) -> None:
    """Say that it could not be answered, and why."""
    # A text may have in it what no bytes stand for.
    text = reason[:REQUEST_REASON_CHAR_COUNT_MAX].encode("utf-8", "replace").decode()
    _respond(call, now_s, outcome=internal_class("SkerryOutcome")["failed"], reason=text)


def give_back(call: ReceivedRequest, now_s: float) -> None:
    """Say that nobody has done anything about it: we answer such requests no more."""
    outcome = internal_class("SkerryOutcome")["not_registered"]
    _respond(call, now_s, outcome=outcome, reason="its handler has just been closed")


def _respond(call: ReceivedRequest, now_s: float, **facts: Any) -> None:
    """The one response: whoever comes later has no say."""
    if call.is_over:
        return
    message = internal_class("SkerryResponse")(number=call.number, **facts)
    call.connection.send_message(message, now_s)
    call.is_over = True
