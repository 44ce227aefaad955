"""The types of a node: learned from clients, kept, restored, and adopted when they have changed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission import Admission, AdmissionConfig, PermissionRule
from skerry.engine.events import TypeAdopted, TypeConflict
from skerry.engine.persistence import Journal, StoredObject, StoredType, store_type
from skerry.engine.types import common_fields
from skerry.objects.base import key_of
from skerry.objects.internal import internal_class
from skerry.schema.model import StructType

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


def types(text: str) -> Any:
    return skerry.define_types(text)


OLD = types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Place [substruct_only] { 1: float64 lat; 2: float64 lon; }
    struct Boat [persistent] { 1: [key] uint32 id; 2: string name; 3: Place place; 4: Kind kind; }
    struct Car [persistent] { 1: [key] uint32 id; 2: Place place; }
    """
)
GROWN = types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Place [substruct_only] { 1: float64 lat; 2: float64 lon; }
    struct Boat [persistent] {
        1: [key] uint32 id; 2: string name; 3: Place place; 4: Kind kind; 5: float64 length;
    }
    """
)
BROKEN = types("struct Boat [persistent] { 1: [key] uint32 id; 2: int32 name; }")
DEEPER = types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Place [substruct_only] { 1: float64 lat; 2: float64 lon; 3: float64 depth; }
    struct Boat [persistent] { 1: [key] uint32 id; 2: string name; 3: Place place; 4: Kind kind; }
    """
)
Fleeting = types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat


def stored(obj: Any, *, position: int = 5) -> StoredObject:
    return StoredObject(
        type_name=obj.descriptor.name,
        key=key_of(obj),
        payload=obj.encode(),
        subject="",
        created_ns=1,
        created_from=3,
        modified_ns=2,
        modified_from=4,
        sent_ns=1_500_000_000_000_000_000,
        position=position,
    )


def restored(make_harbour: Callable[..., Harbour], *objs: Any) -> Harbour:
    """A node in its second life."""
    harbour = make_harbour(journal=Journal(rng=Random(1)))
    for cls in {type(obj): None for obj in objs}:
        assert isinstance(cls.descriptor, StructType)
        harbour.node.restored(store_type(cls.descriptor))
    for obj in objs:
        harbour.node.restored(stored(obj))
    return harbour


# -- learning


def test_a_type_is_known_from_its_description_on(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.describe(OLD.Boat)
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert harbour.node.registry.origin("Boat") == f"client {guest.client_id} (guest)"


def test_the_first_definition_stays_and_the_second_is_reported(harbour: Harbour) -> None:
    first, second, plain = harbour.guest("first"), harbour.guest("second"), harbour.plain()
    watcher = harbour.guest("watcher")
    watcher.join("Boat")
    first.publish(Fleeting(id=1, name="Mary"))
    second.publish(GROWN.Boat(id=2, name="Anne", length=9.5))
    plain.publish(GROWN.Boat(id=3, name="Jane", length=9.5))
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    (conflict,) = harbour.node.registry.conflicts
    assert conflict.known_from == f"client {first.client_id} (first)"
    assert conflict.offered == GROWN.Boat.descriptor
    events = harbour.events(TypeConflict)
    assert [event.type_name for event in events] == ["Boat", "Boat"]
    assert "the one from client" in events[0].detail
    assert harbour.node.statistics().conflict_count == 1
    ((what, reason),) = second.refusals()
    assert (what, reason) == ("describe", events[0].detail)
    assert not second.is_cut
    assert not plain.is_cut
    assert [boat.name for boat in watcher.objects(Fleeting)] == ["Mary", "Anne", "Jane"]


def test_the_same_definition_again_is_no_conflict(harbour: Harbour) -> None:
    for name in ("first", "second"):
        harbour.guest(name).publish(Fleeting(id=1))
    assert harbour.node.registry.conflicts == ()
    assert harbour.events(TypeConflict) == []


def test_an_enum_and_a_struct_of_one_name_are_a_conflict(harbour: Harbour) -> None:
    other = types("enum Boat { 1: sloop } struct Sail { 1: [key] uint32 id; 2: Boat boat; }")
    first, second = harbour.guest("first"), harbour.guest("second")
    first.publish(Fleeting(id=1))
    second.describe(other.Sail)
    assert [event.type_name for event in harbour.events(TypeConflict)][:1] == ["Boat"]
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    assert not first.is_cut


# -- the next life


def test_objects_come_back_with_all_that_was_known_of_them(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Boat(id=2))
    harbour.node.restored_meta({"position": 41, "client": 9})
    guest = harbour.guest()
    assert guest.client_id == 10
    guest.join("Boat")
    assert [boat.id for boat in guest.objects(OLD.Boat)] == [1, 2]
    header = guest.items("Boat")[0].header
    assert (header.sender, header.sent_time, header.position) == (4, 1_500_000_000.0, 5)
    assert header.attributes == 0b110
    guest.publish(OLD.Boat(id=1, kind=OLD.Kind.cargo))
    position = guest.items("Boat")[-1].header.position
    assert position > 41
    assert harbour.node.statistics().object_count == 3
    harbour.check()


def test_a_definition_that_has_not_changed_adopts_nothing(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1))
    harbour.guest().describe(OLD.Boat)
    assert harbour.node.take_events()[1:] == []
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1)]


