"""Requests: exactly one response each, whatever happens to requester and handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.services.requests import REQUEST_WINDOW_COUNT
from skerry.limits import (
    HANDLER_NAME_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_COUNT_MAX,
    REQUEST_REASON_CHAR_COUNT_MAX,
    REQUEST_TIMEOUT_S_MAX,
    TRACE_CONTEXT_CHAR_COUNT_MAX,
)
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Ask [cached=false] { 1: string text; 2: uint32 number; }
    struct Answer [cached=false] { 1: string text; }
    struct Boat { 1: [key] uint32 id; }
    """
)
Ask, Answer, Boat = TYPES.Ask, TYPES.Answer, TYPES.Boat
EVENTS: Any = internal_class("SkerryClaimEvent")
OUTCOMES: Any = internal_class("SkerryOutcome")
SECOND = 1_000_000_000


def serve(guest: Guest, name: str = "router", number: int = 1, event: str = "claim") -> None:
    guest.describe(Ask)
    guest.send("SkerryClaim", number=number, event=EVENTS[event], typeName="Ask", handler=name)


def release(guest: Guest, number: int = 1) -> None:
    guest.send("SkerryClaim", number=number, event=EVENTS["release"])


def ask(
    guest: Guest, number: int = 1, *, to: str = "router", timeout: float = 2.0, text: str = "?"
) -> None:
    guest.describe(Ask)
    guest.send(
        "SkerryRequest",
        number=number,
        typeName="Ask",
        handler=to,
        object=Ask(text=text).encode(),
        timeout=timeout,
    )


def answer(guest: Guest, number: int, text: str = "!") -> None:
    guest.describe(Answer)
    guest.send(
        "SkerryResponse",
        number=number,
        outcome=OUTCOMES["answered"],
        typeName="Answer",
        object=Answer(text=text).encode(),
    )


def given(guest: Guest) -> list[Any]:
    return guest.messages("SkerryRequest")


def outcomes(guest: Guest) -> list[tuple[int, str]]:
    return [(m.number, m.outcome.label) for m in guest.messages("SkerryResponse")]


def test_a_request_is_forwarded_to_its_handler_and_the_response_to_the_requester(
    harbour: Harbour,
) -> None:
    server, asker, other = (harbour.guest(name) for name in ("server", "asker", "other"))
    for each in (asker, other):
        each.join("/...")
        each.forget()
    serve(server)
    ask(asker, 77, text="where?")
    (request,) = given(server)
    assert request.typeName == "Ask"
    assert request.handler == "router"
    assert request.client == asker.client_id
    assert request.timeout == 2.0
    assert Ask.decode(request.object) == Ask(text="where?")
    answer(server, request.number, "there")
    (response,) = asker.messages("SkerryResponse")
    assert response.number == 77
    assert response.outcome.label == "answered"
    assert response.typeName == "Answer"
    assert Answer.decode(response.object) == Answer(text="there")
    assert asker.names().index("StructDescriptorData") < asker.names().index("SkerryResponse")
    assert other.messages("SkerryRequest") == other.messages("SkerryResponse") == []
    counts = harbour.node.statistics().requests
    assert (counts.asked, counts.ended, counts.open) == (1, {"answered": 1}, 0)


