"""Claims: made, reported, released, and sent again on the next connection."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.core import claims as module
from skerry.client.core.claims import Claim, Claims, ClaimState
from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import CLAIM_COUNT_MAX, PAYLOAD_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import Ask, Vessel


def connection() -> ClientConnection:
    return ClientConnection(Wire(), name="c", cnonce="1")


def sent(to: ClientConnection) -> list[Any]:
    data = to.take_output()
    return [
        internal_class("SkerryClaim").decode(payload) if header.type_name == "SkerryClaim" else None
        for header, payload in (Wire().feed(data) if data else [])
    ]


def report_state(claims: Claims, claim: Claim, state: str, reason: str | None = None) -> None:
    states = internal_class("SkerryClaimState")
    message = internal_class("SkerryClaimed")(
        number=claim.number, state=states[state], reason=reason
    )
    claims.claimed(message)


class Changes:
    """Collects the states of a claim."""

    def __init__(self, **facts: Any) -> None:
        self.states: list[str] = []
        self.claim = Claim(on_change=self.note, **{"type_": Ask.descriptor, "handler": "", **facts})

    def note(self) -> None:
        self.states.append(str(self.claim.state))


def owned(number: int) -> Claim:
    key = Vessel(mmsi=number)
    return Claim(
        type_=Vessel.descriptor,
        key=number,
        canonical_key=key.encode(),
        payload=key.encode(),
        on_change=lambda: None,
    )


def test_type_is_described_before_it_is_claimed() -> None:
    claims, node = Claims(), connection()
    claims.connected(node, 1.0)
    first = Changes(handler="router", is_standby=True).claim
    claims.begin([first, owned(7)], 1.0)
    described, one, also_described, two = sent(node)
    assert described is also_described is None
    assert (one.event.label, one.typeName, one.handler) == ("standby", "Ask", "router")
    assert one.object is None
    assert (two.event.label, two.typeName, two.handler) == ("claim", "Vessel", None)
    assert Vessel.decode(two.object) == Vessel(mmsi=7)
    assert one.number != two.number


def test_handler_without_a_name_is_still_a_handler() -> None:
    claims, node = Claims(), connection()
    claims.connected(node, 1.0)
    claims.begin([Changes().claim], 1.0)
    assert sent(node)[-1].handler == ""


def test_each_change_is_reported_once() -> None:
    claims, seen = Claims(), Changes(is_standby=True)
    claims.connected(connection(), 1.0)
    claims.begin([seen.claim], 1.0)
    for state in ("standby", "standby", "held", "standby", "held"):
        report_state(claims, seen.claim, state)
    assert seen.states == ["standby", "held", "standby", "held"]


@pytest.mark.parametrize("state", ["lost", "refused"])
def test_ended_claim_is_forgotten(state: str) -> None:
    claims, seen = Claims(), Changes()
    claims.connected(connection(), 1.0)
    claims.begin([seen.claim], 1.0)
    report_state(claims, seen.claim, state, "taken over")
    report_state(claims, seen.claim, "held")
    assert seen.states == [state]
    assert seen.claim.reason == "taken over"
    assert len(claims) == 0
    node = connection()
    claims.connected(node, 1.0)
    assert sent(node) == []
    claims.begin([Changes().claim], 1.0)


def test_released_claim_is_sent_to_the_node_without_a_callback() -> None:
    claims, seen, node = Claims(), Changes(), connection()
    claims.connected(node, 1.0)
    claims.begin([seen.claim], 1.0)
    sent(node)
    claims.release(seen.claim, 1.0)
    claims.release(seen.claim, 1.0)
    (release,) = sent(node)
    assert (release.event.label, release.number) == ("release", seen.claim.number)
    report_state(claims, seen.claim, "held")
    assert seen.claim.state == "closed"
    assert seen.states == []


def test_claims_are_sent_again_in_order_after_a_lost_connection() -> None:
    claims, seen, node = Claims(), Changes(), connection()
    claims.connected(connection(), 1.0)
    claims.begin([seen.claim, owned(1), owned(2)], 1.0)
    report_state(claims, seen.claim, "held")
    for reports in claims.disconnected():
        reports()
    assert seen.states == ["held", "asked"]
    assert claims.disconnected() == (), "those that were asked for anyway did not change"
    claims.begin([owned(3)], 1.0)
    claims.connected(node, 1.0)
    made = [message for message in sent(node) if message is not None]
    assert [Vessel.decode(m.object).mmsi for m in made[1:]] == [1, 2, 3]
    assert made[0].typeName == "Ask"


def test_shared_callback_of_claims_is_called_once() -> None:
    claims, seen = Claims(), Changes()
    reports = seen.note
    shared = [
        Claim(type_=Vessel.descriptor, canonical_key=bytes([n]), payload=b"\xa0", on_change=reports)
        for n in range(3)
    ]
    claims.begin([seen.claim, *shared], 1.0)
    assert claims.end() == (reports,)
    assert {claim.state for claim in shared} == {ClaimState.CLOSED}
    assert len(claims) == 0


def test_claim_is_made_once_and_several_all_or_none() -> None:
    claims = Claims()
    claims.begin([Changes().claim, owned(1)], 1.0)
    with pytest.raises(LocalProtocolError, match="already claimed Vessel 1") as caught:
        claims.begin([owned(2), owned(1)], 1.0)
    assert caught.value.hint is not None
    assert len(claims) == 2
    claims.begin(
        [owned(2), Changes(handler="other").claim, Changes(type_=Vessel.descriptor).claim], 1.0
    )


def test_claims_are_limited() -> None:
    claims = Claims()
    claims.begin([owned(number) for number in range(CLAIM_COUNT_MAX)], 1.0)
    with pytest.raises(LimitExceeded, match="count of claims"):
        claims.begin([Changes().claim], 1.0)
    assert len(claims) == CLAIM_COUNT_MAX


@pytest.mark.slow
def test_key_that_does_not_fit_into_a_message_is_refused_locally() -> None:
    claims = Claims()
    seen = Changes(handler=None, canonical_key=b"x", payload=b"x" * PAYLOAD_BYTES_MAX)
    claims.begin([seen.claim], 1.0)
    claims.connected(connection(), 1.0)
    assert seen.states == ["refused"]
    assert "the limit is" in seen.claim.reason


def test_numbers_restart_after_the_last() -> None:
    claims = Claims()
    claims._last_number = module._NUMBER_MAX - 1
    first, second = owned(1), owned(2)
    claims.begin([first, second], 1.0)
    assert (first.number, second.number) == (module._NUMBER_MAX, 1)


def test_only_handlers_are_found_for_requests() -> None:
    claims = Claims()
    everything = Claim(type_=Ask.descriptor, on_change=lambda: None)
    claims.begin([everything, owned(1)], 1.0)
    assert claims.service("Ask", "") is None
    claims.begin([Changes().claim], 1.0)
    found = claims.service("Ask", "")
    assert found is not None
    assert str(found) == "requests Ask"
    assert str(everything) == "all objects of Ask"
    assert str(Changes(handler="router").claim) == "requests Ask as router"