def test_stored_objects_follow_a_definition_that_has_grown(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Boat(id=2))
    watcher = harbour.guest("watcher")
    watcher.join("Boat")
    watcher.open_view(OLD.Boat, 1, where="id > 0")
    watcher.pause()
    maker = harbour.guest("maker")
    maker.publish(OLD.Boat(id=1, name="Anne"))
    harbour.check()
    late = harbour.guest("late")
    late.publish(GROWN.Boat(id=1, length=9.5))
    # The first who described it has settled the matter.
    assert [event.type_name for event in harbour.events(TypeConflict)] == ["Boat"]
    harbour.check()
    watcher.resume()

    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Boat(id=2))
    watcher = harbour.guest("watcher")
    watcher.join("Boat")
    watcher.open_view(OLD.Boat, 1, where="id > 0")
    watcher.pause()
    maker = harbour.guest("maker")
    maker.publish(GROWN.Boat(id=1, length=9.5))
    (adopted,) = harbour.events(TypeAdopted)
    assert adopted == TypeAdopted(type_name="Boat", object_count=2)
    assert harbour.node.registry["Boat"] == GROWN.Boat.descriptor
    assert harbour.cached(GROWN.Boat) == [
        GROWN.Boat(id=1, name="Mary", length=9.5),
        GROWN.Boat(id=2),
    ]
    harbour.check()
    watcher.resume()
    assert watcher.objects(GROWN.Boat)[-1] == GROWN.Boat(id=1, length=9.5)
    ids = [boat.id for boat in watcher.objects(GROWN.Boat, 1)]
    assert ids == [1, 2], "of lengths nobody told it when it asked"
    maker.publish(GROWN.Boat(id=2, name="Anne", length=1.5))
    assert watcher.objects(GROWN.Boat, 1)[-1] == GROWN.Boat(id=2, name="Anne")
    harbour.check()
    journal = harbour.node.journal
    assert journal is not None
    batch = journal.take_batch(0)
    assert batch is not None
    assert batch.types == (StoredType(name="Boat", definition=batch.types[0].definition),)
    assert {put.key for put in batch.puts} == {key_of(GROWN.Boat(id=1)), key_of(GROWN.Boat(id=2))}


@pytest.mark.parametrize("other", [BROKEN.Boat, Fleeting], ids=["other kind", "not stored"])
def test_a_definition_that_stored_objects_cannot_follow_is_a_conflict(
    other: Any, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"))
    guest = harbour.guest()
    guest.describe(other)
    assert harbour.events(TypeAdopted) == []
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    (conflict,) = harbour.node.registry.conflicts
    assert conflict.known_from == "the storage"
    assert [what for what, _ in guest.refusals()] == ["describe"]
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1, name="Mary")]
    harbour.check()


