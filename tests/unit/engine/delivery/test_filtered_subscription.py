"""Views: objects enter when they meet the condition and leave when they cease to."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.delivery.group_members import CONFLATE_BYTES
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filters import make_filter

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Shout [cached=false] { 1: [key] uint32 id; 2: string text; }
    """
)
Boat, Shout = TYPES.Boat, TYPES.Shout
BULK = "x" * (CONFLATE_BYTES + 1)


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.describe(Boat)
    guest.describe(Shout)
    return guest


@pytest.fixture
def reader(harbour: Harbour, maker: Guest) -> Guest:
    """A client that sees fast boats."""
    guest = harbour.guest("reader")
    guest.open_view(Boat, 5, where="speed > 10")
    return guest


def told(guest: Guest, number: int = 5) -> list[tuple[int, int, int]]:
    """Number of the boat, property set, and whether it is a remove."""
    return [
        (Boat.decode(i.payload).id, int(i.header.attributes), int(i.header.remove_obj))
        for i in guest.items("Boat", number)
    ]


def test_an_object_enters_whole_changes_and_leaves_by_its_key(maker: Guest, reader: Guest) -> None:
    maker.publish(Boat(id=1, name="a", speed=5))
    assert told(reader) == []
    maker.publish(Boat(id=1, speed=11))
    assert told(reader) == [(1, 0b1110, 0)]
    assert reader.objects(Boat, 5) == [Boat(id=1, name="a", speed=11)]
    maker.publish(Boat(id=1, name="b"))
    assert told(reader)[1:] == [(1, 0b110, 0)], "the speed was not spoken of"
    maker.publish(Boat(id=1, speed=3))
    assert told(reader)[2:] == [(1, 0b10, 1)]
    maker.publish(Boat(id=1, speed=4))
    maker.remove(Boat(id=1))
    assert len(told(reader)) == 3
    item = reader.items("Boat", 5)[-1]
    assert Boat.decode(item.payload) == Boat(id=1)
    assert item.header.sender == maker.client_id


def test_an_update_without_the_tested_field_keeps_its_object_in_the_subscription(
    maker: Guest, reader: Guest
) -> None:
    maker.publish(Boat(id=1, name="a", speed=11), Boat(id=2, name="a", speed=9))
    for name in ("b", "c"):
        maker.publish(Boat(id=1, name=name), Boat(id=2, name=name))
    assert told(reader) == [(1, 0b1110, 0), (1, 0b110, 0), (1, 0b110, 0)]
    assert list(reader.sees(Boat, 5).values()) == [Boat(id=1, name="c", speed=11)]
    maker.publish(Boat(id=1, name="d"), only=["name", "speed"])
    assert told(reader)[3:] == [(1, 0b10, 1)], "one that clears it does not"


def test_an_object_that_is_removed_leaves(maker: Guest, reader: Guest) -> None:
    maker.publish(Boat(id=1, speed=11))
    maker.remove(Boat(id=1))
    assert told(reader) == [(1, 0b1010, 0), (1, 0b10, 1)]


def test_matching_cached_objects_are_sent_and_counted_down(harbour: Harbour, maker: Guest) -> None:
    maker.publish(*[Boat(id=n, speed=n) for n in range(8, 14)])
    reader = harbour.guest("reader")
    reader.open_view(Boat, 9, where="speed > 10")
    assert told(reader, 9) == [(11, 0b1010, 0), (12, 0b1010, 0), (13, 0b1010, 0)]
    assert reader.counts_down("Boat", 9) == [2, 1, 0]
    info = reader.items("DotsCacheInfo")[0]
    assert info.header.subscription_id == -1
    assert reader.messages("DotsCacheInfo")[0].typeName == "Boat"


