"""Other permissions apply to clients that are connected."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filters import make_filter

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: uint32 id; }
    struct Whole { 1: [key] uint32 id; 2: Part part; }
    struct Shout [cached=false] { 1: string text; }
    struct Guard [cleanup] { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Part, Whole, Shout, Guard = TYPES.Boat, TYPES.Part, TYPES.Whole, TYPES.Shout, TYPES.Guard


def ids(guest: Guest) -> list[int]:
    return [boat.id for boat in guest.objects(Boat)]


HIDING = (
    PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="seer", allow=False),
    PermissionRule(verbs=("all",)),
)


def test_other_permissions_apply_at_once_to_connected_clients(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, viewer, maker, late = (harbour.guest(n) for n in ("seer", "viewer", "maker", "late"))
    plain = harbour.plain("plain")
    maker.publish(Boat(id=1))
    for guest in (seer, plain):
        guest.join("Boat")
    viewer.open_view(Boat, 1, where="id > 0")
    late.join("Car")
    silent = harbour.stranger("silent")
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("/Boat/hidden/...",), allow=False),
        PermissionRule(verbs=("publish",), subjects=("Boat",), client="maker"),
        PermissionRule(verbs=("subscribe",), subjects=("Car",)),
        PermissionRule(verbs=("subscribe",), subjects=("Boat",), client="other"),
    )
    harbour.node.renew_admission(AdmissionConfig(permission=rules), harbour.now_ns)
    harbour.pump()
    for guest in (seer, viewer, plain):
        assert guest.is_cut
        assert guest.fault == "Boat: not permitted any more"
    assert not late.is_cut
    maker.publish(Boat(id=2))
    maker.remove(Boat(id=2))
    assert maker.refusals() == [("remove", "Boat: not permitted")]
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2]
    assert not silent.is_cut
    silent.join("Boat")
    assert silent.refusals() == [("subscribe", "Boat: not permitted")]
    harbour.check()


def test_updates_under_subjects_that_became_hidden_are_not_delivered(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    seer.join("Boat")
    maker.publish(Boat(id=1), subject="/hidden/1")
    rules = (
        PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="seer", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour.node.renew_admission(AdmissionConfig(permission=rules), harbour.now_ns)
    maker.publish(Boat(id=1, name="x"), subject="/hidden/1")
    maker.publish(Boat(id=2))
    assert ids(seer) == [1, 2]
    assert not seer.is_cut
    assert harbour.row("Boat").refused == 1
    harbour.check()


def test_a_described_type_is_registered_when_the_client_may_use_it(
    make_harbour: Callable[..., Harbour],
) -> None:
    nobody = AdmissionConfig(permission=(PermissionRule(verbs=("clear",)),))
    harbour = make_harbour(admission=Admission(nobody, rng=Random(1)))
    guest = harbour.guest()
    guest.publish(Boat(id=1))
    assert guest.refusals() == [("publish", "Boat: not permitted")]
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; }").Boat
    second, broken = harbour.guest("second"), harbour.guest("broken")
    second.publish(other(id=1))
    part = internal_class("StructPropertyData")(name="x", tag=1, isKey=False, type="Missing")
    broken.send("StructDescriptorData", name="Wreck", properties=[part])
    assert "Missing" in broken.fault
    harbour.node.renew_admission(AdmissionConfig(), harbour.now_ns)
    guest.publish(Boat(id=2))
    assert [boat.id for boat in harbour.cached(Boat)] == [2]
    assert not guest.is_cut
    second.publish(other(id=3))
    assert [what for what, _ in second.refusals()] == ["publish"]
    assert [boat.id for boat in harbour.cached(Boat)] == [2, 3]
    assert harbour.node.statistics().conflict_count == 0
    harbour.check()


@pytest.mark.parametrize("listed_count_max", [0, 10_000])
def test_a_replay_in_progress_sends_nothing_that_became_hidden(
    listed_count_max: int,
    make_harbour: Callable[..., Harbour],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skerry.engine.services.joining.REPLAY_SORTED_COUNT_MAX", listed_count_max)
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for number in range(6):
        maker.post(Boat(id=number, name="x" * 40_000), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6), Boat(id=7))
    seer.pause()
    seer.join("Boat")
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    seer.resume()
    assert ids(seer) == [6, 7]
    assert seer.counts_down("Boat") == [1, 0]
    assert len(seer.messages("DotsCacheInfo")) == 1
    assert not seer.is_cut
    harbour.check()


def test_a_filtered_replay_in_progress_sends_nothing_that_became_hidden(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for number in range(6):
        maker.post(Boat(id=number, name="x" * 40_000), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6))
    seer.connection.join(
        "Boat", 0.0, subscription_id=1, filter_=make_filter(Boat.descriptor, "id >= 0", None)
    )
    harbour.carry()
    harbour.carry()
    notified = len(seer.items("Boat", 1))
    assert 0 < notified < 6
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    harbour.pump()
    assert [boat.id for boat in seer.objects(Boat, 1)][notified:] == [6]
    assert seer.counts_down("Boat", 1)[-1] == 0
    # What it knows goes when it changes, and of what it was not told it hears nothing.
    maker.publish(Boat(id=0, name="y"), subject="/hidden/0")
    maker.publish(Boat(id=5, name="y"), subject="/hidden/5")
    gone = [item for item in seer.items("Boat", 1) if item.header.remove_obj == 1]
    assert [Boat.decode(item.payload).id for item in gone] == [0]
    harbour.check()


@pytest.mark.parametrize("number", [None, 1])
def test_conflated_updates_that_became_hidden_are_not_sent(
    number: int | None, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    for cls in (Boat, Shout):
        maker.describe(cls)
        if number is None:
            seer.join(cls.descriptor.name, is_conflated=True)
        else:
            seer.open_view(cls, number, is_conflated=True)
    seer.pause()
    for turn in range(3):
        maker.post(Boat(id=1, name=f"{turn}" + "x" * 100_000), subject="/hidden/1")
    maker.publish(Boat(id=2))
    maker.publish(Shout(text="before"), subject="/hidden/2")
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    maker.publish(Boat(id=1, name="after"), subject="/hidden/1")
    seer.forget()
    seer.resume()
    assert "after" not in [boat.name for boat in seer.objects(Boat, number)]
    assert [boat.id for boat in seer.objects(Boat, number)][-1] == 2
    assert seer.objects(Shout, number) == []
    assert not seer.is_cut
    harbour.check()


def test_found_objects_that_became_hidden_are_not_sent(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    seer, maker = harbour.guest("seer"), harbour.guest("maker")
    harbour.node._table.by_id[seer.client_id].queue.work_max = 2
    for number in range(6):
        maker.post(Boat(id=number), subject=f"/hidden/{number}")
    maker.publish(Boat(id=6))
    wanted = make_filter(Boat.descriptor, "id >= 0", None)
    seer.connection.join("Boat", 0.0, subscription_id=1, filter_=wanted)
    harbour.carry()
    harbour.node.advance(harbour.now_ns)
    assert seer.items("Boat", 1) == []
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    harbour.pump()
    assert [boat.id for boat in seer.objects(Boat, 1)] == [6]
    assert seer.counts_down("Boat", 1) == [0]
    harbour.check()