def test_a_part_that_has_changed_is_adopted_by_all_that_are_made_of_it(
    make_harbour: Callable[..., Harbour],
) -> None:
    place = OLD.Place(lat=1.0, lon=2.0)
    harbour = restored(make_harbour, OLD.Boat(id=1, place=place), OLD.Car(id=7, place=place))
    guest = harbour.guest()
    guest.publish(DEEPER.Boat(id=2, place=DEEPER.Place(lat=1.0, lon=2.0, depth=3.0)))
    assert not guest.is_cut, guest.fault
    adopted = {event.type_name for event in harbour.events(TypeAdopted)}
    assert adopted == {"Boat", "Car"}
    assert harbour.node.registry.conflicts == ()
    assert harbour.cached(DEEPER.Boat) == [
        DEEPER.Boat(id=1, place=DEEPER.Place(lat=1.0, lon=2.0)),
        DEEPER.Boat(id=2, place=DEEPER.Place(lat=1.0, lon=2.0, depth=3.0)),
    ]
    harbour.check()


def test_a_part_that_stored_objects_cannot_follow_is_a_conflict(
    make_harbour: Callable[..., Harbour],
) -> None:
    other = types(
        """
        enum Kind { 1: cargo, 2: tanker }
        struct Place [substruct_only] { 1: string lat; }
        struct Boat [persistent] {
            1: [key] uint32 id; 2: string name; 3: Place place; 4: Kind kind;
        }
        """
    )
    harbour = restored(make_harbour, OLD.Boat(id=1, place=OLD.Place(lat=1.0)))
    guest = harbour.guest()
    guest.describe(other.Boat)
    assert [e.type_name for e in harbour.events(TypeConflict)] == ["Place"]
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1, place=OLD.Place(lat=1.0))]
    assert not guest.is_cut
    harbour.check()


def test_a_stored_definition_that_a_client_lives_by_gives_way_to_no_other(
    make_harbour: Callable[..., Harbour],
) -> None:
    # Car is stored, too, and nobody has described that yet.
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Car(id=7))
    first, second = harbour.guest("first"), harbour.guest("second")
    first.describe(OLD.Boat)
    assert harbour.node.registry.origin("Boat") == f"client {first.client_id} (first)"
    second.describe(GROWN.Boat)
    assert [event.type_name for event in harbour.events(TypeConflict)] == ["Boat"]
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert [what for what, _ in second.refusals()] == ["describe"]


@pytest.mark.parametrize("group", ["Boat", "/Boat/*"])
def test_who_was_described_the_stored_definition_is_described_the_new_one(
    group: str, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Car(id=7))
    watcher = harbour.guest("watcher")
    watcher.join(group)
    watcher.join("Car")
    watcher.forget()
    maker = harbour.guest("maker")
    maker.publish(GROWN.Boat(id=1, length=9.5))
    maker.publish(GROWN.Boat(id=1, length=9.6))
    assert watcher.names() == ["StructDescriptorData", "Boat", "Boat"]
    (told,) = watcher.messages("StructDescriptorData")
    assert [item.name for item in told.properties][-1] == "length"
    assert "StructDescriptorData" not in maker.names()
    harbour.check()


def test_what_is_lost_by_a_new_definition_is_told(make_harbour: Callable[..., Harbour]) -> None:
    old = types("struct Boat [persistent] { 1: [key] uint32 id; 3: float64 weight; }").Boat
    new = types("struct Boat [persistent] { 1: [key] uint32 id; 3: duration trip; }").Boat
    harbour = restored(make_harbour, old(id=1, weight=7.5))
    harbour.guest().describe(new)
    (adopted,) = harbour.events(TypeAdopted)
    assert len(adopted.losses) == 1
    assert "trip" in adopted.losses[0]


# -- two definitions, one of them with a program that speaks plain DOTS

WIDE = types(
    """
    enum Rig { 1: sloop, 2: ketch }
    struct Berth { 1: uint32 pier; 2: string note; }
    struct Ship { 1: [key] uint32 id; 2: string name; 3: string more; 4: Berth berth; 5: Rig rig; }
    """
)
LONG = "y" * 100


