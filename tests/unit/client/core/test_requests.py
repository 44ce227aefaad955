"""Requests wait for their answers, each sent once."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.requests import Request, SentRequests, timed_out
from skerry.errors import (
    Disconnected,
    EncodeError,
    NotRegistered,
    Refused,
    RequestError,
    RequestTimedOut,
    WouldBlock,
)
from skerry.limits import PAYLOAD_BYTES_MAX, REQUEST_COUNT_MAX
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import SECOND, Ask, Say


def requests(bytes_max: int = 1_000_000) -> SentRequests:
    types = KnownTypes()
    types.learn(Ask)
    types.learn(Say)
    return SentRequests(types, bytes_max)


def begin(made: SentRequests, payload: bytes | None = None, handler: str = "router") -> Request:
    payload = Ask(text="a").encode() if payload is None else payload
    return made.begin(
        Ask.descriptor, handler=handler, payload=payload, timeout_s=2.0, now_ns=SECOND
    )


def connection() -> ClientConnection:
    return ClientConnection(Wire(), name="c", cnonce="1")


def sent(to: ClientConnection) -> list[Any]:
    data = to.take_output()
    return [
        internal_class("SkerryRequest").decode(payload)
        for header, payload in (Wire().feed(data) if data else [])
        if header.type_name == "SkerryRequest"
    ]


def respond(made: SentRequests, request: Request, outcome: str, **fields: Any) -> None:
    outcomes = internal_class("SkerryOutcome")
    message = internal_class("SkerryResponse")(
        number=request.number, outcome=outcomes[outcome], **fields
    )
    made.answered(message)


def test_answer_reaches_its_request_once() -> None:
    made, woken = requests(), list[int]()
    request = begin(made)
    request.wake = lambda: woken.append(1)
    respond(made, request, "answered", typeName="Say", object=Say(text="b").encode())
    respond(made, request, "failed", reason="late")
    assert request.is_done
    assert (request.answer, request.error, woken) == (Say(text="b"), None, [1])
    assert len(made) == 0


def test_unreadable_values_of_an_answer_are_dropped() -> None:
    types = KnownTypes()
    types.learn(skerry.define_types("struct Yes { 1: uint8 count; 2: bool a; }").Yes)
    wide = skerry.define_types("struct Yes { 1: uint32 count; 2: bool a; }").Yes
    types.learn_description(describe(wide.descriptor))
    made = SentRequests(types, 1_000_000)
    request = begin(made)
    respond(made, request, "answered", typeName="Yes", object=wide(count=300, a=True).encode())
    assert request.error is None
    answer: Any = request.answer
    assert (answer.count, answer.a) == (None, True)


def test_answer_without_an_object_is_none() -> None:
    made = requests()
    request = begin(made)
    respond(made, request, "answered")
    assert request.is_done
    assert request.answer is None
    assert request.error is None


@pytest.mark.parametrize(
    ("outcome", "kind", "text"),
    [
        ("failed", RequestError, "Ask to router failed: no way"),
        ("not_registered", NotRegistered, "no program serves Ask as router"),
        ("timed_out", RequestTimedOut, "no answer to Ask to router: no way; it may have been"),
        ("refused", Refused, "the node refused the request Ask to router: no way"),
        ("overflow", WouldBlock, "too many requests wait for answers: no way"),
    ],
)
def test_every_outcome_has_its_error(outcome: str, kind: type[Exception], text: str) -> None:
    made = requests()
    request = begin(made)
    respond(made, request, outcome, reason="no way")
    assert type(request.error) is kind
    with pytest.raises(kind, match=text):
        raise request.error
    if outcome not in ("failed", "refused"):
        assert request.error.hint is not None


def test_every_outcome_of_the_wire_is_handled() -> None:
    for outcome in internal_class("SkerryOutcome"):
        made = requests()
        request = begin(made, handler="")
        respond(made, request, outcome.label)
        assert (request.error is None) == (outcome.label == "answered")


def test_undecodable_answer_fails_only_its_request() -> None:
    made = requests()
    request, other = begin(made), begin(made)
    respond(made, request, "answered", typeName="Say", object=b"\xff")
    assert type(request.error) is RequestError
    assert "the answer to Ask to router cannot be decoded" in str(request.error)
    respond(made, other, "answered", typeName="Unheard", object=b"\xa0")
    assert "the node has not described Unheard" in str(other.error)


def test_request_is_sent_with_the_rest_of_its_timeout() -> None:
    made, node = requests(), connection()
    begin(made)
    made.connected(node, 2 * SECOND, 1.0)
    (message,) = sent(node)
    assert (message.typeName, message.handler, message.timeout) == ("Ask", "router", 1.0)
    assert Ask.decode(message.object) == Ask(text="a")
    begin(made, handler="")
    late = begin(made)
    made.send(late, node, 3 * SECOND, 1.0)
    assert sent(node) == []
    assert not late.is_sent


def test_handler_without_a_name_is_not_named() -> None:
    made, node = requests(), connection()
    made.send(begin(made, handler=""), node, SECOND, 1.0)
    assert sent(node)[0].handler is None


def test_request_is_never_sent_twice() -> None:
    made, node = requests(), connection()
    under_way, waiting = begin(made), begin(made)
    made.send(under_way, node, SECOND, 1.0)
    made.lost("it broke")
    assert isinstance(under_way.error, Disconnected)
    assert "may have been carried out or not: it broke" in str(under_way.error)
    assert under_way.error.hint is not None
    assert not waiting.is_done
    again = connection()
    made.connected(again, SECOND, 1.0)
    assert [message.number for message in sent(again)] == [waiting.number]


def test_end_of_the_space_ends_all_requests() -> None:
    made = requests()
    under_way, waiting = begin(made), begin(made)
    made.send(under_way, connection(), SECOND, 1.0)
    made.end("the space is closed")
    assert "may have been carried out" in str(under_way.error)
    assert str(waiting.error) == "the space is closed"
    assert isinstance(waiting.error, Disconnected)


def test_forgotten_request_frees_its_room() -> None:
    made, node = requests(), connection()
    request = begin(made)
    made.forget(request)
    made.forget(request)
    made.connected(node, SECOND, 1.0)
    assert sent(node) == []
    respond(made, request, "answered")
    assert not request.is_done, "late answers are dropped"


def test_unanswered_requests_are_limited() -> None:
    made = requests()
    waiting = [begin(made) for _ in range(REQUEST_COUNT_MAX)]
    with pytest.raises(WouldBlock, match=f"{REQUEST_COUNT_MAX} requests") as caught:
        begin(made)
    assert caught.value.hint is not None
    respond(made, waiting[0], "answered")
    begin(made)


def test_bytes_of_requests_are_limited() -> None:
    made = requests(bytes_max=100)
    first = begin(made, b"x" * 200)
    with pytest.raises(WouldBlock, match="200 bytes, and 1 more exceed the limit of 100"):
        begin(made, b"x")
    made.forget(first)
    begin(made, b"x" * 60)
    begin(made, b"x" * 40)
    with pytest.raises(WouldBlock):
        begin(made, b"x")


@pytest.mark.slow
def test_request_that_does_not_fit_into_a_message_fails() -> None:
    made = requests(bytes_max=2 * PAYLOAD_BYTES_MAX)
    request = begin(made, b"x" * PAYLOAD_BYTES_MAX)
    made.connected(connection(), SECOND, 1.0)
    assert isinstance(request.error, EncodeError)
    assert len(made) == 0


def test_timeout_states_that_the_outcome_is_unknown() -> None:
    made = requests()
    request = begin(made, handler="")
    made.connected(connection(), SECOND, 1.0)
    error = timed_out(request)
    assert str(error) == "no answer to Ask within 2.0 s; it may have been carried out, or not"


def test_timeout_without_a_connection_states_that_nothing_was_done() -> None:
    error = timed_out(begin(requests(), handler=""))
    assert str(error) == "Ask was not sent: there was no connection for 2.0 s"
    assert "it was not carried out" in str(error.hint)