def test_the_type_of_a_request_is_described_to_the_handler_first(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    asker.describe(Ask)
    # It knows the name alone.
    server.send("SkerryClaim", number=1, event=EVENTS["claim"], typeName="Ask", handler="")
    ask(asker, to="")
    assert server.names().index("StructDescriptorData") < server.names().index("SkerryRequest")


def test_an_answer_may_have_no_object(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    server.send("SkerryResponse", number=given(server)[0].number, outcome=OUTCOMES["answered"])
    (response,) = asker.messages("SkerryResponse")
    assert (response.outcome.label, response.typeName, response.object) == ("answered", None, None)


def test_a_request_without_a_handler_fails_at_once(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker, 1, to="another")
    ask(asker, 2, to="")
    assert outcomes(asker) == [(1, "not_registered"), (2, "not_registered")]
    assert [m.reason for m in asker.messages("SkerryResponse")] == [
        "there is no handler for Ask under the name another",
        "there is no handler for Ask",
    ]


def test_a_handler_can_fail_a_request(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    for number in (1, 2):
        ask(asker, number)
    one, two = given(server)
    server.send("SkerryResponse", number=one.number, outcome=OUTCOMES["failed"], reason="no chart")
    # What only the node can know is not believed of it.
    server.send("SkerryResponse", number=two.number, outcome=OUTCOMES["timed_out"])
    assert outcomes(asker) == [(1, "failed"), (2, "failed")]
    assert [m.reason for m in asker.messages("SkerryResponse")] == ["no chart", "it failed"]


def test_a_former_handler_returns_a_request(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    release(server)
    number = given(server)[0].number
    server.send("SkerryResponse", number=number, outcome=OUTCOMES["not_registered"], reason="late")
    assert outcomes(asker) == [(1, "not_registered")]
    assert asker.messages("SkerryResponse")[0].reason == "late"


def give_back(guest: Guest, number: int) -> None:
    guest.send("SkerryResponse", number=number, outcome=OUTCOMES["not_registered"], reason="late")


def test_a_returned_request_is_forwarded_to_the_next_handler(harbour: Harbour) -> None:
    former, spare, asker = (harbour.guest(name) for name in ("former", "spare", "asker"))
    serve(former)
    serve(spare, event="standby")
    for number in (1, 2):
        ask(asker, number)
    release(former)
    for request in given(former):
        give_back(former, request.number)
    assert [request.number for request in given(spare)] == [1, 2]
    for request in given(spare):
        answer(spare, request.number)
    assert outcomes(asker) == [(1, "answered"), (2, "answered")]
    harbour.check()


def test_a_returned_request_waits_before_later_ones(harbour: Harbour) -> None:
    former, spare, asker, other = (harbour.guest(name) for name in ("a", "b", "c", "d"))
    serve(former)
    serve(spare, event="standby")
    ask(asker, 1)
    release(former)
    for number in range(REQUEST_WINDOW_COUNT + 1):
        ask(other, number)
    give_back(former, given(former)[0].number)
    answer(spare, given(spare)[0].number)
    assert given(spare)[-1].client == asker.client_id
    answer(spare, given(spare)[-1].number)
    assert outcomes(asker) == [(1, "answered")]
    assert given(spare)[-1].client == other.client_id


def test_a_returned_request_does_not_follow_a_later_one_of_its_client(
    harbour: Harbour,
) -> None:
    former, spare, asker = (harbour.guest(name) for name in ("former", "spare", "asker"))
    serve(former)
    serve(spare, event="standby")
    ask(asker, 1)
    release(former)
    ask(asker, 2)
    answer(spare, given(spare)[0].number)
    give_back(former, given(former)[0].number)
    assert outcomes(asker) == [(2, "answered"), (1, "not_registered")]
    assert len(given(spare)) == 1


def test_a_holder_that_returns_a_request_does_not_receive_it_again(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    give_back(server, given(server)[0].number)
    assert outcomes(asker) == [(1, "not_registered")]
    assert len(given(server)) == 1


def test_the_length_of_a_reason_is_limited(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    number, reason = given(server)[0].number, "x" * (REQUEST_REASON_CHAR_COUNT_MAX + 1)
    server.send("SkerryResponse", number=number, outcome=OUTCOMES["failed"], reason=reason)
    assert asker.messages("SkerryResponse")[0].reason == reason[:-1]


def test_the_size_of_requests_and_answers_is_limited(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = ClientLimits(waiting_bytes_max=3 * REQUEST_BYTES_MAX)
    harbour = make_harbour(admission=Admission(AdmissionConfig(limits=limits)))
    server, asker, watcher = (harbour.guest(name) for name in ("server", "asker", "watcher"))
    watcher.join("SkerryCall")
    serve(server)
    most = "x" * (REQUEST_BYTES_MAX - 7)
    ask(asker, 1, text=most)
    answer(server, given(server)[0].number, most)
    assert outcomes(asker) == [(1, "answered")]
    (call,) = watcher.messages("SkerryCall")
    assert (call.object, call.answer, call.answerType) == (None, None, "Answer")
    ask(asker, 2)
    answer(server, given(server)[1].number, most + "x")
    assert outcomes(asker)[1:] == [(2, "failed")]
    assert server.is_cut
    ask(asker, 3, text=most + "x")
    assert asker.is_cut
    assert not watcher.is_cut
    harbour.check()


def test_a_request_times_out_and_a_late_response_is_dropped(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker, timeout=0.25)
    assert harbour.node.deadline_ns() == harbour.now_ns + SECOND // 4
    harbour.wait(0.2)
    assert outcomes(asker) == []
    harbour.wait(0.05)
    assert outcomes(asker) == [(1, "timed_out")]
    answer(server, given(server)[0].number)
    assert outcomes(asker) == [(1, "timed_out")]
    assert harbour.node.statistics().requests.late == 1


def test_a_response_at_the_deadline_is_late(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker, timeout=0.25)
    number = given(server)[0].number
    # It is the first that the node hears at this time.
    harbour.now_ns += SECOND // 4
    server.send("SkerryResponse", number=number, outcome=OUTCOMES["answered"])
    assert outcomes(asker) == [(1, "timed_out")]
    assert harbour.node.statistics().requests.late == 1


def test_forwarded_requests_wait_half_a_second_for_a_disconnected_handler(
    harbour: Harbour,
) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker, 1, timeout=60)
    ask(asker, 2, timeout=0.1)
    server.vanish()
    harbour.wait(0.11)
    assert outcomes(asker) == [(2, "timed_out")]
    harbour.wait(0.38)
    assert outcomes(asker) == [(2, "timed_out")]
    harbour.wait(0.02)
    assert outcomes(asker) == [(2, "timed_out"), (1, "timed_out")]
    assert asker.messages("SkerryResponse")[-1].reason == "its handler disconnected"


def test_forwarded_requests_are_limited_and_the_rest_follows_in_order(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    for number in range(REQUEST_WINDOW_COUNT + 3):
        ask(asker, number, text=str(number))
    assert len(given(server)) == REQUEST_WINDOW_COUNT
    for request in given(server)[:2]:
        answer(server, request.number)
    texts = [Ask.decode(request.object).text for request in given(server)]
    assert texts == [str(number) for number in range(REQUEST_WINDOW_COUNT + 2)]


def test_a_busy_handler_does_not_delay_others(harbour: Harbour) -> None:
    slow, quick, asker = (harbour.guest(name) for name in ("slow", "quick", "asker"))
    serve(slow, "slow")
    serve(quick, "quick")
    for number in range(REQUEST_WINDOW_COUNT + 1):
        ask(asker, number, to="slow")
    ask(asker, 100, to="quick")
    answer(quick, given(quick)[0].number)
    assert outcomes(asker) == [(100, "answered")]


def test_a_handler_that_does_not_answer_receives_no_more_requests(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    for number in range(REQUEST_WINDOW_COUNT):
        ask(asker, number, timeout=0.1)
    harbour.wait(0.2)
    for number in range(100):
        ask(asker, number, timeout=0.1)
        harbour.wait(0.2)
    assert len(given(server)) == REQUEST_WINDOW_COUNT
    assert harbour.node.statistics().requests.ended == {"timed_out": REQUEST_WINDOW_COUNT + 100}
    ask(asker, 1000)
    answer(server, given(server)[0].number)
    assert len(given(server)) == REQUEST_WINDOW_COUNT + 1


def test_waiting_requests_of_a_disconnected_handler_pass_to_its_standby(harbour: Harbour) -> None:
    server, spare, asker = (harbour.guest(name) for name in ("server", "spare", "asker"))
    serve(server)
    serve(spare, event="standby")
    for number in range(REQUEST_WINDOW_COUNT + 2):
        ask(asker, number, text=str(number))
    server.vanish()
    assert [Ask.decode(r.object).text for r in given(spare)] == ["10", "11"]
    for request in given(spare):
        answer(spare, request.number)
    assert outcomes(asker) == [(10, "answered"), (11, "answered")]
    harbour.wait(0.5)
    assert {outcome for _, outcome in outcomes(asker)[2:]} == {"timed_out"}
    assert len(outcomes(asker)) == REQUEST_WINDOW_COUNT + 2


def test_waiting_requests_of_a_disconnected_handler_without_standby_fail(
    harbour: Harbour,
) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    for number in range(REQUEST_WINDOW_COUNT + 1):
        ask(asker, number)
    release(server)
    assert outcomes(asker) == [(REQUEST_WINDOW_COUNT, "not_registered")]
    # What it has it may still answer.
    answer(server, given(server)[0].number)
    assert outcomes(asker)[-1] == (0, "answered")


def test_a_former_handler_still_answers_forwarded_requests(harbour: Harbour) -> None:
    former, server, asker = (harbour.guest(name) for name in ("former", "server", "asker"))
    serve(former)
    for number in range(REQUEST_WINDOW_COUNT + 1):
        ask(asker, number)
    serve(server)
    assert len(given(server)) == 1
    answer(former, given(former)[0].number)
    answer(server, given(server)[0].number)
    assert outcomes(asker) == [(0, "answered"), (REQUEST_WINDOW_COUNT, "answered")]
    assert len(given(former)) == REQUEST_WINDOW_COUNT


def test_repeated_claims_without_responses_leave_nothing_behind(
    harbour: Harbour,
) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server, number=1)
    for number in range(2, 50):
        ask(asker, timeout=0.1)
        # The claim before is lost, and with it what was never answered.
        serve(server, number=number)
        harbour.wait(0.2)
    assert len(given(server)) == 48
    answer(server, given(server)[0].number)
    assert harbour.node.statistics().requests.late == 1
    requests = harbour.node._services.requests
    assert sum(len(calls) for calls in requests._forwarded.values()) == 0


def test_requests_of_a_disconnected_client_get_no_response(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    asker.vanish()
    answer(server, given(server)[0].number)
    harbour.wait(10)
    counts = harbour.node.statistics().requests
    assert (counts.asked, counts.abandoned, counts.ended, counts.late) == (1, 1, {}, 1)
    assert harbour.node._services.deadline_ns() is None


def test_a_response_of_another_client_is_ignored(harbour: Harbour) -> None:
    server, asker, rogue = (harbour.guest(name) for name in ("server", "asker", "rogue"))
    serve(server)
    ask(asker)
    answer(rogue, given(server)[0].number, "forged")
    assert outcomes(asker) == []
    answer(server, given(server)[0].number)
    answer(server, given(server)[0].number)
    assert outcomes(asker) == [(1, "answered")]
    assert harbour.node.statistics().requests.late == 2


def test_a_client_can_send_requests_to_itself(harbour: Harbour) -> None:
    both = harbour.guest()
    serve(both)
    ask(both, 5)
    answer(both, given(both)[0].number)
    assert outcomes(both) == [(5, "answered")]
    ask(both, 6)
    both.vanish()
    harbour.wait(1)


def test_a_request_without_the_right_to_publish_it_is_refused(
    make_harbour: Callable[..., Harbour],
) -> None:
    allowed = PermissionRule(client="limited", verbs=("publish",), subjects=("/Ask/router",))
    denied = PermissionRule(client="limited", verbs=("all",), subjects=("/...",), allow=False)
    others = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    config = AdmissionConfig(permission=(allowed, denied, others))
    harbour = make_harbour(admission=Admission(config))
    server, asker = harbour.guest("server"), harbour.guest("limited")
    serve(server, "router", 1)
    serve(server, "secret", 2)
    ask(asker, 1, to="router")
    ask(asker, 2, to="secret")
    assert outcomes(asker) == [(2, "refused")]
    assert asker.messages("SkerryResponse")[0].reason == "/Ask/secret: not permitted"
    assert len(given(server)) == 1
    assert harbour.node.statistics().refusals == {"request": 1}
    harbour.check()


def test_a_type_that_a_client_may_not_describe_is_refused(
    make_harbour: Callable[..., Harbour],
) -> None:
    denied = PermissionRule(client="limited", verbs=("all",), subjects=("/...",), allow=False)
    others = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=(denied, others))))
    asker = harbour.guest("limited")
    ask(asker)
    assert outcomes(asker) == [(1, "refused")]
    harbour.check()


def test_the_open_requests_of_a_client_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    config = AdmissionConfig(limits=ClientLimits(request_count_max=2))
    harbour = make_harbour(admission=Admission(config))
    server, asker, other = (harbour.guest(name) for name in ("server", "asker", "other"))
    serve(server)
    for number in (1, 2, 3):
        ask(asker, number)
    ask(other, 1)
    assert outcomes(asker) == [(3, "overflow")]
    assert outcomes(other) == []
    answer(server, given(server)[0].number)
    ask(asker, 4)
    assert outcomes(asker) == [(3, "overflow"), (1, "answered")]
    assert ClientLimits().request_count_max == REQUEST_COUNT_MAX
    harbour.check()


def test_the_bytes_of_open_requests_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    config = AdmissionConfig(limits=ClientLimits(waiting_bytes_max=10_000))
    harbour = make_harbour(admission=Admission(config))
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    for number in (1, 2, 3):
        ask(asker, number, text="x" * 4000)
    assert outcomes(asker) == [(3, "overflow")]
    answer(server, given(server)[0].number)
    ask(asker, 4, text="x" * 4000)
    assert outcomes(asker) == [(3, "overflow"), (1, "answered")]
    harbour.check()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"number": None}, "without number, typeName or object"),
        ({"typeName": None}, "without number, typeName or object"),
        ({"object": None}, "without number, typeName or object"),
        ({"timeout": None}, "its timeout is not between 0 and 3600 s"),
        ({"timeout": 0.0}, "its timeout is not between 0 and 3600 s"),
        ({"timeout": float("nan")}, "its timeout is not between 0 and 3600 s"),
        ({"timeout": REQUEST_TIMEOUT_S_MAX + 1}, "its timeout is not between 0 and 3600 s"),
        ({"typeName": "Nothing"}, "there is no type Nothing"),
    ],
)
def test_an_invalid_request_ends_the_connection(
    harbour: Harbour, fields: dict[str, Any], fault: str
) -> None:
    guest = harbour.guest()
    guest.describe(Ask)
    whole = {"number": 1, "typeName": "Ask", "object": Ask().encode(), "timeout": 1.0} | fields
    guest.send("SkerryRequest", **{k: v for k, v in whole.items() if v is not None})
    assert guest.fault == f"SkerryRequest: {fault}"
    assert harbour.node.statistics().requests.asked == 0


def test_a_trace_has_the_permitted_length_and_no_more(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.describe(Ask)
    for length, fault in (
        (TRACE_CONTEXT_CHAR_COUNT_MAX, ""),
        (TRACE_CONTEXT_CHAR_COUNT_MAX + 1, "its trace has more than 128 characters"),
    ):
        request = {"number": length, "typeName": "Ask", "object": Ask().encode(), "timeout": 1.0}
        guest.send("SkerryRequest", **request, trace="0" * length)
        assert fault in (guest.fault or "")
        assert bool(guest.fault) == bool(fault)


def test_a_number_that_is_in_use_ends_the_connection(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    ask(asker)
    assert asker.fault == "SkerryRequest: number 1 is in use"


def test_a_request_that_is_not_an_object_ends_the_connection_of_the_requester(
    harbour: Harbour,
) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    asker.describe(Ask)
    asker.send("SkerryRequest", number=1, typeName="Ask", object=b"\xff", timeout=1.0)
    assert asker.is_cut
    assert not server.is_cut
    assert given(server) == []


def test_a_name_that_is_too_long_ends_the_connection(harbour: Harbour) -> None:
    guest = harbour.guest()
    ask(guest, to="h" * HANDLER_NAME_BYTES_MAX)
    assert outcomes(guest) == [(1, "not_registered")]
    ask(guest, 2, to="h" * (HANDLER_NAME_BYTES_MAX + 1))
    assert guest.fault == "the name of a handler has 201 bytes, the limit is 200"


@pytest.mark.parametrize(
    "fields", [{"typeName": "Ask", "object": b"\xff"}, {"object": b"\xa0"}, {"typeName": "Ask"}]
)
def test_an_invalid_answer_fails_the_request_and_ends_the_connection_of_the_handler(
    harbour: Harbour, fields: dict[str, Any]
) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    number = given(server)[0].number
    server.send("SkerryResponse", number=number, outcome=OUTCOMES["answered"], **fields)
    assert server.is_cut
    assert outcomes(asker) == [(1, "failed")]
    assert not asker.is_cut


def test_an_answer_of_an_undescribed_type_fails(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    server.send(
        "SkerryResponse",
        number=given(server)[0].number,
        outcome=OUTCOMES["answered"],
        typeName="Unheard",
        object=b"\xa0",
    )
    assert not server.is_cut
    assert (
        asker.messages("SkerryResponse")[0].reason
        == "answer of type Unheard: there is no such type"
    )


def test_an_answer_of_a_type_that_the_handler_may_not_use_fails_with_a_reason(
    make_harbour: Callable[..., Harbour],
) -> None:
    may_serve = PermissionRule(client="server", verbs=("subscribe",), subjects=("Ask",))
    nothing_else = PermissionRule(client="server", verbs=("all",), subjects=("/...",), allow=False)
    others = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    config = AdmissionConfig(permission=(may_serve, nothing_else, others))
    harbour = make_harbour(admission=Admission(config))
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask(asker)
    answer(server, given(server)[0].number)
    assert not server.is_cut
    assert (
        asker.messages("SkerryResponse")[0].reason
        == "answer of type Answer: the handler may not use it"
    )


@pytest.mark.parametrize("fields", [{}, {"number": 1}])
def test_an_answer_without_number_or_outcome_ends_the_connection(
    harbour: Harbour, fields: dict[str, Any]
) -> None:
    guest = harbour.guest()
    guest.send("SkerryResponse", **fields)
    assert guest.fault == "SkerryResponse: without number or outcome"


def test_objects_are_forwarded_in_canonical_form(harbour: Harbour) -> None:
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    asker.describe(Ask)
    # Tag 2 before tag 1, a long head, and an unknown field.
    loose = b"\xa3\x02\x18\x05\x01\x61x\x18\x63\x01"
    asker.send(
        "SkerryRequest", number=1, typeName="Ask", handler="router", object=loose, timeout=1.0
    )
    assert given(server)[0].object == Ask(text="x", number=5).encode()


def test_monitors_receive_each_finished_request(harbour: Harbour) -> None:
    server, asker, watcher = (harbour.guest(name) for name in ("server", "asker", "watcher"))
    watcher.join("SkerryCall")
    serve(server)
    ask(asker, 1, text="where?")
    harbour.wait(0.25)
    answer(server, given(server)[0].number, "there")
    ask(asker, 2, to="nobody")
    call, other = watcher.messages("SkerryCall")
    assert (call.client, call.servedBy) == (asker.client_id, server.client_id)
    assert (call.typeName, call.handler, call.outcome.label) == ("Ask", "router", "answered")
    assert call.took == 0.25
    assert Ask.decode(call.object).text == "where?"
    assert (call.answerType, Answer.decode(call.answer).text) == ("Answer", "there")
    assert (other.outcome.label, other.servedBy) == ("not_registered", None)
    assert other.reason == "there is no handler for Ask under the name nobody"
    (item, _) = watcher.items("SkerryCall")
    assert item.header.subject == "/Ask/router"


def test_monitoring_requests_requires_the_right_to_subscribe_to_them(
    make_harbour: Callable[..., Harbour],
) -> None:
    denied = PermissionRule(
        client="watcher", verbs=("subscribe",), subjects=("/Ask/secret",), allow=False
    )
    others = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=(denied, others))))
    watcher, asker = harbour.guest("watcher"), harbour.guest("asker")
    watcher.join("SkerryCall")
    ask(asker, 1, to="secret")
    ask(asker, 2, to="open")
    assert [call.handler for call in watcher.messages("SkerryCall")] == ["open"]
    harbour.check()


def test_only_a_node_publishes_calls(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("SkerryCall")
    assert guest.refusals() == [
        ("publish", "SkerryCall: only the node publishes and removes its objects")
    ]


def test_requests_of_internal_types_are_refused(harbour: Harbour) -> None:
    guest = harbour.guest()
    content = internal_class("DotsClient")(id=1).encode()
    guest.send("SkerryRequest", number=1, typeName="DotsClient", object=content, timeout=1.0)
    (answer,) = guest.messages("SkerryResponse")
    assert answer.outcome.label == "refused"
    assert answer.reason == "DotsClient: requests of internal types are not served"


def test_requests_of_clients_without_extensions_end_the_connection(harbour: Harbour) -> None:
    for name in ("SkerryRequest", "SkerryResponse"):
        guest = harbour.plain(name)
        guest.send(name)
        assert guest.fault == f"{name}: without `extensions`"


# -- other definitions


def ask_by(guest: Guest, obj: Any, number: int = 1) -> None:
    guest.describe(type(obj))
    guest.send(
        "SkerryRequest",
        number=number,
        typeName=obj.descriptor.name,
        handler="router",
        object=obj.encode(),
        timeout=2.0,
    )


def answer_by(guest: Guest, number: int, obj: Any) -> None:
    guest.describe(type(obj))
    guest.send(
        "SkerryResponse",
        number=number,
        outcome=OUTCOMES["answered"],
        typeName=obj.descriptor.name,
        object=obj.encode(),
    )


def versions(ask: str, answer: str) -> Any:
    return skerry.define_types(
        f"struct Ask [cached=false] {{ 1: string text; {ask} }}"
        f" struct Answer [cached=false] {{ 1: string text; {answer} }}"
    )


@pytest.mark.parametrize("is_asker_old", [True, False])
def test_requests_and_answers_are_read_by_the_definition_of_each(
    is_asker_old: bool, harbour: Harbour
) -> None:
    old = versions("2: uint8 number;", "2: uint8 level;")
    new = versions("2: uint32 number; 3: bool more;", "2: uint32 level; 3: bool more;")
    mine, theirs = (old, new) if is_asker_old else (new, old)
    server, asker = harbour.guest("server"), harbour.guest("asker")
    server.describe(theirs.Ask)
    asker.describe(mine.Answer)
    server.send("SkerryClaim", number=1, event=EVENTS["claim"], typeName="Ask", handler="router")
    for number, value in ((1, 7), (2, 7 if is_asker_old else 300)):
        ask_by(asker, mine.Ask(text="?", number=value), number)
    first, second = given(server)
    assert theirs.Ask.decode(first.object) == theirs.Ask(text="?", number=7)
    assert theirs.Ask.decode(second.object).number == (7 if is_asker_old else None)
    answer_by(server, first.number, theirs.Answer(text="!", level=9))
    answer_by(server, second.number, theirs.Answer(text="!", level=300 if is_asker_old else 9))
    one, other = (mine.Answer.decode(m.object) for m in asker.messages("SkerryResponse"))
    assert one == mine.Answer(text="!", level=9)
    assert other.level == (None if is_asker_old else 9)


def test_a_request_by_an_incompatible_definition_is_refused(harbour: Harbour) -> None:
    odd = skerry.define_types("struct Ask [cached=false] { 1: uint32 text; }")
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    ask_by(asker, odd.Ask(text=7))
    assert given(server) == []
    (response,) = asker.messages("SkerryResponse")
    assert response.outcome.label == "refused"
    assert "Ask.text" in response.reason
    assert not asker.is_cut


def test_an_answer_by_an_incompatible_definition_fails_the_request(harbour: Harbour) -> None:
    odd = skerry.define_types("struct Answer [cached=false] { 1: uint32 text; }")
    server, asker = harbour.guest("server"), harbour.guest("asker")
    serve(server)
    asker.describe(Answer)
    ask(asker)
    (request,) = given(server)
    answer_by(server, request.number, odd.Answer(text=7))
    (response,) = asker.messages("SkerryResponse")
    assert response.outcome.label == "failed"
    assert "Answer.text" in response.reason
    assert not server.is_cut


def test_a_claim_survives_a_change_of_the_type(harbour: Harbour) -> None:
    grown = skerry.define_types("struct Boat { 1: [key] uint64 id; 2: string name; }").Boat
    owner, other = harbour.guest("owner"), harbour.guest("other")
    owner.publish(Boat(id=1))
    key = Boat(id=1).encode()
    owner.send("SkerryClaim", number=1, event=EVENTS["claim"], typeName="Boat", object=key)
    other.publish(grown(id=1, name="Mary"), grown(id=2, name="Anne"))
    assert [what for what, _ in other.refusals()] == ["publish"]
    assert harbour.cached(grown) == [grown(id=1), grown(id=2, name="Anne")]
    owner.publish(Boat(id=1))
    assert owner.refusals() == []
