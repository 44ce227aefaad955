"""Routes: groups of types, subject patterns, and who hears of an update, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.dispatch.routing import ROUTE_MEMO_COUNT_MAX
from skerry.limits import PATTERN_MEMO_CHAR_COUNT_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.machine import CloseReason

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    struct Spot { 1: [key] string name; 2: [key] uint32 id; }
    struct Weather { 1: float64 wind; }
    struct Shout [cached=false] { 1: string text; }
    """
)
Boat, Car, Spot, Weather, Shout = TYPES.Boat, TYPES.Car, TYPES.Spot, TYPES.Weather, TYPES.Shout
Bytes: Any = internal_class("SkerryBytes")


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    return harbour.guest("maker")


def publish_some(maker: Guest) -> None:
    maker.publish(Boat(id=1), Boat(id=2), Car(id=1), Weather(wind=1.0))
    maker.publish(Spot(name="a b", id=7))
    maker.publish(Boat(id=3), subject="/fleet/north/3")
    maker.publish(Shout(text="hear"), subject="/fleet/north")


def notified(guest: Guest) -> list[str]:
    own = ("Boat", "Car", "Spot", "Weather", "Shout")
    names = [item.header.type_name for item in guest.heard]
    return sorted(name for name in names if name in own)


SELECTED = {
    "/Boat/*": ["Boat", "Boat"],
    "/Boat/1": ["Boat"],
    "/Boat/...": ["Boat", "Boat"],
    "/*/1": ["Boat", "Car"],
    "/Spot/a%20b/7": ["Spot"],
    "/Spot/*/7": ["Spot"],
    "/Spot/*": [],
    "/Weather": ["Weather"],
    "/*": ["Weather"],
    "/fleet/...": ["Boat", "Shout"],
    "/fleet/*/3": ["Boat"],
    "/fleet/north": ["Shout"],
    "/...": ["Boat", "Boat", "Boat", "Car", "Shout", "Spot", "Weather"],
    "/\u2026": ["Boat", "Boat", "Boat", "Car", "Shout", "Spot", "Weather"],
}


