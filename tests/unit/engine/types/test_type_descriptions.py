"""Type descriptions that clients send and request."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.services.node_services import SERVICE_BYTES_MAX
from skerry.engine.types.type_descriptions import DEFINITION_USER_COUNT_MAX, UNUSABLE_TYPE_BYTES_MAX
from skerry.limits import DESCRIBE_WORK, SELECT_SLICE_COUNT
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.observe.events import log_events

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Place [substruct_only] { 1: float64 lat; 2: Kind kind; }
    struct Boat { 1: [key] uint32 id; 2: string name; 3: Place place; }
    struct Car { 1: [key] uint32 id; }
    struct Log [persistent] { 1: [key] uint32 id; 2: string text; }
    struct Shout [cached=false] { 1: string text; }
    """
)
Boat, Car, Log, Shout = TYPES.Boat, TYPES.Car, TYPES.Log, TYPES.Shout
ELSEWHERE = Origin(kind="tcp", host="10.1.2.3")


def admission(*rules: PermissionRule, **limits: Any) -> Admission:
    config = AdmissionConfig(permission=rules, limits=ClientLimits(**limits))
    return Admission(config, rng=Random(1))


RULES = (
    PermissionRule(verbs=("publish", "remove"), subjects=("Boat", "/mine/..."), client="low"),
    PermissionRule(verbs=("subscribe",), subjects=("Boat", "Car"), client="low"),
    PermissionRule(verbs=("all",), client="high*"),
)


@pytest.fixture
def guarded(make_harbour: Callable[..., Harbour]) -> Any:
    harbour = make_harbour(admission=admission(*RULES))
    yield harbour
    harbour.check()


def test_described_types_are_limited_and_repetitions_do_not_count(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=admission(type_count_max=2))
    guest, plain = harbour.guest(), harbour.plain()
    for each in (guest, plain):
        each.describe(Car)
        each.describe(Log)
        again = describe(Car.descriptor)
        each.connection.send_message(again, 0.0)
        harbour.pump()
        assert not each.is_cut
        each.describe(Shout)
    assert guest.refusals() == [("describe", "Shout: 2 types described already")]
    assert plain.is_cut
    harbour.check()


def test_subscribers_of_descriptions_receive_new_types_twice(harbour: Harbour) -> None:
    follower, maker = harbour.guest("follower"), harbour.guest("maker")
    for group in ("StructDescriptorData", "EnumDescriptorData"):
        follower.join(group)
    maker.describe(Boat)
    notified = []
    for item in follower.heard:
        name = internal_class(item.header.type_name).decode(item.payload).name
        notified.append((name, int(item.header.sender)))
    one = maker.client_id
    assert notified == [
        ("Kind", -1),
        ("Kind", one),
        ("Place", -1),
        ("Place", one),
        ("Boat", -1),
        ("Boat", one),
    ]


def describe_raw(guest: Guest, **fields: Any) -> None:
    guest.send("StructDescriptorData", **fields)


