"""The node: who is cut when too much waits for the clients of one address."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.events import ClientDisconnected

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour
from skerry.engine.admission.permissions import PermissionRule

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


def begin(guest: Guest, size: int) -> None:
    """Send all but the last byte of a frame of about so many bytes."""
    guest.post(Boat(id=1, name="x" * size))
    guest.say_bytes(guest.connection.take_output()[:-1])


def come(harbour: Harbour, name: str, host: str) -> Guest:
    return harbour.guest(name, origin=Origin(kind="tcp", host=host))


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Buoy { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Buoy = TYPES.Boat, TYPES.Buoy


def limited(**limits: Any) -> Admission:
    return Admission(AdmissionConfig(limits=ClientLimits(**limits)), rng=Random(1))


def test_the_client_with_the_largest_queue_of_an_address_is_disconnected(
    make_harbour: Callable[..., Harbour],
) -> None:
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


def test_among_equal_clients_the_first_one_is_disconnected(
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


def test_as_many_clients_are_disconnected_as_the_limit_of_an_address_requires(
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


def test_of_an_address_the_client_with_the_largest_unfinished_frame_is_cut(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = {"update_bytes_max": 100_000, "unfinished_bytes_per_address_max": 215_000}
    harbour = make_harbour(admission=limited(**limits))
    small, large, last = (come(harbour, name, "127.0.0.2") for name in ("a", "b", "c"))
    other = come(harbour, "other", "127.0.0.3")
    for guest, size in ((small, 50_000), (large, 90_000), (other, 90_000), (last, 55_000)):
        begin(guest, size)
    assert [guest.is_cut for guest in (small, large, last, other)] == [False, True, False, False]
    assert "bytes of unfinished frames of address 127.0.0.2" in large.fault
    assert "(unfinished_bytes_per_address_max) is 220" in large.fault
    small.say_bytes(b"x")
    begin(last, 10)
    assert [boat.id for boat in harbour.cached(Boat)] == [1]


def test_strangers_of_all_addresses_leave_a_reserve_of_unfinished_bytes(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = {"update_bytes_max": 100_000, "unfinished_bytes_per_node_max": 1_140_000}
    harbour = make_harbour(admission=limited(**limits))
    strangers = [come(harbour, f"s{n}", f"10.0.0.{n}") for n in range(20)]
    harbour.node.renew_admission(
        AdmissionConfig(
            permission=(PermissionRule(verbs=("all",)),), limits=ClientLimits(**limits)
        ),
        0,
    )
    local = harbour.guest("local", origin=Origin(kind="unix"))
    begin(local, 95_000)
    for guest in strangers:
        begin(guest, 95_000)
    assert not local.is_cut
    assert sum(not guest.is_cut for guest in strangers) == 8, "90 % of all, with the local one"
    second = harbour.guest("second", origin=Origin(kind="unix"))
    begin(second, 95_000)
    assert not second.is_cut
    for guest in strangers:
        guest.vanish()
    begin(come(harbour, "late", "10.0.0.1"), 95_000)
    assert not harbour.guests[list(harbour.guests)[-1]].is_cut


def ask(guest: Guest, number: int) -> None:
    """Send a request that no program handles; the response says so."""
    data = Buoy(id=number).encode()
    guest.send("SkerryRequest", number=number, typeName="Buoy", object=data, timeout=1.0)


def test_a_client_that_reads_no_responses_is_disconnected(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(waiting_bytes_max=10_000))
    asker = harbour.guest("asker")
    asker.describe(Buoy)
    asker.pause()
    number = 0
    while not asker.is_cut_abruptly and number < 1000:
        number += 1
        ask(asker, number)
    (went,) = harbour.events(ClientDisconnected)
    assert (went.name, went.reason) == ("asker", "slow")
    assert 20 < number < 1000
    harbour.check()


def test_a_client_with_too_many_copies_of_one_object_is_disconnected(
    make_harbour: Callable[..., Harbour],
) -> None:
    """Its subscriptions would take any amount of memory before it is known to be slow."""
    harbour = make_harbour(admission=limited(waiting_bytes_max=1_000))
    hog, other, maker = (harbour.guest(name) for name in ("hog", "other", "maker"))
    maker.describe(Boat)
    for guest, count in ((hog, 12), (other, 5)):
        for number in range(count):
            guest.open_view(Boat, number + 1, where="id > 0")
    maker.publish(Boat(id=1, name="x" * 1_500))
    assert (hog.is_cut_abruptly, other.is_cut) == (True, False)
    (went,) = harbour.events(ClientDisconnected)
    assert (went.name, went.reason) == ("hog", "slow")
    assert hog.objects(Boat, 1) == [], "nothing of it was sent"
    assert [len(other.objects(Boat, number + 1)) for number in range(5)] == [1] * 5
    harbour.check()