def test_only_the_selected_fields_and_the_key_are_sent(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.open_view(Boat, 1, where="speed > 10", fields=["name"])
    maker.publish(Boat(id=1, name="a", speed=11))
    maker.publish(Boat(id=1, speed=12))
    maker.publish(Boat(id=1, name="b", speed=13))
    assert told(reader, 1) == [(1, 0b110, 0), (1, 0b110, 0)]
    assert reader.objects(Boat, 1) == [Boat(id=1, name="a"), Boat(id=1, name="b")]


def test_several_filtered_subscriptions_and_a_membership_coexist(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    reader.open_view(Boat, 6, where="speed < 3")
    reader.join("Boat")
    maker.publish(Boat(id=1, speed=1), Boat(id=2, speed=20))
    assert [boat.id for boat in reader.objects(Boat)] == [1, 2]
    assert [boat.id for boat in reader.objects(Boat, 5)] == [2]
    assert [boat.id for boat in reader.objects(Boat, 6)] == [1]
    reader.leave("Boat", subscription_id=5)
    reader.leave("Boat", subscription_id=77)
    maker.publish(Boat(id=3, speed=20), Boat(id=4, speed=1))
    assert [boat.id for boat in reader.objects(Boat, 5)] == [2]
    assert [boat.id for boat in reader.objects(Boat, 6)] == [1, 4]


def test_a_filtered_subscription_with_the_same_number_replaces_the_first(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    maker.publish(Boat(id=1, speed=20), Boat(id=2, speed=1))
    reader.forget()
    reader.open_view(Boat, 5, where="speed < 3")
    maker.publish(Boat(id=1, speed=21), Boat(id=2, speed=2))
    assert [boat.id for boat in reader.objects(Boat, 5)] == [2, 2]


def test_a_plain_client_may_use_filtered_subscriptions(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.plain()
    assert reader.connection.has_filters
    reader.open_view(Boat, 1, where="speed > 10")
    maker.publish(Boat(id=1, speed=11))
    assert [boat.id for boat in reader.objects(Boat, 1)] == [1]


def test_messages_are_tested_by_their_own_fields(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.open_view(Shout, 1, where="text like 'a%'", fields=["text"])
    maker.publish(Shout(id=1, text="abc"), Shout(id=2, text="xyz"))
    assert reader.objects(Shout, 1) == [Shout(id=1, text="abc")]
    assert reader.messages("DotsCacheInfo") == []


# -- slow clients


def slow(harbour: Harbour, maker: Guest) -> Guest:
    guest = harbour.guest("slow")
    guest.open_view(Boat, 1, where="speed > 10", is_conflated=True)
    guest.pause()
    maker.publish(Boat(id=0, name=BULK, speed=11))
    return guest


def test_an_object_that_matched_only_while_paused_is_not_sent(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow(harbour, maker)
    maker.publish(Boat(id=1, speed=20))
    maker.publish(Boat(id=1, speed=1))
    reader.resume()
    assert told(reader, 1) == [(0, 0b1110, 0)]


def test_an_object_that_matches_again_while_paused_is_sent_once(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Boat(id=1, name="a", speed=20))
    reader = slow(harbour, maker)
    maker.publish(Boat(id=1, speed=1))
    maker.publish(Boat(id=1, name="b"))
    maker.publish(Boat(id=1, speed=30))
    reader.resume()
    assert told(reader, 1)[-1] == (1, 0b1110, 0)
    assert reader.objects(Boat, 1)[-1] == Boat(id=1, name="b", speed=30)


def test_an_object_that_ceased_to_match_while_paused_is_removed_once(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Boat(id=1, speed=20), Boat(id=2, speed=20))
    reader = slow(harbour, maker)
    maker.publish(Boat(id=1, speed=30))
    maker.publish(Boat(id=1, speed=1))
    maker.remove(Boat(id=2))
    reader.resume()
    assert told(reader, 1)[-2:] == [(1, 0b10, 1), (2, 0b10, 1)]


def test_a_projection_holds_for_what_was_conflated(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("slow")
    reader.open_view(Boat, 1, fields=["name"], is_conflated=True)
    reader.pause()
    maker.publish(Boat(id=0, name=BULK))
    maker.publish(Boat(id=1, name="a", speed=1))
    maker.publish(Boat(id=1, name="b", speed=2))
    reader.resume()
    assert reader.objects(Boat, 1)[1:] == [Boat(id=1, name="b")]


def test_messages_of_a_slow_filtered_subscription_are_conflated_by_key(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("slow")
    reader.open_view(Shout, 1, where="text is not null", is_conflated=True)
    reader.pause()
    maker.publish(Shout(id=0, text=BULK))
    for number in range(3):
        maker.publish(Shout(id=1, text=f"{number}"), Shout(id=2))
    reader.resume()
    assert reader.objects(Shout, 1)[1:] == [Shout(id=1, text="2")]


def test_messages_that_do_not_match_count_as_filtered(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.open_view(Shout, 1, where="text = 'a'")
    for _ in range(3):
        # The header of the first is new to the node, those of the others are not.
        maker.publish(*[Shout(id=number, text="ab"[number % 2]) for number in range(10)])
    assert reader.objects(Shout, 1) == [Shout(id=n, text="a") for n in range(0, 10, 2)] * 3
    row = harbour.row("Shout")
    assert (row.due, row.delivered, row.filtered) == (30, 15, 15)
    harbour.check()


# -- while a replay goes on


def begin(harbour: Harbour, maker: Guest) -> Guest:
    """A filtered subscription of which the first objects were delivered."""
    maker.publish(*[Boat(id=n, name=BULK, speed=20) for n in range(6)])
    reader = harbour.guest("reader")
    wanted = make_filter(Boat.descriptor, "speed > 10")
    reader.connection.join("Boat", 0.0, subscription_id=1, filter_=wanted, is_conflated=True)
    harbour.carry()
    harbour.carry()
    assert 0 < len(told(reader, 1)) < 6
    return reader


def test_a_filtered_subscription_keeps_its_count_during_changes(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, maker)
    maker.post(Boat(id=5, speed=1))
    maker.post(Boat(id=4), is_remove=True)
    maker.post(Boat(id=3, speed=30))
    maker.post(Boat(id=9, speed=40))
    harbour.pump()
    assert reader.counts_down("Boat", 1) == [5, 4, 3, 2, 1, 0]
    seen = {boat.id: boat.speed for boat in reader.sees(Boat, 1).values()}
    assert seen == {0: 20, 1: 20, 2: 20, 3: 30, 9: 40}
    assert len(reader.messages("DotsCacheInfo")) == 1


def test_a_slow_filtered_subscription_keeps_its_count_when_unsent_objects_are_removed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, maker)
    reader.pause()
    harbour.node.advance(harbour.now_ns)
    maker.publish(Boat(id=9, name=BULK, speed=50))
    maker.remove(Boat(id=5))
    maker.publish(Boat(id=4, speed=1))
    reader.resume()
    assert reader.counts_down("Boat", 1) == [5, 4, 3, 2, 1, 0]
    assert sorted(boat.id for boat in reader.sees(Boat, 1).values()) == [0, 1, 2, 3, 9]


# -- what cannot be


def ask(guest: Guest, group: str, number: int, wanted: object = None) -> None:
    join = internal_class("DotsMemberEvent")["join"]
    fields = {} if wanted is None else {"filter": wanted}
    guest.send("DotsMember", groupName=group, event=join, subscriptionId=number, **fields)


def bad_filter() -> skerry.Struct:
    leaf = internal_class("DotsPredicateLeaf")(propertyTag=29)
    leaf.op = internal_class("DotsCompareOp")["isNull"]
    kind = internal_class("DotsPredicateKind")["leaf"]
    node = internal_class("DotsPredicateNode")(kind=kind, leaf=leaf)
    predicate = internal_class("DotsPredicate")(nodes=[node])
    wanted: skerry.Struct = internal_class("DotsFilter")(predicate=predicate)
    return wanted


def test_a_filter_that_does_not_compile_is_dropped(harbour: Harbour, maker: Guest) -> None:
    plain, ours = harbour.plain(), harbour.guest("ours")
    for guest in (plain, ours):
        ask(guest, "Boat", 1, bad_filter())
        ask(guest, "Nothing", 1)
        ask(guest, "/Boat/*", 1)
        maker.publish(Boat(id=1))
        assert not guest.is_cut
        assert guest.items("Boat", 1) == []
    assert plain.heard == []
    reasons = [reason for what, reason in ours.refusals() if what == "filter"]
    assert reasons[0].startswith("Boat: ")
    assert "Boat has no field with tag 29" in reasons[0]
    assert reasons[1:] == ["Nothing: there is no such type", "/Boat/*: there is no such type"]


def test_a_filtered_subscription_without_a_filter_has_all_objects(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    ask(reader, "Boat", 3)
    maker.publish(Boat(id=1))
    assert [boat.id for boat in reader.objects(Boat, 3)] == [1]


def test_a_filtered_subscription_has_no_objects_under_forbidden_subjects(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("/secret/...",), client="low", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)))
    low, maker = harbour.guest("low"), harbour.guest("maker")
    maker.publish(Boat(id=1), subject="/secret/1")
    maker.publish(Boat(id=2))
    maker.describe(Shout)
    low.open_view(Boat, 1, where="id > 0")
    low.open_view(Shout, 2, where="id > 0")
    maker.publish(Boat(id=3), subject="/secret/3")
    maker.publish(Shout(id=3), subject="/secret/3")
    maker.publish(Boat(id=2, speed=66), subject="/secret/2")
    assert told(low, 1) == [(2, 0b10, 0), (2, 0b10, 1)], "it went where the client may not look"
    assert low.items("Shout", 2) == []
    assert not any("secret" in item.header.subject for item in low.heard)
    harbour.check()


# -- finding out what is in a view


COUNT = SELECT_SLICE_COUNT + 100


def begin_view(harbour: Harbour, guest: Guest, number: int = 5) -> None:
    """Open a view on all that is fast, and let the node do no more than it does at once."""
    wanted = make_filter(Boat.descriptor, "speed > 10", None)
    guest.connection.join("Boat", 0.0, subscription_id=number, filter_=wanted)
    harbour.carry()


@pytest.fixture
def fleet(maker: Guest) -> Guest:
    maker.publish(*(Boat(id=number, name="b", speed=number % 20) for number in range(COUNT)))
    return maker


def test_a_large_type_is_looked_through_slice_by_slice(harbour: Harbour, fleet: Guest) -> None:
    guest = harbour.guest("reader")
    begin_view(harbour, guest)
    assert harbour.node.deadline_ns() == harbour.now_ns
    harbour.carry()
    assert told(guest) == []
    harbour.pump()
    fast = sum(number % 20 > 10 for number in range(COUNT))
    assert guest.counts_down("Boat", 5) == list(reversed(range(fast)))
    assert [m.typeName for m in guest.messages("DotsCacheInfo")] == ["Boat"]


def test_an_object_that_changes_during_the_examination_is_sent_in_its_new_state(
    harbour: Harbour, fleet: Guest
) -> None:
    guest = harbour.guest("reader")
    begin_view(harbour, guest)
    first, last = 19, COUNT - 1
    assert (first % 20, last % 20) == (19, 19)
    fleet.post(Boat(id=first, speed=1))
    fleet.post(Boat(id=last), is_remove=True)
    fleet.post(Boat(id=0, speed=50))
    fleet.post(Boat(id=COUNT - 20, name="renamed"))
    fleet.post(Boat(id=COUNT, speed=60))
    harbour.carry()
    assert told(guest) == []
    harbour.pump()
    seen = {obj.id: obj for obj in guest.sees(Boat, 5).values()}
    assert seen == {boat.id: boat for boat in harbour.cached(Boat) if boat.speed > 10}
    assert guest.counts_down("Boat", 5) == list(reversed(range(len(seen))))


def test_an_object_that_ceases_to_match_during_a_replacement_is_removed(
    harbour: Harbour, fleet: Guest
) -> None:
    guest = harbour.guest("reader")
    begin_view(harbour, guest)
    harbour.pump()
    begin_view(harbour, guest)
    fleet.post(Boat(id=19, speed=1))
    fleet.post(Boat(id=39), is_remove=True)
    harbour.pump()
    fast = {boat.id for boat in harbour.cached(Boat) if boat.speed > 10}
    assert {boat.id for boat in guest.sees(Boat, 5).values()} == fast


def test_a_filtered_subscription_closed_before_its_replay_receives_only_the_end(
    harbour: Harbour, fleet: Guest
) -> None:
    guest = harbour.guest("reader")
    begin_view(harbour, guest)
    guest.leave("Boat", subscription_id=5)
    assert told(guest) == []
    assert [m.typeName for m in guest.messages("DotsCacheInfo")] == ["Boat"]


def test_many_matching_objects_are_sent_without_being_sorted(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.engine.delivery.filtered_subscription.REPLAY_SORTED_COUNT_MAX", 50)
    maker, guest = harbour.guest("maker"), harbour.guest("guest")
    maker.publish(*(Boat(id=number, speed=1) for number in range(200)))
    guest.open_view(Boat, 1, where="speed > 0")
    view = harbour.node._routing._filtered["Boat"][guest.client_id, 1]
    assert not view._found
    assert [boat.id for boat in guest.objects(Boat, 1)] == list(range(200))
    assert guest.counts_down("Boat", 1) == list(range(199, -1, -1))