def test_a_description_with_an_unknown_part_harms_only_its_sender(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    part = internal_class("StructPropertyData")(name="x", tag=1, isKey=False, type="Nowhere")
    describe_raw(guest, name="Thing", properties=[part])
    assert guest.is_cut
    assert "Nowhere" in guest.fault
    assert "Thing" not in harbour.node.registry
    assert not other.is_cut


def test_a_descriptor_request_is_answered_with_unknown_types(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    maker.describe(Boat)
    maker.describe(Car)
    maker.describe(Shout)

    def described() -> list[str]:
        names = ("StructDescriptorData", "EnumDescriptorData")
        items = [item for item in guest.heard if item.header.type_name in names]
        found = [internal_class(i.header.type_name).decode(i.payload).name for i in items]
        assert guest.messages("DotsCacheInfo")[-1].endDescriptorRequest is True
        guest.forget()
        return found

    guest.send("DotsDescriptorRequest", whitelist=["Car", "Boat"], blacklist=["Boat"])
    assert described() == ["Car"]
    guest.send("DotsDescriptorRequest", whitelist=["Boat"])
    assert described() == ["Kind", "Place", "Boat"]
    guest.send("DotsDescriptorRequest", whitelist=[])
    assert described() == ["Shout"]
    guest.send("DotsDescriptorRequest")
    assert described() == []


def test_many_types_are_described_in_slices(
    harbour: Harbour,
) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    count = 3 * SELECT_SLICE_COUNT // DESCRIBE_WORK
    text = "".join(f"struct Many{n:04} {{ 1: [key] uint32 id; }}" for n in range(count))
    types = skerry.define_types(text)
    for number in range(count):
        maker.describe(getattr(types, f"Many{number:04}"))
    guest.connection.send_message(internal_class("DotsDescriptorRequest")(), 0.0)
    guest.connection.send_message(internal_class("DotsEcho")(request=True, identifier=7), 0.0)
    harbour.carry()
    slice_counts = []
    while not guest.messages("DotsEcho"):
        before = len(guest.messages("StructDescriptorData"))
        harbour.carry()
        slice_counts.append(len(guest.messages("StructDescriptorData")) - before)
        harbour.node.advance(harbour.now_ns)
    assert max(slice_counts) <= SELECT_SLICE_COUNT // DESCRIBE_WORK + 1
    described = [message.name for message in guest.messages("StructDescriptorData")]
    assert described == [f"Many{n:04}" for n in range(count)]
    assert guest.names()[-2:] == ["DotsCacheInfo", "DotsEcho"]


def test_descriptions_of_a_part_count_as_much_as_the_types_that_use_it(harbour: Harbour) -> None:
    count = 250
    users = "".join(f"struct S{n} [cached=false] {{ 1: Part part; }}" for n in range(count))
    types = skerry.define_types("struct Part { 1: bool a; }" + users)
    maker, guest = harbour.guest("maker"), harbour.guest()
    for number in range(count):
        maker.connection.describe(types[f"S{number}"].descriptor, 0.0)
    harbour.pump()
    for number in range(20):
        part = skerry.define_types(f"struct Part {{ 1: bool a; 9: uint32 n{number}; }}").Part
        guest.connection.send_message(describe(part.descriptor), 0.0)
    harbour.node.receive(guest.connection.take_output(), guest.address, harbour.now_ns)
    client = harbour.node.host.table.by_id.get(guest.client_id)
    assert client is not None
    assert client.input.is_held
    assert not harbour.node.registry["Part"].has_field("n19")
    harbour.pump()
    assert harbour.node.registry["Part"].has_field("n19")


def test_a_descriptor_request_of_too_many_bytes_is_refused(harbour: Harbour) -> None:
    guest = harbour.guest()
    name = "x" * 1000
    guest.send("DotsDescriptorRequest", whitelist=[name] * (SERVICE_BYTES_MAX // len(name) + 1))
    ((what, reason),) = guest.refusals()
    assert what == "ask"
    assert str(SERVICE_BYTES_MAX) in reason


def test_a_client_without_rights_to_a_type_does_not_define_it(harbour: Harbour) -> None:
    squatter = skerry.define_types("struct Boat { 1: [key] string id; }").Boat
    stranger, guest = harbour.guest("stranger", origin=ELSEWHERE), harbour.guest()
    stranger.describe(squatter)
    assert "Boat" not in harbour.node.registry
    guest.publish(Boat(id=1))
    assert guest.refusals() == []
    assert harbour.node.registry["Boat"] == Boat.descriptor
    assert harbour.node.statistics().conflict_count == 0
    stranger.publish(squatter(id="x"))
    assert stranger.refusals() == [("publish", "Boat: not permitted")]


def test_a_client_without_rights_to_a_type_does_not_receive_its_description(
    guarded: Harbour,
) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.publish(Boat(id=1), Car(id=1), Log(id=1))
    low.send("DotsDescriptorRequest")
    described = [message.name for message in low.messages("StructDescriptorData")]
    assert described == ["Place", "Boat", "Car"]


def test_types_inside_a_published_type_are_registered_with_it(guarded: Harbour) -> None:
    low, watcher = guarded.guest("low"), guarded.guest("high")
    watcher.join("StructDescriptorData")
    low.connection.describe(Boat.descriptor, 0.0)
    low.connection.describe(Log.descriptor, 0.0)
    guarded.pump()
    registry = guarded.node.registry
    assert [name in registry for name in ("Kind", "Place", "Boat", "Log")] == [True] * 3 + [False]
    names = {message.name for message in watcher.messages("StructDescriptorData")}
    assert names == {"Place", "Boat"}
    low.publish(Boat(id=1, place=TYPES.Place(lat=1.0, kind=TYPES.Kind.cargo)))
    assert low.refusals() == []
    assert len(guarded.cached(Boat)) == 1


def test_a_client_does_not_change_a_type_that_it_may_not_publish_by_using_it_inside(
    guarded: Harbour,
) -> None:
    mine = skerry.define_types(
        """
        struct Car [persistent] { 1: [key] uint32 id; 9: string more; }
        struct Boat { 1: [key] uint32 id; 2: string name; 3: Car car; }
        """
    )
    low, high = guarded.guest("low"), guarded.guest("high")
    high.publish(Car(id=1))
    low.publish(mine.Boat(id=1, name="Mary"))
    assert [what for what, _ in low.refusals()] == ["describe", "publish"]
    assert all("Car.more" in reason for _, reason in low.refusals())
    assert guarded.node.registry["Car"] == Car.descriptor
    high.publish(mine.Boat(id=2, name="Anne"))
    low.publish(mine.Boat(id=1, name="Mary"))
    assert [boat.id for boat in guarded.cached(mine.Boat)] == [1, 2]


def test_a_long_chain_of_types_inside_does_not_block_the_node(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=admission(*RULES))
    low, high = harbour.guest("low"), harbour.guest("high")
    describe_struct, field = (
        internal_class("StructDescriptorData"),
        internal_class("StructPropertyData"),
    )
    for number in range(900):
        used = f"P{number - 1}" if number else "bool"
        part = field(name="x", tag=1, isKey=False, type=used)
        low.connection.send_message(describe_struct(name=f"P{number}", properties=[part]), 0.0)
    part = field(name="x", tag=1, isKey=False, type="vector<P899>")
    low.send("StructDescriptorData", name="Boat", properties=[part])
    assert low.is_cut
    assert "deep" in low.fault
    assert not high.is_cut


def describe_large(guest: Guest, name: str, count: int) -> None:
    """Describe a struct with a description of about this size."""
    field = internal_class("StructPropertyData")
    properties = [
        field(name=f"{tag:04}" + "x" * (count // 31), tag=tag, isKey=tag == 1, type="bool")
        for tag in range(1, 32)
    ]
    guest.send("StructDescriptorData", name=name, properties=properties)


def test_descriptions_of_types_that_a_client_may_not_use_are_limited(guarded: Harbour) -> None:
    size = 31 * 100
    for guest in (guarded.guest("low"), guarded.plain("plain")):
        count = 0
        while not guest.refusals() and not guest.is_cut:
            describe_large(guest, f"T{count}", size)
            count += 1
        assert count <= UNUSABLE_TYPE_BYTES_MAX // size < 2 * count
        limit = f"bytes of descriptions, the limit is {UNUSABLE_TYPE_BYTES_MAX}"
        reason = guest.fault if guest.is_cut else guest.refusals()[0][1]
        assert f"T{count - 1}: " in reason
        assert limit in reason
        assert guest.is_cut == (not guest.connection.extensions)


def test_all_descriptions_of_a_client_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(type_bytes_max=4_000))
    guest = harbour.guest()
    for number in (0, 1, 2, 2):
        describe_large(guest, f"T{number}", 700)
    assert guest.refusals() == []
    describe_large(guest, "T3", 700)
    ((_, reason),) = guest.refusals()
    assert reason.endswith("bytes of descriptions, the limit is 4000")
    harbour.check()


def test_monitors_are_notified_of_a_conflict_of_definitions(harbour: Harbour) -> None:
    watcher, plain = harbour.guest("watcher"), harbour.plain("watching")
    for guest in (watcher, plain):
        guest.join("SkerryConflict")
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 name; }").Boat
    harbour.guest("first").publish(Boat(id=1))
    harbour.guest("second").describe(other)
    harbour.guest("third").describe(other)
    late = harbour.guest("late")
    late.join("SkerryConflict")
    for guest in (watcher, late):
        notified = guest.messages("SkerryConflict")[-1]
        assert notified.typeName == "Boat"
        assert "(first)" in notified.known
        assert "(third)" in notified.offered
        assert notified.difference.startswith("Boat.name: type changed (string to int32)")
    # Other hosts' programs do not know the type, and are not described it.
    plain.join("SkerryConflict")
    plain.join("/...")
    assert plain.messages("SkerryConflict") == []


def test_a_node_without_extensions_publishes_no_conflict(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(extensions=False)
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 name; }").Boat
    harbour.plain("first").publish(Boat(id=1))
    harbour.plain("second").describe(other)
    assert harbour.node.statistics().conflict_count == 1
    assert harbour.node.cache.count("SkerryConflict") == 0


def test_a_description_that_is_refused_is_not_counted(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(type_count_max=2, type_bytes_max=1_000))
    guest = harbour.guest()
    for _ in range(3):
        describe_large(guest, "T0", 2_000)
    assert len(guest.refusals()) == 3
    guest.forget()
    for number in range(3):
        guest.send("StructDescriptorData", name=f"T{number}", properties=[])
    assert guest.refusals() == [("describe", "T2: 2 types described already")]
    harbour.check()


def test_values_of_elements_are_described_as_they_were_written(harbour: Harbour) -> None:
    made = skerry.define_types(
        "enum State { 1: on = 5, 9: off = 0, 10: lost = -1 } struct Lamp { 1: [key] State state; }"
    )
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    reader.join("Lamp")
    maker.publish(made.Lamp(state=made.State.off))
    (state,) = reader.messages("EnumDescriptorData")
    notified = [(each.tag, each.name, each.enum_value) for each in state.elements]
    assert notified == [(1, "on", 5), (9, "off", 0), (10, "lost", -1)]
    assert reader.objects(made.Lamp) == [made.Lamp(state=made.State.off)]


def test_names_that_begin_with_skerry_are_reserved(harbour: Harbour) -> None:
    ours = skerry.define_types("struct SkerryBoat { 1: [key] uint32 id; }").SkerryBoat
    guest, plain = harbour.guest(), harbour.plain()
    for each in (guest, plain):
        each.describe(ours)
    (refusal,) = guest.refusals()
    assert refusal[0] == "describe"
    assert "reserved for internal types" in refusal[1]
    assert plain.is_cut
    assert harbour.node.registry.get("SkerryBoat") is None


def test_dots_programs_describe_types_that_begin_like_internal_ones(harbour: Harbour) -> None:
    theirs = skerry.define_types("struct DotsTestStruct { 1: [key] int32 id; }").DotsTestStruct
    plain = harbour.plain()
    plain.publish(theirs(id=1))
    assert harbour.cached(theirs) == [theirs(id=1)]


def test_later_changes_and_conflicts_of_definitions_are_reported(
    harbour: Harbour, caplog: pytest.LogCaptureFixture
) -> None:
    wide = skerry.define_types(
        "struct Wide { 1: [key] uint32 id; 2: string name; 3: string note; }"
    ).Wide
    narrow = skerry.define_types("struct Wide { 1: [key] uint32 id; 2: string name; }").Wide
    other = skerry.define_types("struct Wide { 1: [key] uint32 id; 2: int32 name; }").Wide
    harbour.guest("early").publish(narrow(id=1))
    harbour.node.take_events()
    harbour.node.take_events()
    harbour.guest("late").publish(wide(id=2))
    with caplog.at_level("INFO", "skerry"):
        log_events(harbour.node.take_events())
    assert [record.getMessage() for record in caplog.records] == ["definition of a type changed"]
    caplog.clear()
    harbour.guest("stranger").publish(other(id=3))
    with caplog.at_level("INFO", "skerry"):
        log_events(harbour.node.take_events())
    messages = [record.getMessage() for record in caplog.records]
    assert "incompatible definition of a type refused" in messages


# -- definitions and their users


def listed(guest: Guest) -> list[tuple[Any, ...]]:
    guest.join("SkerryDefinition")
    found = guest.messages("SkerryDefinition")
    assert found.pop().typeName is None
    return [(m.typeName, m.isServed, m.clientNames, m.clientCount, m.conflict) for m in found]


def test_definitions_are_listed_with_their_users(harbour: Harbour) -> None:
    text = "struct Tug {{ 1: [key] uint32 id; 2: {} name; }}"
    old, other = (skerry.define_types(text.format(kind)).Tug for kind in ("string", "int32"))
    new = skerry.define_types("struct Tug { 1: [key] uint32 id; 3: bool a; }").Tug
    harbour.guest("first").publish(old(id=1))
    harbour.guest("second").describe(old)
    harbour.guest("third").publish(new(id=1))
    harbour.plain("fourth").describe(other)
    watcher = harbour.guest("watcher")
    rows = listed(watcher)
    assert [row[:4] for row in rows] == [
        ("Tug", True, ["first", "second"], 2),
        ("Tug", True, ["third"], 1),
        ("Tug", False, ["fourth"], 1),
    ]
    assert "Tug.name" in rows[2][4]
    message = watcher.messages("SkerryDefinition")[0]
    assert skerry.define_types(message.text).Tug.descriptor == old.descriptor
    plain = harbour.plain("plain")
    plain.join("SkerryDefinition")
    assert "SkerryDefinition" not in plain.names()


def test_listed_users_of_a_definition_are_limited(harbour: Harbour) -> None:
    tug = skerry.define_types("struct Tug { 1: [key] uint32 id; }").Tug
    for number in range(DEFINITION_USER_COUNT_MAX + 2):
        harbour.guest(f"g{number}").describe(tug)
    ((_, _, names, count, _),) = listed(harbour.guest())
    assert (len(names), count) == (DEFINITION_USER_COUNT_MAX, DEFINITION_USER_COUNT_MAX + 2)


def test_only_types_that_a_client_may_use_are_listed(guarded: Harbour) -> None:
    high = guarded.guest("high")
    high.publish(Boat(id=1), Log(id=1))
    assert {row[0] for row in listed(high)} >= {"Boat", "Log"}
    low = guarded.guest("low")
    low.join("SkerryDefinition")
    names = {message.typeName for message in low.messages("SkerryDefinition")}
    assert "Log" not in names


def test_many_definitions_are_listed_in_slices(harbour: Harbour) -> None:
    guest = harbour.guest()
    for number in range(100):
        guest.describe(skerry.define_types(f"struct T{number} {{ 1: bool a; }}")[f"T{number}"])
    assert len(listed(harbour.guest("watcher"))) == 100
