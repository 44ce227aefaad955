"""The node: who is cut when too much waits for the clients of one address."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig, ClientLimits, Origin
from skerry.engine.events import ClientDisconnected

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Buoy { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Buoy = TYPES.Boat, TYPES.Buoy


def limited(**limits: Any) -> Admission:
    return Admission(AdmissionConfig(limits=ClientLimits(**limits)), rng=Random(1))


def test_who_lets_most_wait_at_an_address_is_cut(make_harbour: Callable[..., Harbour]) -> None:
    limits = {"waiting_bytes_max": 10_000, "waiting_bytes_per_address_max": 11_000}
    harbour = make_harbour(admission=limited(**limits))
    here = Origin(kind="tcp", host="127.0.0.1")
    first, hog, other = (harbour.guest(name, origin=here) for name in ("first", "hog", "other"))
    maker = harbour.guest("maker")
    for guest, name in ((first, "Buoy"), (hog, "Boat"), (other, "Buoy")):
        guest.join(name)
        guest.pause()
    maker.publish(Boat(id=1, name="x" * 9000))
    maker.publish(Buoy(id=1, name="x" * 1500))
    assert [guest.is_cut_abruptly for guest in (first, hog, other)] == [False, True, False]
    (went,) = harbour.events(ClientDisconnected)
    assert (went.name, went.reason) == ("hog", "slow")
    for guest in (first, other):
        guest.resume()
        assert len(guest.objects(Buoy)) == 1
    harbour.check()


def test_who_came_first_is_cut_where_all_let_as_much_wait(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(waiting_bytes_per_address_max=5_000))
    here = Origin(kind="tcp", host="127.0.0.1")
    slow = [harbour.guest(f"slow {number}", origin=here) for number in range(3)]
    maker = harbour.guest("maker")
    for guest in slow:
        guest.join("Boat")
        guest.pause()
    maker.publish(Boat(id=1, name="x" * 2000))
    assert [guest.is_cut_abruptly for guest in slow] == [True, False, False]
    harbour.check()


def test_so_many_are_cut_that_the_others_of_an_address_have_room(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(waiting_bytes_per_address_max=10_000))
    here = Origin(kind="tcp", host="127.0.0.1")
    slow = [harbour.guest(f"slow {number}", origin=here) for number in range(4)]
    maker = harbour.guest("maker")
    for guest in slow:
        guest.join("Boat")
        guest.pause()
    maker.publish(Boat(id=1, name="x" * 2000))
    assert not any(guest.is_cut for guest in slow)
    limits = ClientLimits(waiting_bytes_per_address_max=5_000)
    harbour.node.renew_admission(AdmissionConfig(limits=limits), harbour.now_ns)
    maker.publish(Boat(id=1, name="y"))
    assert [guest.is_cut_abruptly for guest in slow] == [True, True, False, False]
    harbour.check()
