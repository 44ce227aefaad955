"""Requests that a space is given have one response each."""

from __future__ import annotations

from typing import Any

from skerry.client.core import received_requests as calls
from skerry.client.core.received_requests import ReceivedRequest, request_of
from skerry.limits import REQUEST_REASON_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import Ask, Say


def call() -> ReceivedRequest:
    connection = ClientConnection(Wire(), name="c", cnonce="1")
    message = internal_class("SkerryRequest")(
        number=5, typeName="Ask", object=Ask(text="a").encode(), timeout=1.0, client=9
    )
    return request_of(connection, message)


def responses(given: ReceivedRequest) -> list[Any]:
    data = given.connection.take_output()
    arrived = Wire().feed(data) if data else []
    return [internal_class("SkerryResponse").decode(payload) for _, payload in arrived]


def test_request_of_the_node_is_read() -> None:
    given = call()
    assert (given.number, given.type_name, given.handler, given.client) == (5, "Ask", "", 9)
    assert Ask.decode(given.payload) == Ask(text="a")


def test_first_response_is_the_only_one() -> None:
    given = call()
    calls.answer(given, "Say", Say(text="b").encode(), 1.0)
    calls.fail(given, "too late", 1.0)
    calls.answer(given, None, None, 1.0)
    (response,) = responses(given)
    assert (response.number, response.outcome.label, response.typeName) == (5, "answered", "Say")
    assert Say.decode(response.object) == Say(text="b")


def test_answer_may_have_no_object() -> None:
    given = call()
    calls.answer(given, None, None, 1.0)
    (response,) = responses(given)
    assert response.outcome.label == "answered"
    assert (response.typeName, response.object) == (None, None)


def test_reason_of_a_failure_is_shortened_and_encodable() -> None:
    given = call()
    calls.fail(given, "\ud800" + "x" * 5000, 1.0)
    (response,) = responses(given)
    assert response.outcome.label == "failed"
    assert response.reason == "?" + "x" * (REQUEST_REASON_CHAR_COUNT_MAX - 1)
