"""Open requests, their queues, and the messages about them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeAlias

from skerry.engine.clients import Client
from skerry.engine.dispatch.topics import Topic
from skerry.limits import REQUEST_BYTES_MAX
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class

Answer: TypeAlias = tuple[Topic, bytes]
"""The topic of an object, and the encoded object."""


@dataclass(eq=False, slots=True, kw_only=True)
class HandlerWindow:
    """How many requests were forwarded to a handler that it has not answered.

    Requests that timed out count too: a handler that does not answer gets no more requests.
    """

    client: Client
    count: int = 0
    is_open: bool = True
    """Whether the handler still gets requests."""


@dataclass(eq=False, slots=True, kw_only=True)
class RequestCall:
    """One request until it is over."""

    number: int
    requester: Client
    requester_number: int
    topic: Topic
    handler: str
    data: bytes
    asked_ns: int
    due_ns: int
    trace: str | None = None
    """The context of its trace, which the node forwards."""
    window: HandlerWindow | None = None
    """The window of the handler to which it was forwarded."""
    is_over: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class RequestQueue:
    """The requests that wait for the handler of a type and name."""

    window: HandlerWindow
    waiting: OrderedDict[int, RequestCall] = field(default_factory=OrderedDict)
    """By number, the next first."""


def request_message(call: RequestCall, data: bytes, now_ns: int) -> Struct:
    """The message that forwards a request; `data` is its object as the handler reads it."""
    request: Struct = internal_class("SkerryRequest")(
        number=call.number,
        typeName=call.topic.name,
        handler=call.handler,
        object=data,
        timeout=max(call.due_ns - now_ns, 0) / 1e9,
        client=call.requester.client_id,
        trace=call.trace,
    )
    return request


def response_message(number: int, outcome: str, reason: str, answer: Answer | None) -> Struct:
    response: Struct = internal_class("SkerryResponse")(
        number=number,
        outcome=internal_class("SkerryOutcome")[outcome],
        reason=reason or None,
        typeName=None if answer is None else answer[0].name,
        object=None if answer is None else answer[1],
    )
    return response


def call_message(
    call: RequestCall,
    outcome: str,
    reason: str,
    answer: Answer | None,
    *,
    asked_s: float,
    took_s: float,
) -> Struct:
    """The message that informs monitors about a finished request.

    Objects that are too large together for one message are left out.
    """
    size = len(call.data) + (0 if answer is None else len(answer[1]))
    fits = size <= REQUEST_BYTES_MAX
    message: Struct = internal_class("SkerryCall")(
        number=call.number,
        typeName=call.topic.name,
        handler=call.handler,
        client=call.requester.client_id,
        servedBy=None if call.window is None else call.window.client.client_id,
        asked=asked_s,
        took=took_s,
        outcome=internal_class("SkerryOutcome")[outcome],
        object=call.data if fits else None,
        answerType=None if answer is None else answer[0].name,
        answer=answer[1] if answer is not None and fits else None,
        reason=reason or None,
    )
    return message
