"""Wrong secrets: the next one of the same address waits, longer each time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.secret_delays import (
    ATTEMPT_ADDRESS_COUNT_MAX,
    ATTEMPT_DELAY_S_MAX,
    ATTEMPT_WAITING_COUNT_MAX,
    SecretDelays,
)
from skerry.engine.events import ClientDisconnected

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

BAD = Origin(kind="tcp", host="10.0.0.66")
GOOD = Origin(kind="tcp", host="10.0.0.1")


@pytest.fixture
def guarded(make_harbour: Callable[..., Harbour]) -> Any:
    config = AdmissionConfig(authentication=(AuthenticationRule(secret="sesame"),))
    harbour = make_harbour(admission=Admission(config, rng=Random(1)))
    yield harbour
    harbour.check()


def is_in(guest: Guest) -> bool:
    return guest.connection.stage.name == "CONNECTED"


def guess(harbour: Harbour, origin: Origin = BAD, secret: str = "guess") -> Guest:
    return harbour.guest(f"guest{len(harbour.guests)}", origin=origin, secret=secret)


def test_after_a_wrong_secret_the_next_one_of_its_address_waits(guarded: Harbour) -> None:
    assert guess(guarded).is_cut
    second = guess(guarded)
    assert not second.is_cut
    guarded.wait(0.2)
    assert not second.is_cut
    guarded.wait(0.1)
    assert second.is_cut


def test_right_secrets_of_that_address_wait_as_well(guarded: Harbour) -> None:
    guess(guarded)
    right = guess(guarded, secret="sesame")
    assert not is_in(right)
    guarded.wait(0.3)
    assert is_in(right)


def test_other_addresses_unix_sockets_and_connected_clients_do_not_wait(guarded: Harbour) -> None:
    before = guess(guarded, secret="sesame")
    for _ in range(5):
        guess(guarded)
    assert is_in(guess(guarded, GOOD, "sesame"))
    assert is_in(guarded.guest("unix", origin=Origin(kind="unix")))
    before.echo(1)
    assert len(before.messages("DotsEcho")) == 1


def test_the_delay_grows_up_to_a_limit_and_each_wrong_secret_is_reported(guarded: Harbour) -> None:
    delays = []
    for _ in range(9):
        guest = guess(guarded)
        began_ns = guarded.now_ns
        while not guest.is_cut:
            guarded.wait(0.25)
        delays.append((guarded.now_ns - began_ns) / 1e9)
    assert delays == [0, 0.25, 0.5, 1, 2, 4, *[ATTEMPT_DELAY_S_MAX] * 3]
    events = [event for event in guarded.events(ClientDisconnected) if event.reason == "rejected"]
    assert len(events) == 9
    assert {event.host for event in events} == {BAD.host}
    assert "number 9 of this address; the next one waits 8 s" in events[-1].detail


def test_parallel_guesses_are_checked_one_after_the_other(guarded: Harbour) -> None:
    guests = [guess(guarded) for _ in range(4)]
    assert [guest.is_cut for guest in guests] == [True, False, False, False]
    guarded.wait(0.25)
    assert [guest.is_cut for guest in guests] == [True, True, False, False]
    guarded.wait(0.25)
    assert [guest.is_cut for guest in guests] == [True, True, False, False]
    guarded.wait(0.25)
    assert [guest.is_cut for guest in guests] == [True, True, True, False]


def test_after_a_right_secret_the_next_one_is_checked_at_once(guarded: Harbour) -> None:
    guess(guarded)
    guests = [guess(guarded, secret="sesame") for _ in range(3)]
    guarded.wait(0.25)
    assert all(is_in(guest) for guest in guests)


def test_wrong_secrets_are_forgotten_after_a_while(guarded: Harbour) -> None:
    for _ in range(6):
        guess(guarded)
        guarded.wait(10)
    guarded.wait(601)
    assert guess(guarded).is_cut
    assert "number 1 of this address" in guarded.events(ClientDisconnected)[-1].detail


def test_disconnected_clients_are_skipped(guarded: Harbour) -> None:
    guess(guarded)
    for _ in range(3):
        guess(guarded).vanish()
    right = guess(guarded, secret="sesame")
    guarded.wait(0.25)
    assert is_in(right)


def test_the_waiting_clients_of_one_address_are_limited(guarded: Harbour) -> None:
    guests = [guess(guarded) for _ in range(ATTEMPT_WAITING_COUNT_MAX + 2)]
    assert [guest.is_cut for guest in guests] == [
        True,
        *[False] * ATTEMPT_WAITING_COUNT_MAX,
        True,
    ]
    assert "too many clients of this address wait" in str(guests[-1].inputs[-1])
    guests[1].vanish()
    assert not guess(guarded).is_cut, "there is room for one"


def test_a_second_handshake_is_rejected_while_the_first_waits(guarded: Harbour) -> None:
    guess(guarded)
    guest = guess(guarded)
    guest.send("DotsMsgConnect", clientName="again", preloadCache=False)
    assert guest.is_cut


def test_remembered_addresses_are_limited() -> None:
    attempts = SecretDelays()
    for number in range(ATTEMPT_ADDRESS_COUNT_MAX + 10):
        attempts.failed(
            Origin(kind="tcp", host=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"), 0
        )
    assert len(attempts) == ATTEMPT_ADDRESS_COUNT_MAX


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    attempts = SecretDelays()
    attempts.failed(Origin(kind="tcp", host="2001:db8::1"), 0)
    assert attempts.must_wait(Origin(kind="tcp", host="2001:db8::ffff:1"), 1)
    assert not attempts.must_wait(Origin(kind="tcp", host="2001:db8:0:1::1"), 1)
    attempts.failed(Origin(kind="tcp", host="::ffff:10.0.0.1"), 0)
    assert attempts.must_wait(GOOD, 1)
    assert not attempts.must_wait(BAD, 1)
