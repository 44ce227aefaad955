"""Changed permissions apply at once, and connected clients are reviewed in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import AdmissionConfig, PermissionRule
from skerry.engine.clients import Client
from skerry.limits import REPLAY_SLICE_BYTES, SELECT_SLICE_COUNT
from skerry.protocol.access.where.filters import make_filter

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

Boat: Any = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat
Car: Any = skerry.define_types("struct Car { 1: [key] uint32 id; }").Car
WITHOUT_BOATS = AdmissionConfig(
    permission=(
        PermissionRule(verbs=("subscribe",), subjects=("Boat",), client="reader*", allow=False),
        PermissionRule(verbs=("all",)),
    )
)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of groups of each check."""
    found: list[int] = []
    usual = Client.forbidden

    def forbidden(self: Client, groups: list[str]) -> str | None:
        found.append(len(groups))
        return usual(self, groups)

    monkeypatch.setattr(Client, "forbidden", forbidden)
    return found


def readers(harbour: Harbour, count: int) -> list[Guest]:
    made = [harbour.guest(f"reader-{number}") for number in range(count)]
    for guest in made:
        for number in range(40):
            guest.connection.join(f"/Other/{number}", 0.0)
        guest.connection.join("Boat", 0.0)
    harbour.pump()
    return made


def test_the_groups_of_many_clients_are_checked_in_turns(
    harbour: Harbour, checked: list[int]
) -> None:
    guests = readers(harbour, 60)
    harbour.node.renew_admission(WITHOUT_BOATS, 0)
    turn_count = 0
    while harbour.node._reviews:
        assert sum(checked) <= SELECT_SLICE_COUNT // 5 + 10
        checked.clear()
        assert harbour.node.deadline_ns() == harbour.node.now_ns
        harbour.node.advance(0)
        turn_count += 1
    assert turn_count >= 5
    harbour.pump()
    assert all(guest.is_cut for guest in guests)
    assert "Boat: not permitted any more" in guests[0].fault


@pytest.mark.parametrize("has_view", [False, True])
def test_a_client_that_is_not_checked_yet_receives_nothing_forbidden(
    harbour: Harbour, has_view: bool
) -> None:
    maker = harbour.guest("maker")
    maker.publish(Boat(id=1), Car(id=1))
    readers(harbour, 60)
    last = harbour.guest("reader-last")
    last.join("Car")
    if has_view:
        last.join("Boat", subscription_id=1, filter_=make_filter(Boat.descriptor, "id > 0"))
    else:
        last.join("Boat")
    number = 1 if has_view else None
    assert (len(last.objects(Boat, number)), len(last.objects(Car))) == (1, 1)
    harbour.node.renew_admission(WITHOUT_BOATS, 0)
    maker.post(Boat(id=2))
    maker.post(Car(id=2))
    harbour.node.receive(maker.connection.take_output(), maker.address, 0)
    harbour.carry()
    assert not last.is_cut
    assert (len(last.objects(Boat, number)), len(last.objects(Car))) == (1, 2)
    harbour.pump()
    assert last.is_cut


def test_a_replay_waits_for_the_check_and_goes_on_after_it(harbour: Harbour) -> None:
    maker = harbour.guest("maker")
    maker.publish(*(Boat(id=number, name="x" * 1000) for number in range(200)))
    readers(harbour, 60)
    late, lost = harbour.stranger("late"), harbour.stranger("reader-lost")
    for guest in (late, lost):
        harbour.carry()
        guest.connection.join("Boat", 0.0)
    harbour.carry()
    told = len(late.objects(Boat))
    assert 0 < told <= REPLAY_SLICE_BYTES // 1000 + 1
    harbour.node.renew_admission(WITHOUT_BOATS, 0)
    # What was queued before.
    harbour.carry()
    before = len(lost.objects(Boat))
    assert before < 200
    harbour.node.advance(0)
    harbour.carry()
    assert len(lost.objects(Boat)) == before
    harbour.pump()
    assert len(late.objects(Boat)) == 200
    assert lost.is_cut


def test_changing_the_permissions_again_restarts_the_review(harbour: Harbour) -> None:
    guests = readers(harbour, 60)
    harbour.node.renew_admission(WITHOUT_BOATS, 0)
    harbour.node.renew_admission(AdmissionConfig(), 0)
    harbour.pump()
    assert sum(guest.is_cut for guest in guests) <= SELECT_SLICE_COUNT // 200
    assert not any(client.is_under_review for client in harbour.node._clients.values())
