"""The types of a node: described by clients, united while several definitions are in use."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.clients import READING_COUNT_MAX
from skerry.engine.events import DefinitionRefused, TypeChanged
from skerry.engine.persistence import Journal, StoredObject, WriteBatch, store_type
from skerry.engine.types.type_table import UNKNOWN_SCAN_COUNT_MAX
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.base import key_of
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
    """A node after a restart."""
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
    (definition,) = harbour.node.registry.definitions("Boat")
    assert harbour.node.registry.users(definition) == f"client {guest.client_id} (guest)"


def test_a_compatible_definition_is_accepted_and_every_program_receives_its_fields(
    harbour: Harbour,
) -> None:
    first, second = harbour.guest("first"), harbour.guest("second")
    old, new, plain = harbour.guest("old"), harbour.guest("new"), harbour.plain("plain")
    first.publish(Fleeting(id=1, name="Mary"))
    for reader, cls in ((old, Fleeting), (new, GROWN.Boat), (plain, Fleeting)):
        reader.describe(cls)
        reader.join("Boat")
    second.publish(GROWN.Boat(id=1, length=9.5), GROWN.Boat(id=2, name="Anne", length=7.5))
    assert second.refusals() == []
    assert [field.name for field in harbour.node.registry["Boat"].fields] == [
        *("id", "name", "place", "kind", "length")
    ]
    whole = [GROWN.Boat(id=1, name="Mary", length=9.5), GROWN.Boat(id=2, name="Anne", length=7.5)]
    known = [Fleeting(id=1, name="Mary"), Fleeting(id=2, name="Anne")]
    assert list(new.sees(GROWN.Boat).values()) == whole
    assert list(old.sees(Fleeting).values()) == known
    assert list(plain.sees(Fleeting).values()) == known
    assert all(len(item.payload) < 10 for item in plain.items("Boat"))
    first.publish(Fleeting(id=2, name="Jane"))
    assert harbour.cached(GROWN.Boat) == [whole[0], GROWN.Boat(id=2, name="Jane", length=7.5)]
    assert harbour.node.statistics().conflict_count == 0


def test_an_incompatible_definition_is_refused_with_the_field_and_the_users_of_the_other(
    harbour: Harbour,
) -> None:
    first, second, plain = harbour.guest("first"), harbour.guest("second"), harbour.plain()
    watcher = harbour.guest("watcher")
    watcher.join("Boat")
    first.publish(Fleeting(id=1, name="Mary"))
    harbour.events(DefinitionRefused)
    second.publish(BROKEN.Boat(id=2, name=7), BROKEN.Boat(id=1, name=8))
    plain.publish(BROKEN.Boat(id=3, name=9))
    (event, _) = harbour.events(DefinitionRefused)
    for part in ("Boat.name", "string to int32", "client 2 (first)", "client 3 (second)"):
        assert part in event.detail
    assert harbour.node.statistics().conflict_count == 1
    assert [what for what, _ in second.refusals()] == ["describe", "publish", "publish"]
    assert {reason for _, reason in second.refusals()} == {event.detail}
    assert not second.is_cut
    assert "Boat.name" in plain.fault
    assert harbour.cached(Fleeting) == [Fleeting(id=1, name="Mary")], "nothing is half applied"
    assert watcher.objects(Fleeting) == [Fleeting(id=1, name="Mary")]


def test_a_program_with_an_incompatible_definition_reads_what_both_have(harbour: Harbour) -> None:
    maker, ours, plain = harbour.guest("maker"), harbour.guest("ours"), harbour.plain()
    maker.publish(Fleeting(id=1, name="Mary"))
    for reader in (ours, plain):
        reader.describe(BROKEN.Boat)
        reader.join("Boat")
    maker.publish(Fleeting(id=2, name="Anne"))
    for reader in (ours, plain):
        assert reader.objects(BROKEN.Boat) == [BROKEN.Boat(id=1), BROKEN.Boat(id=2)]
        assert not reader.is_cut


def test_an_unused_definition_is_replaced(harbour: Harbour) -> None:
    first, second = harbour.guest("first"), harbour.guest("second")
    first.publish(Fleeting(id=1, name="Mary"))
    second.publish(BROKEN.Boat(id=2, name=7))
    first.goodbye()
    second.forget()
    second.publish(BROKEN.Boat(id=2, name=7))
    ((_, reason),) = second.refusals()
    assert "objects of Boat" in reason
    other = harbour.guest("other")
    other.remove(Fleeting(id=1))
    other.goodbye()
    second.forget()
    second.publish(BROKEN.Boat(id=2, name=7))
    assert second.refusals() == []
    assert harbour.cached(BROKEN.Boat) == [BROKEN.Boat(id=2, name=7)]
    assert [field.name for field in harbour.node.registry["Boat"].fields] == ["id", "name"]


def test_a_reader_does_not_keep_a_publisher_with_another_definition_out(harbour: Harbour) -> None:
    reader, maker = harbour.guest("reader"), harbour.guest("maker")
    reader.describe(BROKEN.Boat)
    reader.join("Boat")
    maker.publish(Fleeting(id=1, name="Mary"))
    assert maker.refusals() == []
    assert harbour.cached(Fleeting) == [Fleeting(id=1, name="Mary")]
    assert reader.objects(BROKEN.Boat) == [BROKEN.Boat(id=1)]
    (event,) = harbour.events(DefinitionRefused)
    assert "client 2 (reader)" in event.detail
    assert reader.refusals() == [("describe", event.detail)]
    reader.publish(BROKEN.Boat(id=1, name=8))
    assert [what for what, _ in reader.refusals()] == ["describe", "publish"]


def test_of_two_clients_that_described_a_type_the_first_to_publish_decides(
    harbour: Harbour,
) -> None:
    first, second = harbour.guest("first"), harbour.guest("second")
    first.describe(BROKEN.Boat)
    second.describe(Fleeting)
    assert first.refusals() == second.refusals() == []
    first.publish(BROKEN.Boat(id=1, name=8))
    second.publish(Fleeting(id=2, name="Mary"))
    assert first.refusals() == []
    assert [what for what, _ in second.refusals()] == ["publish"]
    assert harbour.cached(BROKEN.Boat) == [BROKEN.Boat(id=1, name=8)]


def test_the_same_definition_again_changes_nothing(harbour: Harbour) -> None:
    for name in ("first", "second"):
        harbour.guest(name).publish(Fleeting(id=1))
    assert len(harbour.node.registry.definitions("Boat")) == 1
    events = harbour.node.take_events()
    assert not [event for event in events if isinstance(event, (TypeChanged, DefinitionRefused))]


def test_a_change_of_a_served_definition_is_reported(harbour: Harbour) -> None:
    harbour.guest("first").publish(Fleeting(id=1))
    second = harbour.guest("second")
    second.publish(GROWN.Boat(id=1))
    (event,) = harbour.events(TypeChanged)
    assert (event.type_name, event.client_id, event.name) == ("Boat", second.client_id, "second")
    assert event.added == ("3: Place place", "4: Kind kind", "5: float64 length")


def test_an_enum_and_a_struct_of_one_name_are_a_conflict(harbour: Harbour) -> None:
    other = types("enum Boat { 1: sloop } struct Sail { 1: [key] uint32 id; 2: Boat boat; }")
    first, second = harbour.guest("first"), harbour.guest("second")
    first.publish(Fleeting(id=1))
    second.publish(other.Sail(id=1, boat=other.Boat.sloop))
    assert [event.type_name for event in harbour.events(DefinitionRefused)] == ["Boat", "Sail"]
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    assert "Sail" in harbour.node.registry
    assert harbour.cached(other.Sail) == []
    assert not first.is_cut


def test_a_part_that_grows_grows_in_all_types_that_use_it(harbour: Harbour) -> None:
    first, second, reader = harbour.guest("first"), harbour.guest("second"), harbour.guest("reader")
    first.publish(OLD.Boat(id=1, place=OLD.Place(lat=1.0)), OLD.Car(id=1, place=OLD.Place(lat=2.0)))
    reader.join("Car")
    second.publish(DEEPER.Boat(id=1, place=DEEPER.Place(lat=1.0, depth=3.0)))
    assert second.refusals() == []
    served: Any = harbour.node.registry["Car"]
    assert [field.name for field in served.field("place").type.fields] == ["lat", "lon", "depth"]
    first.publish(OLD.Car(id=2, place=OLD.Place(lat=4.0)))
    assert [car.place.lat for car in reader.objects(OLD.Car)] == [2.0, 4.0]
    described = [m.name for m in reader.messages("StructDescriptorData")]
    assert described == ["Place", "Car", "Place", "Car"], "the second time as it is then"


def test_a_new_element_is_sent_to_clients_that_know_it_and_unset_for_others(
    harbour: Harbour,
) -> None:
    tug = "struct Tug { 1: [key] uint32 id; 2: Kind kind; 3: bool a; }"
    old, new = (
        types(f"enum Kind {{ 1: cargo }} {tug}"),
        types(f"enum Kind {{ 1: cargo, 2: pilot }} {tug}"),
    )
    maker, ours, plain = harbour.guest("maker"), harbour.guest("ours"), harbour.plain()
    for reader in (ours, plain):
        reader.describe(old.Tug)
        reader.join("Tug")
    maker.publish(new.Tug(id=1, kind=new.Kind.cargo, a=True))
    maker.publish(new.Tug(id=1, kind=new.Kind.pilot))
    fresh = harbour.guest("fresh")
    fresh.join("Tug")
    assert fresh.objects(new.Tug) == [new.Tug(id=1, kind=new.Kind.pilot, a=True)]
    for reader in (ours, plain):
        assert reader.objects(old.Tug)[0] == old.Tug(id=1, kind=old.Kind.cargo, a=True)
        assert list(reader.sees(old.Tug).values()) == [old.Tug(id=1, a=True)]
    ours.publish(old.Tug(id=1, kind=old.Kind.cargo))
    assert fresh.objects(new.Tug)[-1] == new.Tug(id=1, kind=new.Kind.cargo)


def test_a_wider_number_is_sent_to_clients_that_can_read_it(harbour: Harbour) -> None:
    old = types("struct Tug { 1: [key] uint32 id; 2: uint8 crew; }").Tug
    new = types("struct Tug { 1: [key] uint64 id; 2: uint32 crew; }").Tug
    maker, ours, plain = harbour.guest("maker"), harbour.guest("ours"), harbour.plain()
    for reader in (ours, plain):
        reader.describe(old)
        reader.join("Tug")
    maker.publish(new(id=1, crew=5), new(id=1, crew=500), new(id=2**40, crew=1))
    maker.remove(new(id=2**40))
    for reader in (ours, plain):
        assert reader.objects(old) == [old(id=1, crew=5), old(id=1)]
        assert [int(i.header.attributes) for i in reader.items("Tug")] == [6, 6]
    late = harbour.plain("late")
    maker.publish(new(id=2**40, crew=1))
    late.describe(old)
    late.join("Tug")
    assert late.objects(old) == [old(id=1)]
    assert len(late.messages("DotsCacheInfo")) == 1


def test_kept_projections_of_a_type_are_limited(harbour: Harbour) -> None:
    maker, reader = harbour.guest("maker"), harbour.plain("reader")
    maker.publish(GROWN.Boat(id=1, name="Mary", length=1.0))
    topic = harbour.node._types.topic("Boat")
    assert topic is not None
    topic.readings.update({(number, True): None for number in range(READING_COUNT_MAX)})
    reader.describe(Fleeting)
    reader.join("Boat")
    assert reader.objects(Fleeting) == [Fleeting(id=1, name="Mary")]
    assert len(topic.readings) == 1


def test_filters_see_every_field_and_give_what_their_client_knows(harbour: Harbour) -> None:
    maker, old, new = harbour.guest("maker"), harbour.guest("old"), harbour.guest("new")
    old.publish(Fleeting(id=1, name="Mary"))
    old.open_view(Fleeting, 1, where="name like 'M%'")
    maker.publish(GROWN.Boat(id=1, length=3.0), GROWN.Boat(id=2, name="Max", length=9.0))
    new.describe(GROWN.Boat)
    new.open_view(GROWN.Boat, 2, where="length > 5")
    maker.publish(GROWN.Boat(id=1, length=6.0))
    assert list(old.sees(Fleeting, 1).values()) == [
        Fleeting(id=1, name="Mary"),
        Fleeting(id=2, name="Max"),
    ]
    assert list(new.sees(GROWN.Boat, 2).values()) == [
        GROWN.Boat(id=2, name="Max", length=9.0),
        GROWN.Boat(id=1, name="Mary", length=6.0),
    ]


def test_a_filter_on_a_field_that_no_publisher_has_selects_nothing(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), client="reader"),
        PermissionRule(verbs=("all",), client="maker"),
    )
    harbour = make_harbour(
        admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)),
    )
    reader, maker = harbour.guest("reader"), harbour.guest("maker")
    reader.describe(GROWN.Boat)
    reader.open_view(GROWN.Boat, 1, where="length > 5 or name = 'Mary'")
    assert reader.refusals() == []
    maker.publish(Fleeting(id=1, name="Anne"), Fleeting(id=2, name="Mary"))
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    assert reader.objects(GROWN.Boat, 1) == [GROWN.Boat(id=2, name="Mary")]
    harbour.check()


def test_a_filter_is_read_by_the_definition_of_its_client(harbour: Harbour) -> None:
    rig = "enum Rig {{ 1: sloop {} }}"
    tug = "struct Tug {{ 1: [key] uint32 id; 2: {} at; 3: Rig rig; }}"
    old = types(rig.format("") + tug.format("float64"))
    new = types(rig.format(", 2: ketch") + tug.format("timepoint"))
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    maker.publish(old.Tug(id=1, at=5.0), old.Tug(id=2, at=7.0))
    reader.describe(new.Tug)
    reader.open_view(new.Tug, 1, where="at > '1970-01-01T00:00:06Z' or rig = 'ketch'")
    assert reader.refusals() == []
    assert [tug.id for tug in reader.objects(new.Tug, 1)] == [2]
    reader.publish(new.Tug(id=1, rig=new.Rig.ketch))
    assert [tug.id for tug in reader.objects(new.Tug, 1)] == [2, 1]


def test_a_filter_stays_when_its_field_goes_with_the_last_publisher(harbour: Harbour) -> None:
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    maker.publish(GROWN.Boat(id=1, length=6.0))
    reader.open_view(GROWN.Boat, 1, where="length > 5")
    maker.remove(GROWN.Boat(id=1))
    maker.goodbye()
    other = harbour.guest("other")
    other.publish(Fleeting(id=2, name="Mary"))
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    again = harbour.guest("again")
    again.publish(GROWN.Boat(id=2, length=7.0))
    assert [boat.id for boat in reader.objects(GROWN.Boat, 1)] == [1, 2]


def test_a_filter_on_a_field_that_became_another_selects_nothing(harbour: Harbour) -> None:
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    maker.publish(Fleeting(id=1, name="Mary"))
    reader.open_view(Fleeting, 1, where="name like 'M%'")
    maker.remove(Fleeting(id=1))
    maker.goodbye()
    other = harbour.guest("other")
    other.publish(BROKEN.Boat(id=2, name=7))
    assert other.refusals() == []
    assert [boat.id for boat in reader.objects(Fleeting, 1)] == [1]


def test_messages_that_wait_are_dropped_when_their_type_becomes_incompatible(
    harbour: Harbour,
) -> None:
    text = "struct Tick [cached=false] {{ 1: [key] uint32 id; 2: {} value; }}"
    old, new = (types(text.format(kind)).Tick for kind in ("string", "uint32"))
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    maker.describe(old)
    reader.join("Tick", is_conflated=True)
    reader.open_view(old, 1, where="value like 'x%'", is_conflated=True)
    reader.pause()
    for _ in range(300):
        maker.post(old(id=1, value="x" * 500))
    harbour.pump()
    maker.goodbye()
    other = harbour.guest("other")
    other.publish(new(id=1, value=7))
    reader.resume()
    assert other.refusals() == []
    last = reader.items("Tick")[-1]
    assert new.decode(last.payload) == new(id=1, value=7)
    assert not reader.is_cut


def test_a_refused_definition_is_not_forwarded(harbour: Harbour) -> None:
    maker, watcher = harbour.guest("maker"), harbour.guest("watcher")
    maker.publish(Fleeting(id=1, name="Mary"))
    watcher.join("StructDescriptorData")
    watcher.forget()
    harbour.guest("other").describe(BROKEN.Boat)
    harbour.plain("plain").describe(BROKEN.Boat)
    assert watcher.names() == []


def test_subscribers_of_descriptions_receive_the_definition_that_won_by_publishing(
    harbour: Harbour,
) -> None:
    watcher = harbour.guest("watcher")
    watcher.join("StructDescriptorData")
    harbour.guest("first").describe(BROKEN.Boat)
    watcher.forget()
    second = harbour.guest("second")
    second.describe(Fleeting)
    assert watcher.names() == []
    second.publish(Fleeting(id=1, name="Mary"))
    (notified,) = watcher.messages("StructDescriptorData")
    assert [item.type for item in notified.properties] == ["uint32", "string"]


def test_a_client_that_may_only_subscribe_does_not_define_a_type(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), client="reader"),
        PermissionRule(verbs=("all",), client="maker"),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)))
    reader, maker, late = harbour.guest("reader"), harbour.guest("maker"), harbour.guest("maker")
    late.join("StructDescriptorData")
    late.forget()
    reader.describe(BROKEN.Boat)
    reader.join("Boat")
    assert late.names() == []
    maker.send("DotsDescriptorRequest")
    assert "StructDescriptorData" not in maker.names()
    maker.publish(Fleeting(id=1, name="Mary"))
    assert harbour.node.registry["Boat"] == Fleeting.descriptor
    assert maker.refusals() == []
    assert reader.objects(BROKEN.Boat) == [BROKEN.Boat(id=1)]
    assert harbour.node.statistics().conflict_count == 0
    harbour.check()


# -- undescribed tags


def test_an_undescribed_tag_becomes_a_field_when_it_is_defined(
    harbour: Harbour, make_header: Any
) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    guest.publish(Fleeting(id=1, name="Mary"))
    header = make_header(Fleeting(id=1))
    header.attributes |= 1 << 9
    guest.say(header, bytes.fromhex("a2 01 01 09 18 2a"))
    misfit = types("struct Boat { 1: [key] uint32 id; 9: string more; }").Boat
    other.publish(misfit(id=1))
    reasons = [reason for _, reason in other.refusals()]
    assert len(reasons) == 2
    assert "objects have values that no definition described" in reasons[0]
    fitting = types("struct Boat { 1: [key] uint32 id; 9: uint32 more; }").Boat
    third = harbour.guest("third")
    third.publish(fitting(id=2, more=7))
    assert third.refusals() == []
    assert harbour.cached(fitting) == [fitting(id=1, more=42), fitting(id=2, more=7)]


@pytest.mark.slow
@pytest.mark.parametrize("is_over", [False, True])
def test_the_examination_of_undescribed_tags_is_limited(
    is_over: bool, harbour: Harbour, make_header: Any
) -> None:
    guest = harbour.guest()
    guest.publish(*(Fleeting(id=number) for number in range(1, 10)))
    topic = harbour.node._types.topic("Boat")
    assert topic is not None
    header = make_header(Fleeting(id=1))
    header.attributes |= 1 << 9
    frame = guest.connection.wire.frame
    numbers = range(300, 300 + UNKNOWN_SCAN_COUNT_MAX + is_over)
    payloads = [bytes.fromhex(f"a2 01 19 {number:04x} 09 18 2a") for number in numbers]
    guest.say_bytes(b"".join(frame(header, payload) for payload in payloads))
    assert len(topic.type_cache.unknown_keys) == UNKNOWN_SCAN_COUNT_MAX + is_over
    more = types("struct Boat { 1: [key] uint32 id; 9: uint32 more; }").Boat
    other = harbour.guest("other")
    other.publish(more(id=2, more=7))
    assert bool(other.refusals()) == is_over
    guest.remove(Fleeting(id=300))
    third = harbour.guest("third")
    third.publish(more(id=3, more=8))
    assert third.refusals() == []


def test_undescribed_tags_survive_a_restart(
    make_harbour: Callable[..., Harbour], make_header: Any
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"))
    guest = harbour.guest()
    header = make_header(OLD.Boat(id=1))
    header.attributes |= 1 << 9
    guest.describe(OLD.Boat)
    guest.say(header, bytes.fromhex("a2 01 01 09 18 2a"))
    batch = batch_of(harbour)
    assert batch is not None
    again = make_harbour(journal=Journal(rng=Random(1)))
    for stored_before in batch.types:
        again.node.restored(stored_before)
    for put in batch.puts:
        again.node.restored(put)
    plain, ours = again.plain(), again.guest("ours")
    for reader in (plain, ours):
        reader.join("Boat")
        assert reader.objects(OLD.Boat) == [OLD.Boat(id=1, name="Mary")]
    assert bytes.fromhex("09 18 2a") in ours.items("Boat")[0].payload
    assert bytes.fromhex("09 18 2a") not in plain.items("Boat")[0].payload
    more = types("struct Boat [persistent] { 1: [key] uint32 id; 9: uint32 more; }").Boat
    third = again.guest("third")
    third.publish(more(id=2))
    assert third.refusals() == []
    assert [boat.more for boat in again.cached(more)] == [42, None]


def test_undescribed_tags_inside_a_struct_are_kept(harbour: Harbour, make_header: Any) -> None:
    guest, plain, ours = harbour.guest(), harbour.plain(), harbour.guest("ours")
    guest.publish(OLD.Boat(id=1, name="Mary"))
    for reader in (plain, ours):
        reader.describe(OLD.Boat)
        reader.join("Boat")
        reader.forget()
    header = make_header(OLD.Boat(id=1))
    header.attributes |= 1 << 3
    inside = bytes.fromhex("a2 01 01 03 a2 01 fb3ff0000000000000 09 02")
    guest.say(header, inside)
    ((_, entry),) = harbour.node.cache.objects("Boat")
    assert bytes.fromhex("09 02") in entry.payload
    assert ours.items("Boat")[0].payload == inside
    assert plain.items("Boat")[0].payload == OLD.Boat(id=1, place=OLD.Place(lat=1.0)).encode()
    third = harbour.guest("third")
    third.publish(DEEPER.Boat(id=2))
    assert any("no definition described" in reason for _, reason in third.refusals())


# -- the next life


def test_objects_are_restored_with_all_their_facts(
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


def batch_of(harbour: Harbour) -> WriteBatch | None:
    journal = harbour.node.journal
    assert journal is not None
    return journal.take_batch(0)


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("other", ["struct Boat [persistent] { 1: [key] uint32 id; }", "narrow"])
def test_a_reader_with_a_narrower_definition_changes_nothing_that_is_stored(
    other: str, is_plain: bool, make_harbour: Callable[..., Harbour]
) -> None:
    whole = OLD.Boat(id=1, name="Mary", place=OLD.Place(lat=1.0), kind=OLD.Kind.tanker)
    harbour = restored(make_harbour, whole, OLD.Boat(id=2, name="Anne"))
    narrow = Fleeting if other == "narrow" else types(other).Boat
    reader = harbour.plain("reader") if is_plain else harbour.guest("reader")
    reader.describe(narrow)
    reader.join("Boat")
    assert [boat.id for boat in reader.objects(narrow)] == [1, 2]
    assert harbour.cached(OLD.Boat) == [whole, OLD.Boat(id=2, name="Anne")]
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert batch_of(harbour) is None
    reader.publish(narrow(id=2))
    assert harbour.cached(OLD.Boat) == [whole, OLD.Boat(id=2, name="Anne")]
    harbour.check()


def test_stored_objects_stay_as_they_are_when_their_type_grows(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Boat(id=2))
    watcher = harbour.guest("watcher")
    watcher.join("Boat")
    watcher.open_view(OLD.Boat, 1, where="id > 0")
    watcher.pause()
    maker = harbour.guest("maker")
    maker.describe(GROWN.Boat)
    assert batch_of(harbour) is None, "a description alone is not stored"
    maker.publish(GROWN.Boat(id=1, length=9.5))
    assert harbour.node.registry["Boat"] == GROWN.Boat.descriptor
    assert harbour.cached(GROWN.Boat) == [
        GROWN.Boat(id=1, name="Mary", length=9.5),
        GROWN.Boat(id=2),
    ]
    harbour.check()
    watcher.resume()
    assert watcher.objects(GROWN.Boat)[-1] == GROWN.Boat(id=1, length=9.5)
    assert [boat.id for boat in watcher.objects(GROWN.Boat, 1)] == [1, 2, 1]
    maker.publish(GROWN.Boat(id=2, name="Anne", length=1.5))
    assert watcher.objects(GROWN.Boat, 1)[-1] == GROWN.Boat(id=2, name="Anne", length=1.5)
    harbour.check()
    batch = batch_of(harbour)
    assert batch is not None
    assert [stored.name for stored in batch.types] == ["Boat"]
    assert batch.types == (store_type(GROWN.Boat.descriptor),)
    assert {put.key for put in batch.puts} == {key_of(GROWN.Boat(id=1)), key_of(GROWN.Boat(id=2))}


def test_an_incompatible_definition_is_refused_because_of_stored_objects(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"))
    guest = harbour.guest()
    guest.publish(BROKEN.Boat(id=1, name=7))
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert [what for what, _ in guest.refusals()] == ["describe", "publish"]
    assert all("objects of Boat" in reason for _, reason in guest.refusals())
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1, name="Mary")]
    harbour.check()


def test_an_incompatible_part_is_refused_because_of_stored_objects_of_its_name(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"))
    fleet = types(
        """
        struct Boat { 1: [key] uint32 id; 2: int32 name; }
        struct Fleet { 1: [key] uint32 id; 2: vector<Boat> boats; }
        """
    )
    guest = harbour.guest()
    guest.publish(fleet.Fleet(id=1, boats=[fleet.Boat(id=1, name=7)]))
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert {what for what, _ in guest.refusals()} == {"describe", "publish"}
    assert all("objects of Boat" in reason for _, reason in guest.refusals())
    assert harbour.cached(fleet.Fleet) == []
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1, name="Mary")]


def test_a_stored_type_without_objects_is_free_to_change(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(journal=Journal(rng=Random(1)))
    harbour.node.restored(store_type(OLD.Boat.descriptor))
    assert "Boat" not in harbour.node.registry
    guest = harbour.guest()
    guest.publish(BROKEN.Boat(id=1, name=7))
    assert guest.refusals() == []
    batch = batch_of(harbour)
    assert batch is not None
    assert batch.types == (store_type(BROKEN.Boat.descriptor),)


def test_a_definition_that_is_not_persistent_does_not_stop_storing(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"))
    guest = harbour.guest()
    guest.publish(Fleeting(id=2, name="Anne"))
    assert guest.refusals() == []
    batch = batch_of(harbour)
    assert batch is not None
    assert [put.key for put in batch.puts] == [key_of(Fleeting(id=2))]


def test_a_part_of_stored_types_grows_in_all_of_them(make_harbour: Callable[..., Harbour]) -> None:
    place = OLD.Place(lat=1.0, lon=2.0)
    harbour = restored(make_harbour, OLD.Boat(id=1, place=place), OLD.Car(id=7, place=place))
    guest = harbour.guest()
    guest.publish(DEEPER.Boat(id=2, place=DEEPER.Place(lat=1.0, lon=2.0, depth=3.0)))
    assert guest.refusals() == []
    assert harbour.cached(DEEPER.Boat) == [
        DEEPER.Boat(id=1, place=DEEPER.Place(lat=1.0, lon=2.0)),
        DEEPER.Boat(id=2, place=DEEPER.Place(lat=1.0, lon=2.0, depth=3.0)),
    ]
    assert harbour.cached(OLD.Car) == [OLD.Car(id=7, place=place)]
    harbour.check()


def test_a_part_that_is_incompatible_keeps_the_types_that_use_it_out(
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
    guest.publish(other.Boat(id=1, name="Anne"))
    assert [e.type_name for e in harbour.events(DefinitionRefused)] == ["Place", "Boat"]
    assert all("Place.lat" in reason for _, reason in guest.refusals())
    assert harbour.node.registry["Boat"] == OLD.Boat.descriptor
    assert harbour.cached(OLD.Boat) == [OLD.Boat(id=1, place=OLD.Place(lat=1.0))]
    assert not guest.is_cut
    harbour.check()


@pytest.mark.parametrize("group", ["Boat", "/Boat/*"])
def test_a_client_receives_a_new_description_when_the_type_changes(
    group: str, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = restored(make_harbour, OLD.Boat(id=1, name="Mary"), OLD.Car(id=7))
    watcher, plain = harbour.guest("watcher"), harbour.plain()
    for reader in (watcher, plain):
        reader.join(group)
        reader.join("Car")
        reader.forget()
    maker = harbour.guest("maker")
    maker.publish(GROWN.Boat(id=1, length=9.5))
    maker.publish(GROWN.Boat(id=1, length=9.6))
    assert watcher.names() == ["StructDescriptorData", "Boat", "Boat"]
    (notified,) = watcher.messages("StructDescriptorData")
    assert [item.name for item in notified.properties][-1] == "length"
    assert "StructDescriptorData" not in maker.names()
    assert plain.names() == ["Boat", "Boat"], "it keeps what it was described first"
    assert [len(item.payload) for item in plain.items("Boat")] == [3, 3]
    harbour.check()


def test_a_field_with_another_name_and_meaning_of_the_same_bytes_is_served_under_the_first_name(
    make_harbour: Callable[..., Harbour],
) -> None:
    old = types("struct Boat [persistent] { 1: [key] uint32 id; 3: float64 weight; }").Boat
    new = types("struct Boat [persistent] { 1: [key] uint32 id; 3: duration trip; }").Boat
    harbour = restored(make_harbour, old(id=1, weight=7.5))
    guest = harbour.guest()
    guest.publish(new(id=2, trip=2.0))
    assert guest.refusals() == []
    assert harbour.node.registry["Boat"] == old.descriptor
    assert harbour.cached(new) == [new(id=1, trip=7.5), new(id=2, trip=2.0)]


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
    """The tags that were received with each object of a type."""
    return [sorted(WIDE.Ship.decode(i.payload).attributes) for i in guest.items(name)]


def narrow(text: str) -> Any:
    return types(text).Ship


NARROW = "struct Ship { 1: [key] uint32 id; 2: string name; }"


def test_a_dots_client_receives_only_the_fields_that_it_described(harbour: Harbour) -> None:
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


def test_a_dots_client_with_another_definition_receives_updates_by_patterns_and_filters(
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


def test_a_dots_client_with_other_keys_receives_nothing_of_the_type(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary"))
    guest.describe(narrow("struct Ship { 1: [key] string id; 2: string name; }"))
    guest.join("Ship")
    guest.open_view(WIDE.Ship, 7, where="id > 0")
    maker.publish(WIDE.Ship(id=2, name="Anne"))
    assert guest.items("Ship") == guest.items("Ship", 7) == []
    assert not guest.is_cut
    assert harbour.row("Ship").refused == 1


def test_a_filtered_subscription_ends_with_its_definition(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary"))
    guest.open_view(WIDE.Ship, 7, where="id > 0")
    guest.connection.renews = True
    guest.describe(narrow("struct Ship { 1: [key] string id; 2: string name; }"))
    guest.forget()
    maker.publish(WIDE.Ship(id=2, name="Anne"))
    assert guest.items("Ship", 7) == []


def test_a_dots_client_with_a_narrower_struct_inside_receives_its_fields(harbour: Harbour) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary", berth=WIDE.Berth(pier=3, note=LONG)))
    old = types(
        """
        enum Rig { 1: sloop, 2: ketch, 3: yawl }
        struct Berth { 1: uint32 pier; }
        struct Ship { 1: [key] uint32 id; 2: string name; 3: string more; 4: Berth berth;
            5: Rig rig; }
        """
    )
    guest.describe(old.Ship)
    guest.join("Ship")
    maker.publish(WIDE.Ship(id=1, rig=WIDE.Rig.ketch))
    assert guest.objects(old.Ship) == [
        old.Ship(id=1, name="Mary", berth=old.Berth(pier=3)),
        old.Ship(id=1, rig=old.Rig.ketch),
    ]
    assert all(len(item.payload) < 20 for item in guest.items("Ship"))


def test_a_dots_client_that_corrects_its_description_receives_all_objects(
    harbour: Harbour,
) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, more=LONG))
    guest.describe(narrow(NARROW))
    guest.connection.renews = True
    guest.describe(WIDE.Ship)
    guest.join("Ship")
    assert tags_of(guest) == [[1, 3]]


def test_a_dots_client_that_describes_a_type_after_joining_receives_its_fields_from_then_on(
    harbour: Harbour,
) -> None:
    guest, maker = harbour.plain("old"), harbour.guest("maker")
    maker.publish(WIDE.Ship(id=1, name="Mary", more=LONG))
    guest.join("Ship")
    guest.open_view(WIDE.Ship, 7, where="id > 0")
    maker.publish(WIDE.Ship(id=2, name="Anne", more=LONG))
    assert tags_of(guest) == [[1, 2, 3], [1, 2, 3]], "as they were described to it"
    guest.forget()
    # Like guests of other hosts, which describe what they publish in any case.
    guest.say_description(narrow(NARROW))
    maker.publish(WIDE.Ship(id=1, name="Jane", more=LONG), WIDE.Ship(id=3, more=LONG))
    assert tags_of(guest) == [[1, 2], [1]]
    assert [len(item.payload) < 20 for item in guest.items("Ship", 7)] == [True, True]
    guest.join("Ship")
    assert tags_of(guest)[2:] == [[1, 2], [1, 2], [1]]
    assert not guest.is_cut


BY_PATTERN = (
    PermissionRule(verbs=("subscribe",), subjects=("/harbour/...",), client="old"),
    PermissionRule(verbs=("all",), client="maker"),
)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_dots_client_that_joined_a_pattern_receives_the_fields_it_has(
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
    assert tags_of(guest) == [[1, 3, 4]]
    assert "StructDescriptorData" not in guest.names()
    assert not guest.is_cut
    harbour.check()


def test_a_reader_whose_structs_nest_the_other_way_round_does_no_harm(
    make_harbour: Callable[..., Harbour],
) -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), client="reader"),
        PermissionRule(verbs=("all",), client="maker"),
    )
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=rules), rng=Random(1)))
    ours = types(
        "struct C { 1: bool c; } struct B { 1: C c; } struct A { 1: [key] bool k; 2: B b; }"
    )
    theirs = types(
        "struct B { 2: bool b; } struct C { 2: B b; } struct A { 1: [key] bool k; 3: C c; }"
    )
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    maker.publish(ours.A(k=True, b=ours.B(c=ours.C(c=True))))
    reader.describe(theirs.A)
    reader.join("A")
    reader.open_view(theirs.A, 1, where="k = true")
    assert reader.objects(theirs.A) == reader.objects(theirs.A, 1) == [theirs.A(k=True)]
    maker.describe(theirs.A)
    assert not maker.is_cut
    harbour.check()


def test_updates_of_types_that_changed_are_processed_in_turns(harbour: Harbour) -> None:
    text = "struct Inner [substruct_only] { 1: int32 value; }" + "".join(
        f"struct Whole{number} {{ 1: [key] uint32 id; 2: Inner inner; }}" for number in range(40)
    )
    types = skerry.define_types(text)
    maker, other = harbour.guest("maker"), harbour.guest("other")
    kinds = [getattr(types, f"Whole{number}") for number in range(40)]
    maker.publish(*(kind(id=1) for kind in kinds))
    wider = skerry.define_types(text.replace("value;", "value; 2: int32 more;"))
    other.describe(wider.Whole0)
    for kind in kinds:
        maker.post(kind(id=2))
    harbour.node.receive(maker.connection.take_output(), maker.address, 0)
    turn_count = 1
    while harbour.node.is_held(maker.address):
        harbour.node.advance(0)
        turn_count += 1
    assert turn_count >= 40 * 500 // SELECT_SLICE_COUNT
    assert all(len(harbour.cached(kind)) == 2 for kind in kinds)
