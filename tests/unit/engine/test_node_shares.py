"""The node: an address has its share, and strangers never lock out those who are trusted."""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.admission.shared_quotas import Resource
from skerry.engine.delivery.filtered_subscription import FilteredSubscription
from skerry.engine.delivery.group_members import CONFLATE_BYTES
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.routing import ROUTE_MEMO_SIZE_MAX, Routing
from skerry.engine.events import ClientDisconnected
from skerry.engine.types.type_descriptions import DESCRIPTION_MEMORY_FACTOR
from skerry.limits import GROUP_COUNT_MAX, TYPE_COUNT_MAX
from skerry.schema.internal import internal_types

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat
UNIX = Origin(kind="unix")
CERTIFIED = Origin(kind="tls", host="10.9.9.9", certificate="ship")
EVERYTHING = (PermissionRule(verbs=("all",)),)


def limited(**limits: Any) -> Admission:
    config = AdmissionConfig(
        permission=EVERYTHING,
        authentication=(AuthenticationRule(network="10.0.3.0/24", secret="sesame"),),
        limits=ClientLimits(**limits),
    )
    return Admission(config, rng=Random(1))


def far(number: int) -> Origin:
    return Origin(kind="tcp", host=f"10.0.{number // 250}.{number % 250}")


def known(harbour: Harbour) -> Guest:
    return harbour.guest("known", origin=far(999), secret="sesame")