def tags_of(guest: Guest, name: str = "Ship") -> list[list[int]]:
    """The tags that came with each object of a type."""
    return [sorted(WIDE.Ship.decode(i.payload).attributes) for i in guest.items(name)]


def narrow(text: str) -> Any:
    return types(text).Ship


NARROW = "struct Ship { 1: [key] uint32 id; 2: string name; }"


def test_a_plain_guest_is_told_the_fields_that_it_described_and_no_other(harbour: Harbour) -> None:
    guest, maker, late = harbour.plain("old"), harbour.guest("maker"), harbour.plain("late")
    maker.publish(WIDE.Ship(id=1, name="Mary", more=LONG))
    guest.describe(narrow(NARROW))
    guest.join("Ship")
    late.join("Ship")
    maker.publish(WIDE.Ship(id=2, name="Anne", more=LONG))
    maker.publish(WIDE.Ship(id=2, more=LONG))
    maker.remove(WIDE.Ship(id=2))
    assert tags_of(guest) == [[1, 2], [1, 2], [1], [1]]
    assert [int(item.header.attributes) for item in guest.items("Ship")] == [6, 6, 2, 2]
    assert tags_of(late) == [[1, 2, 3], [1, 2, 3], [1, 3], [1]]
    assert not guest.is_cut


def test_a_plain_guest_with_another_definition_is_told_by_patterns_and_views(
    harbour: Harbour,
) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary", more=LONG))
    guest.describe(narrow(NARROW))
    guest.join("/Ship/*")
    guest.open_view(narrow(NARROW), 7, where="name like 'M%'")
    assert [len(item.payload) < 20 for item in guest.heard if item.header.type_name == "Ship"] == [
        True,
        True,
    ]
    guest.forget()
    guest.pause()
    for number in range(100):
        maker.post(WIDE.Ship(id=2, name=f"Mary {number}", more=LONG))
    harbour.pump()
    guest.resume()
    assert tags_of(guest) == [[1, 2]] * 100
    assert len(guest.items("Ship", 7)) == 100


