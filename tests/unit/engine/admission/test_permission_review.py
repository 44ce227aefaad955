"""Changed permissions apply at once, and connected clients are reviewed in slices."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
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
        assert harbour.node.deadline_ns() == harbour.node.host.clock.now_ns
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
    notified = len(late.objects(Boat))
    assert 0 < notified <= REPLAY_SLICE_BYTES // 1000 + 1
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
    assert not any(client.is_under_review for client in harbour.node._table.by_address.values())


def hiding(*subjects: str) -> AdmissionConfig:
    return AdmissionConfig(
        permission=(
            PermissionRule(verbs=("all",), subjects=subjects, client="reader", allow=False),
            PermissionRule(verbs=("all",)),
        )
    )


HIDING = hiding("/hidden/...")
KINDS = ["whole", "picked", "filtered"]


def begin(harbour: Harbour, reader: Guest, kind: str) -> None:
    """Begin a replay of boats to a paused reader: of all, of those it may see, or of a filter."""
    if kind == "picked":
        harbour.node.renew_admission(hiding("/other/..."), 0)
    reader.pause()
    if kind == "filtered":
        wanted = make_filter(Boat.descriptor, "id >= 0")
        reader.connection.join("Boat", 0.0, subscription_id=1, filter_=wanted)
    else:
        reader.connection.join("Boat", 0.0)
    harbour.carry()


def shown(reader: Guest, kind: str) -> list[Any]:
    return reader.objects(Boat, 1 if kind == "filtered" else None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_examined", [True, False])
def test_hidden_objects_are_excluded_from_a_large_replay_in_slices(
    harbour: Harbour, kind: str, is_examined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    count = 3 * SELECT_SLICE_COUNT
    for number in range(count):
        subject = "/hidden/boat" if number % 3 else ""
        maker.post(Boat(id=number), subject=subject)
    harbour.pump()
    client = harbour.node._table.by_id[reader.client_id]
    client.queue.work_max = count if is_examined else SELECT_SLICE_COUNT
    begin(harbour, reader, kind)
    if is_examined:
        client.queue.begin_turn()
        client.agenda[0].step(0.0)
    asked: list[str] = []
    for module in ("dispatch.routing", "delivery.filtered_subscription"):
        name = f"skerry.engine.{module}.may_see"

        def seen(client: Client, subject: str) -> bool:
            asked.append(subject)
            return not subject

        monkeypatch.setattr(name, seen)
    harbour.node.renew_admission(HIDING, 0)
    largest = len(asked)
    while harbour.node._reviews:
        asked.clear()
        harbour.node.advance(0)
        largest = max(largest, len(asked))
    assert largest <= SELECT_SLICE_COUNT + 200
    monkeypatch.undo()
    reader.resume()
    harbour.pump()
    sent = [boat.id for boat in shown(reader, kind)]
    hidden = [number for number in sent if number % 3]
    # Some were queued for the client before the permissions changed.
    assert len(hidden) <= REPLAY_SLICE_BYTES // 10
    assert [number for number in sent if number % 3 == 0] == list(range(0, count, 3))
    assert reader.counts_down("Boat", 1 if kind == "filtered" else None)[-1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_hidden_is_sent_while_objects_are_excluded(kind: str, harbour: Harbour) -> None:
    count = 2 * SELECT_SLICE_COUNT
    for seed in range(3):
        harbour.node.renew_admission(AdmissionConfig(), 0)
        rng = Random(seed)
        number = 1 if kind == "filtered" else None
        maker, reader = harbour.guest("maker"), harbour.guest("reader")
        slow = harbour.node._table.by_id[reader.client_id].queue
        slow.work_max = 2 * count if seed % 2 else 150

        def publish(key: int, rng: Random = rng, maker: Guest = maker) -> None:
            is_hidden = rng.random() < 0.5
            boat = Boat(id=key, name="hidden" if is_hidden else "open")
            maker.post(boat, subject="/hidden/boat" if is_hidden else "")

        for key in range(count):
            publish(key)
        harbour.pump()
        begin(harbour, reader, kind)
        if seed % 3:
            slow.begin_turn()
            harbour.node._table.by_id[reader.client_id].agenda[0].step(0.0)
        # Some are queued for the client before the permissions change.
        before = int(slow.queued_count)
        harbour.node.renew_admission(HIDING, 0)
        while harbour.node._reviews:
            for _ in range(rng.randrange(1000)):
                key = rng.randrange(count)
                if rng.random() < 0.2:
                    maker.post(Boat(id=key), is_remove=True)
                else:
                    publish(key)
            harbour.node.receive(maker.connection.take_output(), maker.address, 0)
            harbour.node.advance(0)
        reader.resume()
        harbour.pump()
        later = reader.items("Boat", number)[before:]
        assert all(Boat.decode(item.payload).name != "hidden" for item in later), seed
        assert not reader.is_cut
        cached = {boat.id for boat in harbour.cached(Boat) if boat.name == "open"}
        known = {boat.id for boat in reader.sees(Boat, number).values() if boat.name == "open"}
        assert known >= cached, seed
        reader.goodbye()
        maker.send("DotsClearCache", typeNames=["Boat"])
        maker.goodbye()
