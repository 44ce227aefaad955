"""Requests and claims of a pure space: with a node that is played by hand, and with a real one."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.client.core.claims import Claim
from skerry.client.core.received_requests import ReceivedRequest
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import ClaimsChanged, SpaceState
from skerry.engine.services.requests import REQUEST_WINDOW_COUNT
from skerry.errors import (
    Disconnected,
    EncodeError,
    LocalProtocolError,
    NotRegistered,
    RequestTimedOut,
    SchemaMismatchError,
)
from skerry.limits import (
    HANDLER_NAME_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_TIMEOUT_S_MAX,
)
from skerry.protocol.machine import CloseReason
from tests.unit.client.stage import (
    NODE,
    SECOND,
    Ask,
    Only,
    Pair,
    Part,
    Say,
    Shout,
    Stage,
    Vessel,
    alone,
    asked,
    claimed,
    greeted,
    meet_again,
    met,
    receives,
    responded,
    said,
    states,
)


class Handler:
    """Keeps received requests, and answers on demand."""

    def __init__(self, core: SpaceCore, name: str = "", **options: Any) -> None:
        self.core = core
        self.calls: list[ReceivedRequest] = []
        self.states: list[str] = []
        self.claim: Claim = core.requests_and_claims.claim_requests(
            Ask,
            self.calls.append,
            SECOND,
            name=name,
            is_standby=options.get("is_standby", False),
            on_change=lambda: self.states.append(str(self.claim.state)),
        )

    def answer(self, answer: Any = None) -> None:
        self.core.requests_and_claims.answer(self.calls.pop(0), answer, SECOND)


def own(core: SpaceCore, cls: Any, keys: Any = None, *, is_standby: bool = False) -> list[Claim]:
    return core.requests_and_claims.claim_objects(
        cls, keys, SECOND, is_standby=is_standby, on_change=lambda: None
    )


def request(core: SpaceCore, obj: Any, to: str = "", timeout_s: float = 2.0) -> Any:
    return core.requests_and_claims.request(obj, SECOND, to=to, timeout_s=timeout_s)


# -- with a node that is played by hand


def test_request_follows_published_objects_and_its_type() -> None:
    core = met()
    core.publish(Shout(text="first"), 1.0)
    asking = request(core, Ask(text="a"), to="router")
    assert said(core) == [
        "StructDescriptorData",
        "Shout",
        "StructDescriptorData",
        "SkerryRequest",
    ]
    receives(core, "SkerryResponse", number=77)
    assert not asking.is_done, "the response is for another request"
    responded(core, asking.number, "answered")
    assert asking.is_done


def test_request_made_meanwhile_waits_for_the_connection() -> None:
    core = met()
    core.connection.stream_closed(NODE, CloseReason.LOST, SECOND)
    asking = request(core, Ask(text="a"))
    core.publish(Shout(text="before it"), 1.0)
    assert said(core) == []
    meet_again(core)
    names = [name for name in said(core) if name != "StructDescriptorData"]
    assert names == ["DotsMsgConnect", "Shout", "SkerryRequest"]
    responded(core, asking.number, "answered")
    assert asking.is_done


def test_sent_request_is_not_repeated_and_fails() -> None:
    core = met()
    asking = request(core, Ask(text="a"))
    said(core)
    meet_again(core)
    assert isinstance(asking.error, Disconnected)
    assert "SkerryRequest" not in said(core)


def test_answer_of_a_type_that_was_described_meanwhile() -> None:
    stage = Stage()
    server, client = stage.space(), stage.space()
    handler = Handler(server)
    stage.run()
    asking = request(client, Ask(text="a"))
    stage.run()
    handler.answer(Say(text="b", count=3))
    stage.run()
    assert type(asking.answer).__name__ == "Say"
    assert asking.answer == Say(text="b", count=3)
    assert client.types.classes()["Say"] is type(asking.answer)


def test_answer_follows_what_its_handler_published() -> None:
    core = met()
    handler = Handler(core, "router")
    claimed(core, handler.claim.number, "held")
    said(core)
    asked(core, 1, Ask(text="a"), "router")
    core.publish(Shout(text="done"), 1.0)
    handler.answer(Say(text="b"))
    names = said(core)
    assert names == [
        "StructDescriptorData",
        "Shout",
        "StructDescriptorData",
        "SkerryResponse",
    ]


def test_answers_may_come_in_any_order() -> None:
    core = met()
    handler = Handler(core)
    said(core)
    for number in (1, 2, 3):
        asked(core, number, Ask(text="a"))
    for call in reversed(handler.calls):
        core.requests_and_claims.answer(call, None, SECOND)
    core.requests_and_claims.fail(handler.calls[0], "it is answered", SECOND)
    assert [r.number for r in said(core, "SkerryResponse")] == [3, 2, 1]


def test_answer_to_a_request_of_a_former_connection_is_dropped() -> None:
    core = met()
    handler = Handler(core)
    asked(core, 1, Ask(text="a"))
    asked(core, 2, Ask(text="b"))
    meet_again(core)
    said(core)
    handler.answer(Say(text="b"))
    core.requests_and_claims.fail(handler.calls[0], "no way", SECOND)
    assert said(core) == []


def test_request_for_a_closed_handler_is_declined() -> None:
    core = met()
    handler = Handler(core, "router")
    asked(core, 1, Ask(text="a"), "router")
    core.requests_and_claims.release_claims([handler.claim], SECOND)
    said(core)
    asked(core, 2, Ask(text="b"), "router")
    (response,) = said(core, "SkerryResponse")
    assert (response.number, response.outcome.label) == (2, "not_registered")
    assert "closed" in response.reason
    handler.answer(Say(text="still"))
    (response,) = said(core, "SkerryResponse")
    assert (response.number, response.outcome.label) == (1, "answered")


def test_invalid_answer_leaves_the_request_open() -> None:
    core = met()
    handler = Handler(core)
    asked(core, 1, Ask(text="a"))
    said(core)
    (call,) = handler.calls
    for wrong, kind in (
        (5, LocalProtocolError),
        (Part(on=True), LocalProtocolError),
        (Say(text=5), EncodeError),
        (Say(text="x" * REQUEST_BYTES_MAX), EncodeError),
        (skerry.define_types("struct Ask { 1: bool on; }").Ask(on=True), SchemaMismatchError),
    ):
        with pytest.raises(kind):
            core.requests_and_claims.answer(call, wrong, SECOND)
    assert said(core) == []
    core.requests_and_claims.fail(call, "no way", SECOND)
    (response,) = said(core, "SkerryResponse")
    assert (response.outcome.label, response.reason) == ("failed", "no way")


def test_claims_are_sent_before_queued_objects_and_requests_after() -> None:
    core = met()
    Handler(core, "router")
    own(core, Vessel, [1])
    core.publish(Vessel(mmsi=1), 1.0)
    said(core)
    core.connection.stream_closed(NODE, CloseReason.LOST, SECOND)
    core.publish(Vessel(mmsi=1, name="a"), 1.0)
    request(core, Ask(text="a"))
    meet_again(core)
    names = [name for name in said(core) if name != "StructDescriptorData"]
    assert names == ["DotsMsgConnect", "SkerryClaim", "SkerryClaim", "Vessel", "SkerryRequest"]


def test_lost_connection_and_close_are_reported_to_claims() -> None:
    core = met()
    handler = Handler(core)
    claimed(core, handler.claim.number, "held")
    assert handler.states == ["held"]
    core.connection.stream_closed(NODE, CloseReason.LOST, SECOND)
    reported = [
        event for event in core.connection.take_events() if isinstance(event, ClaimsChanged)
    ]
    assert len(reported) == 1
    assert handler.claim.state == "asked"
    core.close(SECOND)
    (ended,) = [
        event for event in core.connection.take_events() if isinstance(event, ClaimsChanged)
    ]
    for emit in ended.callbacks:
        emit()
    assert handler.states[-1] == "closed"


def test_messages_to_one_client_are_not_for_its_subscribers() -> None:
    core = met()
    events: list[Any] = []
    for name in ("SkerryClaimed", "SkerryRequest", "SkerryResponse"):
        core.subscribe(name, events.append, SECOND)
    core.subscribe("/...", events.append, SECOND)
    handler = Handler(core)
    claimed(core, handler.claim.number, "held")
    asked(core, 1, Ask(text="a"))
    responded(core, 1, "answered")
    assert events == []
    assert len(handler.calls) == 1


# -- invalid arguments


@pytest.mark.parametrize(
    ("obj", "options", "text"),
    [
        (5, {}, "a request must be an object of a type, not int"),
        (Ask, {}, "a request must be an object of a type, not type"),
        (Part(on=True), {}, "can only be used inside"),
        (Ask(), {"to": 5}, "the name of a handler must be a str, got int"),
        (Ask(), {"to": "ä" * HANDLER_NAME_BYTES_MAX}, "has 400 bytes, the limit is 200"),
        (Ask(), {"to": "\ud800"}, "cannot be encoded as UTF-8"),
        (Ask(), {"timeout_s": 0}, "0 is not a timeout"),
        (Ask(), {"timeout_s": -1.5}, "-1.5 is not a timeout"),
        (Ask(), {"timeout_s": float("nan")}, "nan is not a timeout"),
        (Ask(), {"timeout_s": float("inf")}, "inf is not a timeout"),
        (Ask(), {"timeout_s": None}, "None is not a timeout"),
        (Ask(), {"timeout_s": REQUEST_TIMEOUT_S_MAX + 1}, "3601 is not a timeout"),
        (Ask(), {"timeout_s": 10**400}, "1000"),
    ],
)
def test_invalid_request_is_rejected(obj: Any, options: Any, text: str) -> None:
    core = met()
    with pytest.raises(LocalProtocolError, match=text):
        request(core, obj, **options)
    assert said(core) == []


def test_longest_name_and_time_are_allowed() -> None:
    core = met()
    request(core, Ask(), to="x" * HANDLER_NAME_BYTES_MAX, timeout_s=REQUEST_TIMEOUT_S_MAX)
    assert len(said(core, "SkerryRequest")) == 1


def test_largest_request_fits_and_a_larger_one_is_rejected() -> None:
    core = met()
    room = REQUEST_BYTES_MAX
    empty = len(Ask(text="x" * 70_000).encode()) - 70_000
    request(core, Ask(text="x" * (room - empty)), to="x" * HANDLER_NAME_BYTES_MAX)
    assert len(said(core, "SkerryRequest")) == 1
    with pytest.raises(EncodeError, match="the limit for requests and answers"):
        request(core, Ask(text="x" * (room - empty + 1)))


@pytest.mark.parametrize(
    ("cls", "keys", "text"),
    [
        (Vessel, [], "`keys` is empty"),
        (Vessel, "1", "`keys` must be a list of keys, got str"),
        (Vessel, 1, "`keys` must be a list of keys, got int"),
        (Vessel, [Pair(first=1)], "is not a key of Vessel"),
        (Vessel, [(1, 2)], r"\(1, 2\) is not a key of Vessel"),
        (Vessel, ["x"], "'x' is not a key of Vessel: Vessel.mmsi"),
        (Vessel, [Vessel(name="a")], "does not have all key fields of Vessel"),
        (Vessel, [None], "None does not have all key fields of Vessel"),
    ],
)
def test_keys_that_cannot_be_owned(cls: Any, keys: Any, text: str) -> None:
    core = met()
    with pytest.raises(LocalProtocolError, match=text) as caught:
        own(core, cls, keys)
    assert caught.value.hint is not None
    assert said(core) == []


def test_invalid_claim_is_rejected() -> None:
    core = met()
    with pytest.raises(LocalProtocolError, match="Shout is not cached"):
        own(core, Shout)
    with pytest.raises(LocalProtocolError, match="can only be used inside"):
        own(core, Part)
    with pytest.raises(LocalProtocolError, match="the limit is 200"):
        Handler(core, "x" * (HANDLER_NAME_BYTES_MAX + 1))
    Handler(core, "router")
    with pytest.raises(LocalProtocolError, match="already claimed requests Ask as router"):
        Handler(core, "router")


def test_keys_are_those_of_containers() -> None:
    core = met()
    pair, copy = Pair(first=1, second="b", on=True), (1, "b")
    (claim,) = own(core, Pair, [pair, copy])
    assert claim.key == (1, "b")
    (sent,) = said(core, "SkerryClaim")
    assert Pair.decode(sent.object) == Pair(first=1, second="b")
    (only,) = own(core, Only, [()])
    assert only.payload == b"\xa0"
    (everything,) = own(core, Only)
    assert everything.payload is None


def test_dots_host_supports_no_requests_and_claims() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    for what, attempt in (
        ("requests", lambda: request(core, Ask())),
        ("claims", lambda: Handler(core)),
        ("claims", lambda: own(core, Vessel, [1])),
    ):
        with pytest.raises(
            LocalProtocolError, match=f"the node h does not support {what}"
        ) as caught:
            attempt()
        assert "extensions=off" in (caught.value.hint or "")
    assert core.connection.state is SpaceState.CONNECTED


@pytest.mark.parametrize("what", ["claims", "requests"])
def test_dots_host_instead_of_a_node_closes_a_space_with_claims_or_requests(what: str) -> None:
    stage = Stage()
    core = stage.space()
    if what == "claims":
        Handler(core)
        stage.run()
    stage.kill()
    if what == "requests":
        request(core, Ask(), timeout_s=100)
    stage.restart(extensions=False)
    stage.run(10)
    assert states(core)[-1] == "closed"
    assert (
        core.connection.failure
        == "the program uses claims or requests, and the node supports only types"
    )


def test_closed_space_raises_disconnected() -> None:
    core = met()
    core.close(SECOND)
    for attempt in (
        lambda: request(core, Ask()),
        lambda: Handler(core),
        lambda: own(core, Vessel),
    ):
        with pytest.raises(Disconnected, match="the space is closed"):
            attempt()


# -- with a real node


def test_requests_find_their_handler_by_type_and_name() -> None:
    stage = Stage()
    first, second, client = stage.space(), stage.space(), stage.space()
    one, two = Handler(first, "one"), Handler(second, "two")
    stage.run()
    asking = [request(client, Ask(text=name), to=name) for name in ("two", "one", "three")]
    stage.run()
    for handler, name in ((one, "one"), (two, "two")):
        (call,) = handler.calls
        assert Ask.decode(call.payload).text == name
        assert call.client == client.connection.client_id
        handler.answer(Say(text=name))
    stage.run()
    assert [a.answer and a.answer.text for a in asking] == ["two", "one", None]
    assert isinstance(asking[2].error, NotRegistered)


def test_handler_has_some_requests_at_a_time_and_all_of_them_in_order() -> None:
    stage = Stage()
    server, client = stage.space(), stage.space()
    handler = Handler(server)
    stage.run()
    asking = [request(client, Ask(text=str(n))) for n in range(25)]
    stage.run()
    assert len(handler.calls) == REQUEST_WINDOW_COUNT
    texts: list[str] = []
    while handler.calls:
        texts.append(Ask.decode(handler.calls[0].payload).text)
        handler.answer(Say(count=len(texts)))
        stage.run()
    assert texts == [str(n) for n in range(25)]
    assert [a.answer.count for a in asking] == list(range(1, 26))


def test_standby_takes_over_when_the_holder_has_left() -> None:
    stage = Stage()
    holder, waiting, client = stage.space(), stage.space(), stage.space()
    first, second = Handler(holder), Handler(waiting, is_standby=True)
    stage.run()
    assert (first.states, second.states) == (["held"], ["standby"])
    given = request(client, Ask(text="given"))
    stage.run()
    stage.cut(holder)
    stage.run()
    assert second.states == ["standby", "held"]
    asking = request(client, Ask(text="a"))
    stage.run()
    second.answer(Say(text="b"))
    stage.run(1)
    stage.run()
    assert asking.answer == Say(text="b")
    assert isinstance(given.error, RequestTimedOut)
    # The former holder is back by now, claims again as it did first, and takes it.
    assert holder.connection.state is SpaceState.CONNECTED
    assert second.states == ["standby", "held", "standby"]
    assert first.claim.state == "held"


def test_later_claim_takes_over() -> None:
    stage = Stage()
    former, latter = stage.space(), stage.space()
    first = Handler(former)
    stage.run()
    second = Handler(latter)
    stage.run()
    assert first.states == ["held", "lost"]
    assert "claimed by client" in first.claim.reason
    assert second.states == ["held"]
    stage.cut(former)
    stage.run(1)
    assert second.states == ["held"], "what was lost is not claimed again"


def test_only_the_owner_changes_its_objects() -> None:
    stage = Stage()
    owner, other = stage.space(), stage.space()
    claims = own(owner, Vessel, [1])
    stage.run()
    assert [str(claim.state) for claim in claims] == ["held"]
    stage.publish(other, Vessel(mmsi=1, name="mine"), Vessel(mmsi=2))
    stage.publish(owner, Vessel(mmsi=1, name="ours"))
    names = {Vessel.decode(payload).name for payload in stage.cached(Vessel).values()}
    assert names == {"ours", None}
    flush = other.flush(stage.now_ns)
    stage.run()
    assert "owned" in str(flush.error)
    owner.requests_and_claims.release_claims(claims, stage.now_ns)
    stage.publish(other, Vessel(mmsi=1, name="mine"))
    assert len(stage.cached(Vessel)) == 2
    names = {Vessel.decode(payload).name for payload in stage.cached(Vessel).values()}
    assert names == {"mine", None}


def test_claims_are_sent_again_to_a_restarted_node() -> None:
    stage = Stage()
    core = stage.space()
    handler, (claim,) = Handler(core), own(core, Vessel, [1])
    stage.run()
    stage.kill()
    stage.run(1)
    assert claim.state == "asked"
    stage.restart()
    stage.run(10)
    assert handler.claim.state == claim.state == "held"
