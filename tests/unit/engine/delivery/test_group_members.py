"""Members of groups: described first, told once, and conflated when they are slow and want it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.delivery.group_members import CONFLATE_BYTES
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import OldWire

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; 4: Kind kind; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    struct Shout [cached=false] { 1: [key] uint32 id; 2: string text; }
    """
)
Boat, Car, Shout = TYPES.Boat, TYPES.Car, TYPES.Shout
BULK = "x" * (CONFLATE_BYTES + 1)


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    return harbour.guest("maker")


def slow_reader(harbour: Harbour, maker: Guest, group: str = "Boat", count: int = 1) -> Guest:
    """A client that conflates, does not read, and has more waiting than a network takes."""
    reader = harbour.guest("reader")
    reader.join(group, is_conflated=True)
    reader.pause()
    for number in range(count):
        maker.publish(Boat(id=number, name=BULK))
    return reader


def test_a_type_is_described_before_its_first_object_and_once(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat")
    maker.publish(Boat(id=1, kind=TYPES.Kind.cargo), Boat(id=2))
    described = ["EnumDescriptorData", "StructDescriptorData"]
    assert reader.names() == [*described, "Boat", "Boat"]


def test_a_client_that_described_a_type_receives_no_description_of_it(
    harbour: Harbour, maker: Guest
) -> None:
    maker.join("Boat")
    maker.publish(Boat(id=1))
    assert maker.names() == ["Boat"]
    assert maker.items("Boat")[0].header.sender == maker.client_id


def test_old_framing_gets_frames_of_its_own(harbour: Harbour, maker: Guest) -> None:
    old = harbour.guest("old", wire=OldWire)
    old.join("Boat")
    maker.publish(Boat(id=1), Boat(id=2))
    assert [boat.id for boat in old.objects(Boat)] == [1, 2]
    maker.remove(Boat(id=1))
    assert old.items("Boat")[-1].header.remove_obj == 1


def test_a_conflating_client_that_reads_receives_each_update(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat", is_conflated=True)
    for speed in range(5):
        maker.publish(Boat(id=1, name=BULK, speed=speed))
    assert [boat.speed for boat in reader.objects(Boat)] == [0, 1, 2, 3, 4]


def test_a_slow_client_receives_all_changes_of_an_object_as_one_update(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    maker.publish(Boat(id=7, name="seven", speed=1))
    maker.publish(Boat(id=7, speed=2))
    maker.publish(Boat(id=8, name="eight"))
    maker.publish(Boat(id=7), only=["name"])
    maker.publish(Boat(id=7, speed=3))
    reader.resume()
    assert [(b.id, b.name, b.speed) for b in reader.objects(Boat)][1:] == [
        (7, None, 3),
        (8, "eight", None),
    ]
    assert reader.sees(Boat)[b"\x81\x07"] == Boat(id=7, speed=3)
    header = reader.items("Boat")[1].header
    assert header.attributes == 0b1110
    assert header.sender == maker.client_id
    assert header.from_cache == -1


def test_only_fields_that_were_named_are_sent_after_conflation(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Boat(id=7, name="seven", speed=0))
    reader = slow_reader(harbour, maker)
    for speed in (1, 2, 3):
        maker.publish(Boat(id=7, speed=speed))
    reader.resume()
    item = reader.items("Boat")[-1]
    assert item.header.attributes == 0b1010
    assert Boat.decode(item.payload) == Boat(id=7, speed=3)


def test_an_object_created_and_removed_during_a_replay_is_removed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    maker.publish(Boat(id=7, name="seven"))
    maker.remove(Boat(id=7))
    maker.remove(Boat(id=0))
    maker.publish(Boat(id=0, speed=4))
    reader.resume()
    items = reader.items("Boat")[1:]
    assert [int(item.header.remove_obj) for item in items] == [1, 0]
    assert reader.sees(Boat) == {b"\x81\x00": Boat(id=0, speed=4)}


def test_conflated_messages_are_sent_as_the_last_one_of_each_key(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("Shout", is_conflated=True)
    reader.pause()
    maker.publish(Shout(id=0, text=BULK))
    for number in range(4):
        maker.publish(Shout(id=1, text=f"one {number}"), Shout(id=2, text=f"two {number}"))
    reader.resume()
    assert [shout.text for shout in reader.objects(Shout)[1:]] == ["one 3", "two 3"]


def test_objects_of_two_types_with_one_key_do_not_mix(harbour: Harbour, maker: Guest) -> None:
    reader = slow_reader(harbour, maker, "/...")
    maker.publish(Boat(id=1, speed=1))
    maker.publish(Car(id=1, name="car"))
    maker.publish(Boat(id=1, speed=2))
    reader.resume()
    assert [boat.speed for boat in reader.objects(Boat)][1:] == [2]
    assert [car.name for car in reader.objects(Car)] == ["car"]


def test_a_type_that_is_new_during_a_replay_is_described_first(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    for group in ("Car", "Shout"):
        reader.join(group, is_conflated=True)
    maker.publish(Car(id=1))
    maker.publish(Shout(id=1))
    reader.resume()
    described: list[str] = []
    for item in reader.heard:
        if item.header.type_name == "StructDescriptorData":
            described.append(internal_class("StructDescriptorData").decode(item.payload).name)
        elif item.header.type_name in ("Car", "Shout"):
            assert item.header.type_name in described
    assert {"Car", "Shout"} <= set(described)
    assert (len(reader.objects(Car)), len(reader.objects(Shout))) == (1, 1)


def test_a_client_that_leaves_one_of_two_groups_still_receives_updates_of_the_other(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    reader.join("/Boat/1", is_conflated=True)
    maker.publish(Boat(id=1, speed=1), Boat(id=2, speed=2))
    reader.leave("Boat")
    reader.resume()
    assert [(b.id, b.speed) for b in reader.objects(Boat)][1:] == [(1, 1)]


def test_an_object_removed_while_the_client_left_and_joined_is_not_sent_again(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    maker.publish(Boat(id=7, speed=1))
    reader.join("Boat", is_conflated=False)
    maker.remove(Boat(id=7))
    reader.resume()
    assert b"\x81\x07" not in reader.sees(Boat)


def test_an_object_that_left_the_groups_of_a_client_is_not_sent_again(
    harbour: Harbour, maker: Guest
) -> None:
    reader = slow_reader(harbour, maker)
    reader.leave("Boat")
    reader.join("/fleet/*", is_conflated=True)
    maker.publish(Boat(id=7, speed=1), subject="/fleet/7")
    maker.remove(Boat(id=7), subject="/elsewhere/7")
    reader.resume()
    assert [boat.id for boat in reader.objects(Boat)] == [0]


def gone_from_the_yard(harbour: Harbour, maker: Guest) -> Guest:
    """A slow client that knows boat 7 in the yard, and has left what would tell it of its move."""
    reader = harbour.guest("reader")
    for group in ("Boat", "/yard/*"):
        reader.join(group, is_conflated=True)
    maker.publish(Boat(id=7, name="seven", speed=1), subject="/yard/7")
    reader.pause()
    maker.publish(Boat(id=0, name=BULK))
    maker.publish(Boat(id=7, speed=2))
    reader.leave("Boat")
    return reader


def test_an_object_that_moved_out_of_the_groups_of_a_slow_client_is_removed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = gone_from_the_yard(harbour, maker)
    reader.resume()
    assert b"\x81\x07" not in reader.sees(Boat)
    last = reader.items("Boat")[-1]
    assert (int(last.header.attributes), Boat.decode(last.payload)) == (0b10, Boat(id=7))


def test_an_object_removed_outside_of_the_groups_of_a_slow_client_is_removed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    for group in ("Boat", "/yard/*"):
        reader.join(group, is_conflated=True)
    maker.publish(Boat(id=7, speed=1), subject="/yard/7")
    reader.pause()
    maker.publish(Boat(id=0, name=BULK))
    maker.publish(Boat(id=7, speed=2))
    maker.remove(Boat(id=7))
    reader.leave("Boat")
    maker.publish(Boat(id=7, speed=3))
    reader.resume()
    assert b"\x81\x07" not in reader.sees(Boat)


def test_an_object_that_left_and_returned_is_not_removed(harbour: Harbour, maker: Guest) -> None:
    seven = Boat(id=7, name="seven", speed=2)
    for subject, group in (("", "Boat"), ("/yard/7", "")):
        reader = gone_from_the_yard(harbour, maker)
        if group:
            reader.join(group, is_conflated=True)
        else:
            maker.publish(Boat(id=7, speed=2), subject=subject)
        reader.resume()
        assert reader.sees(Boat)[b"\x81\x07"] == seven
        reader.goodbye()


def test_conflated_objects_are_sent_whole_after_a_slow_client_left_a_group(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    for group in ("Boat", "/yard/*"):
        reader.join(group, is_conflated=True)
    maker.publish(Boat(id=7, name="seven", speed=1))
    reader.pause()
    maker.publish(Boat(id=0, name=BULK))
    maker.publish(Boat(id=7, speed=2), subject="/yard/7")
    # With the group the reader forgets the boat, which is not in the yard, as far as it knows.
    reader.leave("Boat")
    reader.resume()
    last = reader.items("Boat")[-1]
    assert int(last.header.attributes) == 0b11110
    assert Boat.decode(last.payload) == Boat(id=7, name="seven", speed=2)


def test_updates_wait_behind_those_that_wait_already(harbour: Harbour, maker: Guest) -> None:
    reader = slow_reader(harbour, maker, count=4)
    for number in range(4):
        maker.publish(Boat(id=number, speed=1))
    harbour.node.resume(reader.address, harbour.now_ns)
    maker.post(Boat(id=3, speed=2))
    harbour.pump()
    seen = reader.sees(Boat)
    assert seen[b"\x81\x03"] == Boat(id=3, name=BULK, speed=2)
    assert len(seen) == 4


def test_a_client_with_a_short_queue_receives_each_update(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat", is_conflated=True)
    reader.pause()
    for speed in range(5):
        maker.publish(Boat(id=1, speed=speed))
    reader.resume()
    assert [boat.speed for boat in reader.objects(Boat)] == [0, 1, 2, 3, 4]


def test_subjects_that_a_member_may_not_see_are_kept_from_it(
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
    low.join("Boat")
    maker.publish(Boat(id=3), subject="/secret/3")
    maker.publish(Boat(id=2, speed=1), Boat(id=4))
    assert [boat.id for boat in low.objects(Boat)] == [2, 2, 4]
    assert low.counts_down("Boat") == [0]
    low.join("/...")
    assert low.refusals() == [("subscribe", "/...: not permitted")]
    harbour.check()


def test_an_object_that_moves_away_during_a_replay_is_sent_as_it_was(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("/secret/...",), client="low", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)))
    low, maker = harbour.guest("low"), harbour.guest("maker")
    maker.publish(*[Boat(id=n, name=BULK, speed=0) for n in range(4)])
    low.connection.join("Boat", 0.0)
    harbour.carry()
    maker.post(Boat(id=3, speed=99), subject="/secret/3")
    maker.post(Boat(id=3), is_remove=True, subject="/secret/3")
    harbour.pump()
    assert low.counts_down("Boat") == [3, 2, 1, 0]
    assert all(boat.speed == 0 for boat in low.objects(Boat))
    harbour.check()


def test_conflated_updates_are_not_sent_to_a_client_that_described_other_keys(
    harbour: Harbour,
) -> None:
    maker, guest = harbour.guest("maker"), harbour.plain("old")
    join, conflate = internal_class("DotsMemberEvent")["join"], internal_class("SkerrySlow")
    guest.send("DotsMember", groupName="Boat", event=join, slow=conflate["conflate"])
    guest.pause()
    maker.publish(Boat(id=1, name=BULK), Boat(id=2))
    guest.connection.renews = True
    guest.describe(skerry.define_types("struct Boat { 1: [key] string id; }").Boat)
    guest.resume()
    assert 2 not in [boat.id for boat in guest.objects(Boat)]
    assert all(item.header.attributes for item in guest.items("Boat"))
    assert not guest.is_cut
