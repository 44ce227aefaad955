"""The node: how large an object, a frame and all unfinished frames may be."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.limits import SMALL_FRAME_BYTES_MAX
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Wreck { 1: [key] uint32 id; 2: string name; 3: string place; }
    """
)
Boat, Wreck = TYPES.Boat, TYPES.Wreck


def limited(**limits: Any) -> Admission:
    return Admission(AdmissionConfig(limits=ClientLimits(**limits)), rng=Random(1))


def test_the_size_of_an_update_is_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(update_bytes_max=500))
    guest = harbour.guest()
    guest.publish(Boat(id=1, name="x" * 490))
    assert not guest.is_cut
    plain, old = harbour.plain(), harbour.plain("old", wire=OldWire)
    for one in (guest, plain, old):
        one.publish(Boat(id=2), Boat(id=1, name="x" * 600), Boat(id=3))
    ((what, why),) = guest.refusals()
    assert (what, why[:30]) == ("publish", "Boat: an object of 607 bytes, ")
    assert "the limit is 500 (node.admission.limits.update_bytes_max)" in why
    assert plain.fault == old.fault == f"publish: {why}"
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2, 3]
    assert len(harbour.cached(Boat)[0].name) == 490
    harbour.check()


def test_updates_that_are_merged_stay_within_the_size_of_one(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(update_bytes_max=500))
    guest = harbour.guest()
    guest.publish(Wreck(id=1, name="x" * 300))
    guest.publish(Wreck(id=1, place="y" * 150))
    assert guest.refusals() == []
    guest.publish(Wreck(id=1, place="y" * 250))
    ((what, why),) = guest.refusals()
    assert what == "publish"
    assert "size of a merged object of Wreck in bytes (update_bytes_max)" in why
    assert len(harbour.cached(Wreck)[0].place) == 150


@pytest.mark.parametrize("version", [1, 2])
def test_a_frame_above_the_limit_is_skipped_and_refused(
    version: int, make_harbour: Callable[..., Harbour]
) -> None:
    """Its bytes are never kept, so a client that does not finish it holds no memory."""
    harbour = make_harbour(admission=limited(update_bytes_max=100_000))
    guest = harbour.guest() if version == 2 else harbour.plain(wire=OldWire)
    for boat in (Boat(id=1), Boat(id=2, name="x" * 200_000), Boat(id=3)):
        guest.post(boat)
    data = guest.connection.take_output()
    for start in range(0, len(data), 64_000):
        guest.say_bytes(data[start : start + 64_000])
        client = harbour.node.host.table.by_id.get(guest.client_id)
        assert client is None or client.connection.wire.held_bytes < 64_000
    if version == 2:
        ((what, why),) = guest.refusals()
        assert [boat.id for boat in harbour.cached(Boat)] == [1, 3]
    else:
        what, _, why = guest.fault.partition(": ")
        assert [boat.id for boat in harbour.cached(Boat)] == [1]
    assert what == "publish"
    assert why.startswith("Boat of 2000")
    assert "the limit is 100000 (node.admission.limits.update_bytes_max)" in why
    harbour.check()


@pytest.mark.parametrize("version", [1, 2])
def test_frames_are_small_until_a_client_is_accepted(
    version: int, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = make_harbour()
    stranger = harbour.stranger(wire=Wire if version == 2 else OldWire)
    wire = stranger.connection.wire
    header = Header("DotsMsgConnect")
    header.attributes = 0
    stranger.say_bytes(wire.frame(header, bytes(SMALL_FRAME_BYTES_MAX))[:5000])
    assert stranger.is_cut
    assert harbour.node.statistics().ends == {"too much": 1}


def test_frames_stay_small_for_a_client_that_may_not_publish(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",)),
        PermissionRule(verbs=("publish",), subjects=("Boat",), client="boat"),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules)))
    reader, writer = harbour.guest("reader"), harbour.guest("boat")
    writer.publish(Boat(id=1, name="x" * 70_000))
    assert writer.refusals() == []
    reader.publish(Boat(id=2, name="x" * 70_000))
    ((_, why),) = reader.refusals()
    assert f"bytes of a client that may not publish, the limit is {SMALL_FRAME_BYTES_MAX}" in why
    everything = (PermissionRule(verbs=("all",)),)
    harbour.node.renew_admission(AdmissionConfig(permission=everything), 0)
    reader.publish(Boat(id=2, name="x" * 70_000))
    assert [boat.id for boat in harbour.cached(Boat)] == [1, 2]


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("is_early", [True, False])
def test_a_large_object_is_copied_as_often_for_many_subscribers_as_for_one(
    make_harbour: Callable[..., Harbour], is_cached: bool, is_early: bool
) -> None:
    text = (
        f"struct Large [cached={str(is_cached).lower()}] {{ 1: [key] uint32 id; 2: bytes data; }}"
    )
    cls = skerry.define_types(text).Large
    harbour, size = make_harbour(admission=limited()), 5_000_000
    maker = harbour.guest("maker")
    subscribers = [harbour.guest(f"s{n}") for n in range(6)]
    for guest in subscribers:
        guest.join("Large")
    maker.publish(cls(id=1))
    if is_early:
        # The header of a large frame may be known already, or not.
        maker.publish(cls(id=1, data=b"x"))
    maker.post(cls(id=2, data=bytes(size)))
    data = maker.connection.take_output()
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    tracemalloc.start()
    for piece in pieces:
        harbour.node.receive(piece, maker.address, 0)
    sent = harbour.node.take_transmits()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # What was received, the object, and a frame that all subscribers share.
    assert peak < 3.3 * size
    assert len({id(transmit.data) for transmit in sent}) == 1
    for transmit in sent:
        harbour.guests[transmit.destination].hear(transmit.data)
    assert all(guest.objects(cls)[-1].data == bytes(size) for guest in subscribers)