def test_the_queues_of_all_untrusted_clients_are_limited_and_leave_a_reserve(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = {"waiting_bytes_per_node_max": 40_000, "waiting_bytes_per_address_max": 20_000}
    harbour = make_harbour(admission=limited(**limits, waiting_bytes_max=20_000))
    strangers = [harbour.guest(f"s{n}", origin=far(n)) for n in range(5)]
    local, maker = harbour.guest("local", origin=UNIX), harbour.guest("maker", origin=UNIX)
    for guest in (local, *strangers):
        guest.join("Boat")
        guest.pause()
    maker.publish(Boat(id=1, name="x" * 5700))
    assert not any(guest.is_cut for guest in (local, *strangers))
    maker.publish(Boat(id=2, name="x" * 5700))
    assert sum(guest.is_cut_abruptly for guest in strangers) == 3, "two and the local one are left"
    assert not local.is_cut


def test_a_single_object_may_always_be_queued(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(waiting_bytes_max=10_000))
    slow, maker = harbour.guest("slow"), harbour.guest("maker")
    slow.join("Boat")
    slow.pause()
    maker.publish(Boat(id=1, name="x" * 50_000))
    assert not slow.is_cut
    maker.publish(Boat(id=2))
    assert slow.is_cut_abruptly


def test_an_address_has_a_share_of_groups_and_patterns(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = {"group_count_per_address_max": 4, "pattern_count_per_address_max": 2}
    harbour = make_harbour(admission=limited(**limits))
    first, second, other = (harbour.guest(origin=far(n)) for n in (1, 1, 2))
    for group in ("A", "/p/1", "/p/2"):
        first.join(group)
    second.join("/p/1")
    ((what, why),) = second.refusals()
    assert what == "subscribe"
    assert "/p/1: subject patterns of address 10.0.0.1 (pattern_count_per_address_max) is 3" in why
    for group in ("A", "B", "C"):
        second.join(group)
    assert (
        "count of groups of address 10.0.0.1 (group_count_per_address_max)"
        in (second.refusals()[-1][1])
    )
    other.join("C")
    local = harbour.guest(origin=UNIX)
    for number in range(10):
        local.join(f"/local/{number}")
    first.leave("/p/2")
    second.join("/p/1")
    assert (len(second.refusals()), other.refusals(), local.refusals()) == (2, [], [])
    first.vanish()
    second.vanish()
    again = harbour.guest(origin=far(1))
    for group in ("/q/1", "/q/2", "Q", "R"):
        again.join(group)
    assert again.refusals() == []


def test_an_address_has_a_share_of_subscriptions_and_filters(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(
        admission=limited(
            join_count_per_address_max=3,
            view_count_per_address_max=2,
            view_part_count_per_address_max=5,
        )
    )
    first, second = (harbour.guest(origin=far(1)) for _ in range(2))
    first.describe(Boat)
    for group in ("A", "B"):
        first.join(group)
        second.join(group)
    assert (
        "subscriptions of address 10.0.0.1 (join_count_per_address_max)"
        in (second.refusals()[0][1])
    )
    first.open_view(Boat, 1, where="id > 1")
    second.open_view(Boat, 1, where="id > 1 and id < 3 and id != 2")
    assert len(second.refusals()) == 1
    second.open_view(Boat, 2, where="id > 1")
    assert "filtered subscriptions of address" in second.refusals()[-1][1]
    first.leave("Boat", subscription_id=1)
    second.open_view(Boat, 2, where="id > 1 and id < 3 and id != 2")
    assert "comparisons in filtered subscriptions of address" in second.refusals()[-1][1]
    second.open_view(Boat, 2, where="id > 1")
    assert len(second.refusals()) == 3


def test_objects_in_filtered_subscriptions_of_an_address_are_bounded(
    make_harbour: Callable[..., Harbour],
) -> None:
    """The node keeps the key of each object in each of them."""
    harbour = make_harbour(admission=limited(view_object_count_per_address_max=1000))
    maker = harbour.guest("maker", origin=UNIX)
    maker.publish(*(Boat(id=n) for n in range(400)))
    first, second = (harbour.guest(origin=far(1)) for _ in range(2))
    first.describe(Boat)
    second.describe(Boat)
    first.open_view(Boat, 1, where="id >= 0")
    second.open_view(Boat, 1, where="id >= 0")
    assert len(first.sees(Boat, 1)) == len(second.sees(Boat, 1)) == 400
    second.open_view(Boat, 2, where="id >= 0")
    assert "objects in filtered subscriptions of address" in second.refusals()[-1][1]
    assert second.sees(Boat, 2) == {}
    assert not second.is_cut
    second.leave("Boat", subscription_id=1)
    second.open_view(Boat, 3, where="id < 100")
    assert len(second.sees(Boat, 3)) == 100
    maker.publish(*(Boat(id=n) for n in range(400, 1100)))
    assert (first.is_cut, second.is_cut) == (True, False)
    assert "(view_object_count_per_address_max)" in first.fault


def test_a_refused_filtered_subscription_keeps_no_keys(
    make_harbour: Callable[..., Harbour],
) -> None:
    """It may stay in memory until the next collection, which may be long after."""
    harbour = make_harbour(admission=limited(view_object_count_per_address_max=300))
    harbour.guest("maker", origin=UNIX).publish(*(Boat(id=n) for n in range(5000)))
    guest = harbour.guest(origin=far(1))
    guest.describe(Boat)
    gc.collect()
    gc.disable()
    try:
        guest.open_view(Boat, 1, where="id >= 0")
        assert "objects in filtered subscriptions of address" in guest.refusals()[-1][1]
        kept = [item for item in gc.get_objects() if isinstance(item, FilteredSubscription)]
        assert [len(item._found) for item in kept] == [0] * len(kept)
    finally:
        gc.enable()


def counted_objects(harbour: Harbour) -> int:
    return harbour.node.host.shares.used(Resource.VIEW_OBJECTS)


def test_objects_that_leave_filtered_subscriptions_are_no_longer_counted(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited())
    maker, reader = harbour.guest("maker"), harbour.guest("reader", origin=far(1))
    reader.describe(Boat)
    reader.open_view(Boat, 1, where="id >= 0")
    for n in range(3000):
        maker.publish(Boat(id=n))
        assert counted_objects(harbour) > n
    assert counted_objects(harbour) < 4000
    for n in range(2990):
        maker.remove(Boat(id=n))
    assert counted_objects(harbour) < 200
    assert len(reader.sees(Boat, 1)) == 10
    reader.open_view(Boat, 1, where="id < 0")
    assert counted_objects(harbour) == 0
    reader.open_view(Boat, 1, where="id >= 0")
    reader.vanish()
    assert counted_objects(harbour) == 0
    maker.publish(Boat(id=5000))
    assert counted_objects(harbour) == 0


def test_conflated_objects_of_an_address_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(conflated_count_per_address_max=150))
    maker = harbour.guest("maker", origin=UNIX)
    readers = [harbour.guest(f"r{n}", origin=far(1)) for n in range(2)]
    for reader, count in zip(readers, (50, 60), strict=True):
        reader.join("Boat", is_conflated=True)
        reader.pause()
        maker.publish(Boat(id=1, name="x" * CONFLATE_BYTES))
        maker.publish(*(Boat(id=n) for n in range(count)))
    assert not any(reader.is_cut for reader in readers)
    for reader in readers:
        reader.resume()
    assert harbour.node.host.shares.used(Resource.CONFLATED) == 0
    for reader in readers:
        reader.pause()
    maker.publish(Boat(id=1, name="x" * CONFLATE_BYTES))
    maker.publish(*(Boat(id=n) for n in range(100)))
    assert [reader.is_cut for reader in readers] == [True, False]
    detail = harbour.events(ClientDisconnected)[-1].detail
    assert "conflated objects that wait to be sent of address 10.0.0.1" in detail


def test_strangers_leave_a_tenth_of_all_groups(make_harbour: Callable[..., Harbour]) -> None:
    assert Routing()._quotas._group_count_max == GROUP_COUNT_MAX
    harbour = make_harbour(admission=limited())
    harbour.node._routing._quotas._group_count_max = 20
    for number in range(30):
        harbour.guest(origin=far(number)).join(f"G{number}")
    assert harbour.node.statistics().group_count == 18
    local, certified = harbour.guest(origin=UNIX), harbour.guest(origin=CERTIFIED)
    local.join("L")
    certified.join("C")
    assert (local.refusals(), certified.refusals()) == ([], [])
    late = harbour.guest(origin=far(100))
    late.join("G1")
    late.join("late")
    ((_, why),) = late.refusals()
    assert "late: count of groups of all clients is 21, the limit is 18" in why


def test_cached_routes_of_all_types_are_limited(
    make_harbour: Callable[..., Harbour], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ROUTE_MEMO_SIZE_MAX > 65_536
    monkeypatch.setattr("skerry.engine.dispatch.routing.ROUTE_MEMO_SIZE_MAX", 100)
    harbour = make_harbour()
    guest, reader = harbour.guest(), harbour.guest("reader")
    reader.join("/...")
    names = [f"T{n}" for n in range(5)]
    text = " ".join(f"struct {name} [cached=false] {{ 1: uint32 id; }}" for name in names)
    types = skerry.define_types(text)
    for number in range(100):
        for name in names:
            guest.publish(getattr(types, name)(id=1), subject=f"/s/{number}")
    topics = harbour.node._dispatcher.all_topics()
    assert sum(len(topic.routes) for topic in topics) <= 50
    assert len(reader.heard) >= 500


def test_strangers_leave_a_tenth_of_all_types(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited())
    open_count = TYPE_COUNT_MAX - TYPE_COUNT_MAX // 10
    filled = {f"T{n}": None for n in range(open_count - len(internal_types()) - 1)}
    harbour.node.registry._types.update(filled)
    stranger, local = harbour.guest(origin=far(1)), harbour.guest(origin=UNIX)
    types = skerry.define_types("struct A { 1: bool a; } struct B { 1: bool a; }")
    stranger.describe(types.A)
    stranger.describe(types.B)
    ((what, why),) = stranger.refusals()
    assert what == "describe"
    assert f"count of types is {open_count + 1}, the limit is {open_count}" in why
    local.describe(types.B)
    assert local.refusals() == []


def test_an_address_has_a_share_of_the_bytes_of_descriptions(
    make_harbour: Callable[..., Harbour],
) -> None:
    size = len(skerry.define_types("struct A0 { 1: bool a; }").A0.descriptor.name) + 60
    limits = limited(type_bytes_per_address_max=5 * size * DESCRIPTION_MEMORY_FACTOR)
    harbour = make_harbour(admission=limits)
    guests = [harbour.guest(origin=far(1)) for _ in range(10)]
    for number, guest in enumerate(guests):
        guest.describe(skerry.define_types(f"struct A{number} {{ 1: bool a; }}")[f"A{number}"])
    refused = [guest for guest in guests if guest.refusals()]
    assert 0 < len(refused) < 10
    assert "bytes of type descriptions of address 10.0.0.1" in refused[0].refusals()[0][1]
    guests[0].vanish()
    refused[0].describe(skerry.define_types("struct A0 { 1: bool a; }").A0)
    assert len(refused[0].refusals()) == 1


def test_equal_definitions_of_many_clients_are_shared_and_count_once(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(type_bytes_per_address_max=10_000))
    guests = [harbour.guest(origin=far(1)) for _ in range(50)]
    for guest in guests:
        guest.describe(Boat)
        assert guest.refusals() == []
    clients = [harbour.node.host.table.by_id.get(guest.client_id) for guest in guests]
    definitions = {id(client.connection.definition("Boat")) for client in clients if client}
    assert len(definitions) == 1


def test_strangers_leave_a_tenth_of_the_cache(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(), cache=Cache(object_count_max=40))
    strangers = [harbour.guest(f"s{n}", origin=far(n)) for n in range(4)]
    for number in range(50):
        strangers[number % 4].publish(Boat(id=number))
    assert len(harbour.cached(Boat)) == 32, "the node has an object for each client"
    assert "count of cached objects is 37, the limit is 36" in strangers[0].refusals()[0][1]
    for trusted in (harbour.guest(origin=UNIX), known(harbour)):
        trusted.publish(Boat(id=100 + trusted.client_id))
        assert trusted.refusals() == []
    assert len(harbour.cached(Boat)) == 34


def test_strangers_leave_a_tenth_of_the_bytes_of_the_cache(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(), cache=Cache(bytes_max=100_000))
    strangers = [harbour.guest(f"s{n}", origin=far(n)) for n in range(2)]
    for number in range(10):
        strangers[number % 2].publish(Boat(id=number, name="x" * 10_000))
    assert len(harbour.cached(Boat)) == 8
    local = harbour.guest(origin=UNIX)
    local.publish(Boat(id=50, name="x" * 10_000))
    assert local.refusals() == []