@pytest.mark.parametrize("pattern", SELECTED)
def test_a_pattern_selects_default_and_own_subjects_live(
    pattern: str, harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join(pattern)
    publish_some(maker)
    assert notified(reader) == SELECTED[pattern]
    reader.leave(pattern)
    publish_some(maker)
    assert notified(reader) == SELECTED[pattern]
    assert harbour.node.statistics().group_count == 0


@pytest.mark.parametrize("pattern", SELECTED)
def test_a_pattern_selects_cached_objects_too(pattern: str, harbour: Harbour, maker: Guest) -> None:
    publish_some(maker)
    reader = harbour.guest("reader")
    reader.join(pattern)
    assert notified(reader) == [name for name in SELECTED[pattern] if name != "Shout"]
    counts = [int(i.header.from_cache) for i in reader.heard if i.header.from_cache >= 0]
    assert counts == list(reversed(range(len(counts))))
    normal = pattern.replace("\u2026", "...")
    assert [info.typeName for info in reader.messages("DotsCacheInfo")] == [normal]


def test_a_client_in_several_groups_receives_an_update_once(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    for group in ("Boat", "/...", "/Boat/*", "/Boat/1", "/fleet/..."):
        reader.join(group)
    reader.forget()
    maker.publish(Boat(id=1), Boat(id=2))
    maker.publish(Boat(id=3), subject="/fleet/3")
    assert [boat.id for boat in reader.objects(Boat)] == [1, 2, 3]
    for group in ("/Boat/1", "/...", "Boat"):
        reader.leave(group)
    maker.publish(Boat(id=1), Boat(id=2))
    maker.publish(Boat(id=3), subject="/fleet/3")
    assert [boat.id for boat in reader.objects(Boat)][3:] == [1, 2, 3]


def test_a_chosen_subject_is_delivered_to_clients_with_subjects(
    harbour: Harbour, maker: Guest
) -> None:
    ours, plain = harbour.guest("ours"), harbour.plain()
    for guest in (ours, plain):
        guest.join("Boat")
    maker.publish(Boat(id=1))
    maker.publish(Boat(id=2), subject="/fleet/2")
    maker.publish(Boat(id=2), subject="/fleet/2")
    assert [i.header.subject for i in ours.items("Boat")] == ["", "/fleet/2", "/fleet/2"]
    assert [i.header.subject for i in plain.items("Boat")] == ["", "", ""]
    late = harbour.guest("late")
    late.join("Boat")
    assert [i.header.subject for i in late.items("Boat")] == ["", "/fleet/2"]


def test_a_subject_of_a_client_without_subjects_is_ignored(harbour: Harbour, maker: Guest) -> None:
    reader, plain = harbour.guest("reader"), harbour.plain()
    reader.join("/fleet/...")
    plain.publish(Boat(id=1), subject="/fleet/1")
    plain.publish(Boat(id=1), subject="/fleet/1")
    assert reader.objects(Boat) == []
    assert harbour.node.cache.get("Boat", b"\x81\x01").subject == ""  # type: ignore[union-attr]


def test_bytes_travel_under_a_bare_subject_between_our_own_programs(
    harbour: Harbour, maker: Guest
) -> None:
    reader, plain, other = harbour.guest("reader"), harbour.plain(), harbour.guest("other")
    reader.join("/camera/*")
    plain.join("/...")
    plain.join("SkerryBytes")
    other.join("/radar/*")
    for number in range(3):
        maker.publish(Bytes(data=bytes([number])), subject="/camera/1")
    got = [(i.header.subject, Bytes.decode(i.payload).data) for i in reader.items("SkerryBytes")]
    assert got == [("/camera/1", bytes([number])) for number in range(3)]
    assert "SkerryBytes" not in plain.names(), "it would not know what that is"
    assert other.items("SkerryBytes") == []
    assert "StructDescriptorData" not in reader.names()


@pytest.mark.parametrize("subject", ["no slash", "/a/*", "/a/...", "/\u2026", "/Boat/*"])
def test_an_invalid_subject_ends_only_its_connection(
    subject: str, harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("/...")
    reader.join("/Boat/1")
    maker.publish(Boat(id=1), subject=subject)
    assert maker.is_cut
    assert "cannot be used as a subject" in maker.fault
    assert notified(reader) == []
    assert not reader.is_cut
    assert harbour.cached(Boat) == []


@pytest.mark.parametrize("pattern", ["/a/.../b", "/" + "x" * SUBJECT_CHAR_COUNT_MAX])
def test_an_invalid_pattern_ends_only_its_connection(pattern: str, harbour: Harbour) -> None:
    reader, other = harbour.guest("reader"), harbour.guest("other")
    reader.join(pattern)
    assert reader.is_cut
    assert "cannot be used as a pattern" in reader.fault
    assert not other.is_cut


def test_a_long_key_is_not_a_fault(harbour: Harbour, maker: Guest) -> None:
    """A default subject has the whole key in it, and is longer than any that is chosen."""
    reader = harbour.guest("reader")
    reader.join("/Spot/*/7")
    long = "k" * (SUBJECT_CHAR_COUNT_MAX + 1)
    maker.publish(Spot(name=long, id=7), Spot(name=long, id=8))
    assert not maker.is_cut
    assert [spot.id for spot in reader.objects(Spot)] == [7]
    topic = harbour.node._dispatcher.topics["Spot"]
    assert all(len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX for subject in topic.routes)


def test_cached_routes_are_limited(harbour: Harbour, maker: Guest) -> None:
    maker.publish(Boat(id=1), subject="/fleet/1")
    topic = harbour.node._dispatcher.topics["Boat"]
    route = topic.routes["/fleet/1"]
    topic.routes.update({str(n): route for n in range(ROUTE_MEMO_COUNT_MAX - 1)})
    assert len(topic.routes) == ROUTE_MEMO_COUNT_MAX
    maker.publish(Boat(id=2), subject="/fleet/2")
    assert list(topic.routes) == ["/fleet/2"]


def test_leaving_a_group_that_was_not_joined_has_no_effect(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat")
    for group in ("Car", "/...", "/Boat/*"):
        reader.leave(group)
    maker.publish(Boat(id=1))
    assert notified(reader) == ["Boat"]


def test_members_are_counted_with_filtered_subscriptions(harbour: Harbour, maker: Guest) -> None:
    maker.describe(Boat)
    first, second = harbour.guest("first"), harbour.guest("second")
    first.join("Boat")
    second.join("Boat")
    second.open_view(Boat, 1, where="id > 0")
    second.join("/Boat/*")
    routing = harbour.node._routing
    assert (routing.member_count("Boat"), routing.member_count("/Boat/*")) == (3, 1)
    second.vanish()
    assert (routing.member_count("Boat"), routing.member_count("/Boat/*")) == (1, 0)
    assert [m.client.name for m in routing.members("Boat")] == ["first"]


def test_removals_by_the_node_are_delivered_under_the_subject_of_the_object(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("/fleet/...")
    maker.publish(Boat(id=1), subject="/fleet/1")
    maker.send("DotsClearCache", typeNames=["Boat"])
    assert [int(i.header.remove_obj) for i in reader.items("Boat")] == [0, 1]


def test_a_remove_without_a_subject_is_delivered_under_the_subject_of_its_object(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("/fleet/...")
    maker.publish(Boat(id=1), subject="/fleet/1")
    maker.remove(Boat(id=1))
    assert [int(i.header.remove_obj) for i in reader.items("Boat")] == [0, 1]


@pytest.mark.parametrize("is_conflating", [False, True])
def test_a_moved_object_is_removed_for_subscribers_of_its_old_subject_only(
    harbour: Harbour, maker: Guest, is_conflating: bool
) -> None:
    old, both, new = (harbour.guest(name) for name in ("old", "both", "new"))
    old.join("/fleet/...", is_conflated=is_conflating)
    both.join("/*/1", is_conflated=is_conflating)
    new.join("/yard/...", is_conflated=is_conflating)
    maker.publish(Boat(id=1, name="Emma"), subject="/fleet/1")
    maker.publish(Boat(id=1), subject="/yard/1")
    assert [int(i.header.remove_obj) for i in old.items("Boat")] == [0, 1]
    assert [int(i.header.remove_obj) for i in both.items("Boat")] == [0, 0]
    assert [int(i.header.remove_obj) for i in new.items("Boat")] == [0]
    assert new.objects(Boat) == [Boat(id=1, name="Emma")], "it is sent whole where it is new"
    assert both.objects(Boat)[-1] == Boat(id=1), "and as it was published where it is known"
    assert old.items("Boat")[-1].header.attributes == Boat.descriptor.key_mask


def test_a_moved_object_stays_for_subscribers_of_its_type(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat")
    maker.publish(Boat(id=1), subject="/fleet/1")
    maker.publish(Boat(id=1), subject="/yard/1")
    maker.publish(Boat(id=1))
    assert [int(i.header.remove_obj) for i in reader.items("Boat")] == [0, 0, 0]


def test_a_carrier_receives_messages_to_the_site_and_nothing_else(
    harbour: Harbour, maker: Guest
) -> None:
    carrier = harbour.guest("carrier")
    harbour.node.carry(carrier.address)
    publish_some(maker)
    maker.publish(Shout(text="again"))
    assert notified(carrier) == ["Shout", "Shout"]


def test_a_carrier_that_also_joined_a_type_receives_updates_once(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Shout(text="known before"))
    carrier = harbour.guest("carrier")
    carrier.join("Shout")
    harbour.node.carry(carrier.address)
    maker.publish(Shout(text="hear"))
    assert notified(carrier) == ["Shout"]


def test_a_carrier_that_disconnected_is_removed(harbour: Harbour, maker: Guest) -> None:
    carrier = harbour.guest("carrier")
    harbour.node.carry(carrier.address)
    maker.publish(Shout(text="hear"))
    harbour.node.stream_closed(carrier.address, CloseReason.LOST, harbour.now_ns)
    maker.publish(Shout(text="nobody"))
    assert notified(carrier) == ["Shout"]
    rows = {row.name: row.ledger.due for row in harbour.node.statistics().types}
    assert rows["Shout"] == 1
