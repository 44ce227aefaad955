"""The messages about a request: to the handler, to the requester, and to monitors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.services.request_calls import (
    HandlerWindow,
    RequestCall,
    call_message,
    request_message,
    response_message,
)

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

Ask = skerry.define_types("struct Ask [cached=false] { 1: string text; }").Ask


@pytest.fixture
def call(harbour: Harbour) -> RequestCall:
    guest = harbour.guest()
    guest.describe(Ask)
    topic = harbour.node._types.topic("Ask")
    assert topic is not None
    client = harbour.node._table.by_id[guest.client_id]
    return RequestCall(
        number=9,
        requester=client,
        requester_number=4,
        topic=topic,
        handler="router",
        data=Ask(text="?").encode(),
        asked_ns=1_000_000_000,
        due_ns=3_000_000_000,
    )


def test_a_handler_receives_the_remaining_timeout(call: RequestCall) -> None:
    request: Any = request_message(call, call.data, 1_500_000_000)
    assert (request.number, request.typeName, request.handler) == (9, "Ask", "router")
    assert (request.client, request.timeout) == (call.requester.client_id, 1.5)
    late: Any = request_message(call, call.data, 9_000_000_000)
    assert late.timeout == 0.0


def test_a_response_has_an_object_or_a_reason(call: RequestCall) -> None:
    answered: Any = response_message(4, "answered", "", (call.topic, b"\xa0"))
    assert (answered.number, answered.typeName, answered.object) == (4, "Ask", b"\xa0")
    assert not answered.is_set("reason")
    failed: Any = response_message(4, "failed", "no chart", None)
    assert (failed.outcome.label, failed.reason) == ("failed", "no chart")
    assert not failed.is_set("typeName")
    assert not failed.is_set("object")


def test_a_call_has_the_handler_if_there_was_one(call: RequestCall) -> None:
    alone: Any = call_message(call, "not_registered", "nobody", None, asked_s=1.0, took_s=0.5)
    assert (alone.asked, alone.took, alone.reason) == (1.0, 0.5, "nobody")
    assert not alone.is_set("servedBy")
    call.window = HandlerWindow(client=call.requester)
    whole: Any = call_message(call, "answered", "", (call.topic, b"\xa0"), asked_s=1.0, took_s=0.5)
    assert whole.servedBy == call.requester.client_id
    assert (whole.answerType, whole.answer) == ("Ask", b"\xa0")
    assert Ask.decode(whole.object) == Ask(text="?")
