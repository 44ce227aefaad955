"""Calls: requests on their way from who asks to who answers, and what is told of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeAlias

from skerry.engine.clients import Client
from skerry.engine.dispatch.topics import Topic
from skerry.limits import REQUEST_BYTES_MAX
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class

__all__ = [
    "Answer",
    "RequestCall",
    "RequestDesk",
    "Window",
    "call_message",
    "request_message",
    "response_message",
]

Answer: TypeAlias = tuple[Topic, bytes]
"""An object, encoded, and its type."""


@dataclass(eq=False, slots=True, kw_only=True)
class Window:
    """How many requests a handler was given and has not answered.

    Those count for which nobody waits any more: who does not answer gets no more to do.
    """

    client: Client
    count: int = 0
    is_open: bool = True
    """Whether it still gets requests."""


@dataclass(eq=False, slots=True, kw_only=True)
class RequestCall:
    """One request until it is over."""

    number: int
    asker: Client
    asker_number: int
    topic: Topic
    handler: str
    data: bytes
    asked_ns: int
    due_ns: int
    window: Window | None = None
    """Of the handler that was given it."""
    is_over: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class RequestDesk:
    """What waits for the handler of one place, whoever that is."""

    window: Window
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
        client=call.asker.client_id,
    )
    return request


def response_message(number: int, outcome: str, reason: str, answer: Answer | None) -> Struct:
    """What who asked is told."""
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
    """What those are told who follow the requests of others.

    Objects that are too large together for one message are left out.
    """
    size = len(call.data) + (0 if answer is None else len(answer[1]))
    fits = size <= REQUEST_BYTES_MAX
    told: Struct = internal_class("SkerryCall")(
        number=call.number,
        typeName=call.topic.name,
        handler=call.handler,
        client=call.asker.client_id,
        servedBy=None if call.window is None else call.window.client.client_id,
        asked=asked_s,
        took=took_s,
        outcome=internal_class("SkerryOutcome")[outcome],
        object=call.data if fits else None,
        answerType=None if answer is None else answer[0].name,
        answer=answer[1] if answer is not None and fits else None,
        reason=reason or None,
    )
    return told
