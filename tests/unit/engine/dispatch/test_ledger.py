"""The ledger: every update that was due to a client is accounted for, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.dispatch.client_queue import Tally
from skerry.engine.dispatch.ledger import LedgerRow, NodeStatistics, TypeRow, ledger_row

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

Boat = skerry.define_types(
    "struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }"
).Boat
BULK = "x" * 40_000


def test_a_row_shows_updates_that_are_not_accounted_for() -> None:
    row = LedgerRow(due=21, delivered=1, filtered=2, conflated=3, expired=4, refused=5, queued=6)
    assert row.unexplained == 0
    assert LedgerRow(due=3, delivered=1).unexplained == 2
    assert LedgerRow(due=1, delivered=3).unexplained == -2


def test_what_is_missing_and_what_is_too_much_do_not_make_up_for_each_other() -> None:
    rows = [
        TypeRow(name=str(n), object_count=0, accepted=0, member_count=0, ledger=ledger)
        for n, ledger in enumerate([LedgerRow(due=2), LedgerRow(delivered=2)])
    ]
    counts = dict.fromkeys(
        [f for f in NodeStatistics.__dataclass_fields__ if f.endswith(("_count", "_bytes"))], 0
    )
    statistics = NodeStatistics(started_ns=0, storage_trouble="", types=tuple(rows), **counts)  # type: ignore[arg-type]
    assert statistics.unexplained == 4


def test_a_row_has_the_numbers_of_its_tally() -> None:
    tally = Tally()
    tally.due, tally.delivered, tally.filtered = 10, 1, 2
    tally.conflated, tally.expired, tally.refused = 3, 1, 1
    row = ledger_row(tally, 2)
    assert row == LedgerRow(
        due=10, delivered=1, filtered=2, conflated=3, expired=1, refused=1, queued=2
    )


def test_delivered_filtered_and_queued_updates_are_counted_separately(harbour: Harbour) -> None:
    watcher, slow, maker = harbour.guest("watcher"), harbour.guest("slow"), harbour.guest("maker")
    maker.describe(Boat)
    watcher.join("Boat")
    watcher.open_view(Boat, 1, where="speed > 5")
    slow.join("Boat")
    slow.pause()
    maker.publish(Boat(id=1, speed=1), Boat(id=2, speed=9))
    row = harbour.row("Boat")
    assert row == LedgerRow(due=6, delivered=3, filtered=1, queued=2)
    clients = {client.name: client for client in harbour.node.statistics().clients}
    assert clients["watcher"].ledger.due >= 4
    assert clients["slow"].ledger.queued == clients["slow"].queued_count == 2
    assert clients["maker"].accepted == 3, "a description and two objects"
    slow.resume()
    assert harbour.row("Boat") == LedgerRow(due=6, delivered=5, filtered=1)


def test_conflated_and_expired_updates_are_counted_separately(harbour: Harbour) -> None:
    slow, maker = harbour.guest("slow"), harbour.guest("maker")
    slow.join("Boat", is_conflated=True)
    slow.pause()
    for speed in range(6):
        maker.publish(Boat(id=1, name=BULK, speed=speed))
    row = harbour.row("Boat")
    assert (row.due, row.queued, row.conflated) == (6, 6, 0)
    slow.resume()
    row = harbour.row("Boat")
    assert (row.due, row.queued, row.delivered, row.conflated) == (6, 0, 3, 3)
    slow.pause()
    maker.publish(Boat(id=2), Boat(id=3))
    slow.vanish()
    row = harbour.row("Boat")
    assert (row.due, row.queued, row.delivered, row.expired) == (8, 0, 3, 2)


def test_updates_that_a_client_may_not_receive_are_counted_as_refused(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("/secret/...",), client="low", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)))
    low, maker = harbour.guest("low"), harbour.guest("maker")
    low.join("Boat")
    maker.publish(Boat(id=1))
    maker.publish(Boat(id=2), subject="/secret/2")
    assert [boat.id for boat in low.objects(Boat)] == [1]
    assert harbour.row("Boat") == LedgerRow(due=2, delivered=1, refused=1)
    harbour.check()


@pytest.mark.parametrize("is_orderly", [True, False])
def test_clients_that_are_gone_leave_no_hole(is_orderly: bool, harbour: Harbour) -> None:
    watcher, maker = harbour.guest("watcher"), harbour.guest("maker")
    watcher.join("/...")
    maker.publish(Boat(id=1))
    watcher.pause()
    maker.publish(Boat(id=1), Boat(id=2))
    if is_orderly:
        watcher.goodbye()
    else:
        watcher.vanish()
    harbour.check()
    row = harbour.row("Boat")
    assert (row.due, row.queued) == (3, 0)
    assert row.delivered + row.expired == 3