def test_a_plain_guest_whose_keys_are_others_is_told_nothing_of_the_type(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary"))
    guest.describe(narrow("struct Ship { 1: [key] string id; 2: string name; }"))
    guest.join("Ship")
    guest.open_view(WIDE.Ship, 7, where="id > 0")
    maker.publish(WIDE.Ship(id=2, name="Anne"))
    assert guest.items("Ship") == guest.items("Ship", 7) == []
    assert not guest.is_cut
    assert harbour.row("Ship").refused == 1


def test_a_view_ends_with_the_definition_it_was_of(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary"))
    guest.open_view(WIDE.Ship, 7, where="id > 0")
    guest.connection.forget_described("Ship")
    guest.describe(narrow("struct Ship { 1: [key] string id; 2: string name; }"))
    guest.forget()
    maker.publish(WIDE.Ship(id=2, name="Anne"))
    assert guest.items("Ship", 7) == []


def test_a_part_with_another_definition_is_left_out_for_a_plain_guest(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary", berth=WIDE.Berth(pier=3, note=LONG)))
    old = narrow(
        """
        enum Rig { 1: sloop, 2: ketch, 3: yawl }
        struct Berth { 1: uint32 pier; }
        struct Ship { 1: [key] uint32 id; 2: string name; 3: string more; 4: Berth berth;
            5: Rig rig; }
        """
    )
    guest.describe(old)
    guest.join("Ship")
    assert tags_of(guest) == [[1, 2]]
    # All elements that are in use it has, and one more.
    maker.publish(WIDE.Ship(id=1, rig=WIDE.Rig.ketch))
    assert tags_of(guest) == [[1, 2], [1, 5]]


def test_a_plain_guest_that_describes_the_type_rightly_in_the_end_is_told_all(
    harbour: Harbour,
) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, more=LONG))
    guest.describe(narrow(NARROW))
    guest.connection.forget_described("Ship")
    guest.describe(WIDE.Ship)
    guest.join("Ship")
    assert tags_of(guest) == [[1, 3]]


@pytest.mark.parametrize(
    ("other", "common"),
    [
        ("struct Ship { 1: [key] uint32 id; 2: string name; }", 0b110),
        ("struct Ship { 1: [key] uint32 id; 2: float64 name; 9: bool x; }", 0b10),
        ("struct Ship { 1: [key] uint32 id; 2: [key] string name; }", 0),
        ("struct Ship { 1: uint32 id; 2: string name; }", 0),
        ("struct Ship { 2: string name; }", 0),
    ],
)
def test_what_two_definitions_have_in_common(other: str, common: int) -> None:
    assert common_fields(WIDE.Ship.descriptor, narrow(other).descriptor, frozenset()) == common


def test_definitions_of_an_enum_have_all_in_common_or_nothing() -> None:
    known = WIDE.Rig.descriptor
    more = types("enum Rig { 1: sloop, 2: ketch, 3: yawl }").Rig.descriptor
    less = types("enum Rig { 1: sloop }").Rig.descriptor
    assert common_fields(known, more, frozenset()) == -1
    assert common_fields(known, less, frozenset()) == 0
    assert common_fields(known, WIDE.Ship.descriptor, frozenset()) == 0
    assert common_fields(WIDE.Ship.descriptor, known, frozenset()) == 0
    assert common_fields(WIDE.Ship.descriptor, WIDE.Ship.descriptor, frozenset()) == -1


def test_what_a_plain_guest_is_told_follows_a_stored_type_that_gives_way(
    make_harbour: Callable[..., Harbour],
) -> None:
    stored = narrow("struct Ship [persistent] { 1: [key] uint32 id; 2: string name; }")
    other = narrow("struct Ship { 1: [key] uint32 id; 2: string name; 3: int32 speed; }")
    new = narrow("struct Ship [persistent] { 1: [key] uint32 id; 2: string name; 3: string more; }")
    harbour = restored(make_harbour, stored(id=1, name="Mary"))
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    guest.describe(other)
    guest.join("Ship")
    guest.forget()
    maker.publish(new(id=2, name="Anne", more=LONG))
    assert "Ship" in [event.type_name for event in harbour.events(TypeAdopted)]
    assert tags_of(guest) == [[1, 2]]
    assert "StructDescriptorData" not in guest.names()
    harbour.check()


BY_PATTERN = (
    PermissionRule(verbs=("subscribe",), subjects=("/harbour/...",), client="old"),
    PermissionRule(verbs=("all",), client="maker"),
)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_plain_guest_that_hears_of_a_type_by_a_pattern_is_told_what_it_has(
    is_known: bool, make_harbour: Callable[..., Harbour]
) -> None:
    config = AdmissionConfig(permission=BY_PATTERN)
    harbour = make_harbour(admission=Admission(config, rng=Random(1)))
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    berth = WIDE.Berth(pier=3, note=LONG)
    if is_known:
        maker.describe(WIDE.Ship)
    guest.describe(
        narrow(
            """
            struct Berth { 1: uint32 pier; }
            struct Ship { 1: [key] uint32 id; 2: float64 name; 3: string more; 4: Berth berth; }
            """
        )
    )
    guest.join("/harbour/...")
    maker.publish(WIDE.Ship(id=1, name="Mary", more=LONG, berth=berth), subject="/harbour/1")
    assert tags_of(guest) == [[1, 3]]
    assert "StructDescriptorData" not in guest.names()
    assert not guest.is_cut
    harbour.check()


def test_a_plain_guest_with_a_definition_that_makes_no_sense_is_told_nothing_of_the_type(
    make_harbour: Callable[..., Harbour],
) -> None:
    config = AdmissionConfig(permission=BY_PATTERN)
    harbour = make_harbour(admission=Admission(config, rng=Random(1)))
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    part = internal_class("StructPropertyData")(name="x", tag=1, isKey=False, type="Missing")
    guest.send("StructDescriptorData", name="Ship", properties=[part])
    guest.join("/harbour/...")
    maker.publish(WIDE.Ship(id=1, name="Mary"), subject="/harbour/1")
    assert guest.items("Ship") == []
    assert not guest.is_cut
    guest.goodbye()
    maker.describe(WIDE.Berth)
    harbour.check()
