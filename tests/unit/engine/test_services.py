"""What clients ask of the node itself, and whether they may."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission import (
    Admission,
    AdmissionConfig,
    ClientLimits,
    Origin,
    PermissionRule,
)
from skerry.engine.persistence import Journal
from skerry.errors import LocalProtocolError
from skerry.limits import SET_ASIDE_BYTES_MAX
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import ALIVE_MARK
from skerry.protocol.access.header import Header

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
JOIN = internal_class("DotsMemberEvent")["join"]
KILL = internal_class("DotsMemberEvent")["kill"]
Rule: Any = internal_class("DotsAuthentication")
Network: Any = internal_class("DotsNetwork")
Policy: Any = internal_class("DotsAuthenticationPolicy")
ELSEWHERE = Origin(kind="tcp", host="10.1.2.3")


def admission(*rules: PermissionRule, **limits: Any) -> Admission:
    config = AdmissionConfig(permission=rules, limits=ClientLimits(**limits))
    return Admission(config, rng=Random(1))


# -- joining and leaving


def test_a_join_twice_is_answered_twice_and_heard_once(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    maker.publish(Boat(id=1))
    guest.join("Boat")
    guest.join("Boat")
    assert guest.counts_down("Boat") == [0, 0]
    assert len(guest.messages("DotsCacheInfo")) == 2
    guest.forget()
    maker.publish(Boat(id=2))
    assert [boat.id for boat in guest.objects(Boat)] == [2]


def test_a_type_may_be_joined_before_anybody_knows_it(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    guest.join("Boat")
    assert guest.heard == []
    maker.publish(Boat(id=1))
    assert [boat.id for boat in guest.objects(Boat)] == [1]


def test_to_kill_means_nothing(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    guest.join("Boat")
    guest.send("DotsMember", groupName="Boat", event=KILL)
    maker.publish(Boat(id=1))
    assert not guest.is_cut
    assert [boat.id for boat in guest.objects(Boat)] == [1]


@pytest.mark.parametrize("fields", [{}, {"groupName": "Boat"}, {"event": JOIN}])
def test_a_member_without_group_or_event_is_cut(fields: dict[str, Any], harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    guest.send("DotsMember", **fields)
    assert guest.is_cut
    assert guest.fault == "DotsMember: without groupName or event"
    assert not other.is_cut


def test_joins_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(join_count_max=2))
    guest, plain = harbour.guest(), harbour.plain()
    for each in (guest, plain):
        each.join("Boat")
        each.join("/boats/*")
        each.join("Boat")
        assert not each.is_cut
        each.join("Car")
    assert guest.refusals() == [("subscribe", "Car: 2 groups joined already")]
    assert plain.is_cut
    assert plain.fault == "subscribe: Car: 2 groups joined already"
    guest.leave("Boat")
    guest.join("Car")
    assert len(guest.refusals()) == 1
    harbour.check()


def test_views_are_bounded(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(view_count_max=2))
    guest = harbour.guest()
    guest.describe(Boat)
    guest.open_view(Boat, 1, where="id > 1")
    guest.open_view(Boat, 2, where="id > 2")
    guest.open_view(Boat, 2, where="id > 3")
    assert guest.refusals() == []
    guest.open_view(Boat, 3, where="id > 3")
    assert guest.refusals() == [("subscribe", "Boat: 2 filtered subscriptions already")]
    guest.leave("Boat", subscription_id=1)
    guest.open_view(Boat, 3, where="id > 3")
    assert len(guest.refusals()) == 1
    harbour.check()


# -- describing


def test_described_types_are_bounded_and_the_same_again_costs_nothing(
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
    assert guest.refusals() == [("describe", "2 types described already")]
    assert plain.is_cut
    harbour.check()


def test_who_follows_descriptions_hears_of_new_types_twice(harbour: Harbour) -> None:
    follower, maker = harbour.guest("follower"), harbour.guest("maker")
    for group in ("StructDescriptorData", "EnumDescriptorData"):
        follower.join(group)
    maker.describe(Boat)
    told = []
    for item in follower.heard:
        name = internal_class(item.header.type_name).decode(item.payload).name
        told.append((name, int(item.header.sender)))
    one = maker.client_id
    assert told == [
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


def test_a_request_is_answered_with_what_was_not_exchanged_yet(harbour: Harbour) -> None:
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


# -- echo


def test_an_echo_comes_back_to_who_sent_it_and_to_nobody_else(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    for each in (guest, other):
        each.join("DotsEcho")
    guest.send("DotsEcho", request=True, identifier=7, sequenceNumber=8, data="x")
    guest.send("DotsEcho", request=False, identifier=9)
    guest.send("DotsEcho", identifier=10)
    (echo,) = guest.messages("DotsEcho")
    wanted = internal_class("DotsEcho")(request=False, identifier=7, sequenceNumber=8, data="x")
    assert echo == wanted
    assert other.heard == []


def store(harbour: Harbour) -> None:
    journal = harbour.node.journal
    assert journal is not None
    batch = journal.take_batch(harbour.now_ns)
    assert batch is not None
    journal.written(batch.number)
    harbour.node.advance(harbour.now_ns)
    harbour.pump()


def test_an_echo_waits_until_what_its_client_published_is_stored(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(journal=Journal(rng=Random(1)))
    writer, other = harbour.guest("writer"), harbour.guest("other")
    writer.publish(Log(id=1))
    writer.echo(1)
    other.publish(Boat(id=1))
    other.echo(1)
    assert writer.messages("DotsEcho") == []
    assert len(other.messages("DotsEcho")) == 1, "nothing of its own is to be stored"
    writer.echo(2)
    store(harbour)
    assert [echo.sequenceNumber for echo in writer.messages("DotsEcho")] == [1, 2]
    writer.echo(3)
    assert len(writer.messages("DotsEcho")) == 3
    writer.remove(Log(id=1))
    writer.echo(4)
    assert len(writer.messages("DotsEcho")) == 3
    store(harbour)
    assert len(writer.messages("DotsEcho")) == 4
    harbour.check()


def test_an_echo_that_asks_for_a_sign_of_life_does_not_wait_for_the_storage(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(journal=Journal(rng=Random(1)))
    writer = harbour.guest("writer")
    writer.publish(Log(id=1))
    writer.send("DotsEcho", request=True, data=ALIVE_MARK)
    assert [echo.data for echo in writer.messages("DotsEcho")] == [ALIVE_MARK]


def test_an_echo_that_waits_is_forgotten_with_its_client(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(journal=Journal(rng=Random(1)))
    first, second = harbour.guest("first"), harbour.guest("second")
    for number, guest in enumerate((first, second)):
        guest.publish(Log(id=number))
        guest.echo(1)
    first.vanish()
    store(harbour)
    assert first.messages("DotsEcho") == []
    assert len(second.messages("DotsEcho")) == 1


def test_a_journal_that_is_full_refuses_what_would_be_stored(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(journal=Journal(rng=Random(1), change_count_max=4))
    guest, plain = harbour.guest(), harbour.plain()
    guest.publish(Log(id=1), Log(id=2), Log(id=3))
    assert harbour.node.statistics().storage_waiting_count == 4, "the type counts, too"
    before = harbour.cached(Log)
    guest.publish(Log(id=4))
    guest.remove(Log(id=1))
    assert harbour.cached(Log) == before
    assert [what for what, _ in guest.refusals()] == ["publish", "remove"]
    assert "count of changes that wait to be stored" in guest.refusals()[0][1]
    guest.publish(Boat(id=1))
    assert len(guest.refusals()) == 2
    plain.publish(Log(id=5))
    assert plain.is_cut
    store(harbour)
    guest.publish(Log(id=4))
    assert len(guest.refusals()) == 2
    harbour.check()


# -- clearing


def test_a_cleared_type_is_removed_object_by_object_by_the_node(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    maker.publish(Boat(id=2), Boat(id=1), Car(id=1), Shout(text="x"))
    for group in ("Boat", "Car", "DotsClearCache"):
        guest.join(group)
    guest.forget()
    maker.send("DotsClearCache", typeNames=["Boat", "Shout", "Nothing", "Kind"])
    items = guest.items("Boat")
    assert [Boat.decode(item.payload).id for item in items] == [1, 2]
    for item in items:
        header = item.header
        assert (header.sender, header.remove_obj, header.attributes) == (1, 1, 2)
    assert guest.names() == ["Boat", "Boat", "DotsClearCache"]
    assert harbour.cached(Car) == [Car(id=1)]


def test_to_clear_nothing_at_all_is_a_fault(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("DotsClearCache")
    assert guest.fault == "DotsClearCache: without typeNames"


# -- permissions


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


def test_what_is_not_permitted_is_refused_and_counted(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.publish(Car(id=1))
    low.publish(Boat(id=1))
    low.publish(Car(id=1))
    low.remove(Car(id=1))
    low.join("Log")
    low.join("/...")
    low.send("DotsClearCache", typeNames=["Boat"])
    assert low.refusals() == [
        ("publish", "Car: not permitted"),
        ("remove", "Car: not permitted"),
        ("subscribe", "Log: not permitted"),
        ("subscribe", "/...: not permitted"),
        ("clear", "Boat: not permitted"),
    ]
    assert not low.is_cut
    assert guarded.cached(Car) == [Car(id=1)]
    assert guarded.cached(Boat) == [Boat(id=1)]
    statistics = guarded.node.statistics()
    assert statistics.refusals == {"publish": 1, "remove": 1, "subscribe": 2, "clear": 1}
    (row,) = [row for row in statistics.clients if row.name == "low"]
    assert row.refused_count == 5


@pytest.mark.parametrize("what", ["publish", "join", "clear", "remove"])
def test_a_plain_guest_that_is_refused_is_told_and_cut(what: str, guarded: Harbour) -> None:
    low, high = guarded.plain("low"), guarded.guest("high")
    high.publish(Log(id=1))
    if what == "publish":
        low.publish(Car(id=1))
    elif what == "remove":
        low.remove(Log(id=1))
    elif what == "join":
        low.join("Log")
    else:
        low.send("DotsClearCache", typeNames=["Boat"])
    assert low.is_cut
    assert low.fault.endswith("not permitted")
    assert not high.is_cut
    assert guarded.node.statistics().ends == {"refused": 1}


def test_a_subject_of_its_own_is_no_way_around(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.publish(Car(id=1))
    high.publish(Boat(id=9), subject="/theirs/9")
    low.publish(Car(id=1), subject="/mine/1")
    low.publish(Boat(id=2), subject="/theirs/2")
    low.publish(Boat(id=3), subject="/mine/3")
    assert [what for what, _ in low.refusals()] == ["publish", "publish"]
    assert [boat.id for boat in guarded.cached(Boat)] == [3, 9]


HIDDEN = (
    PermissionRule(verbs=("all",), client="high"),
    PermissionRule(verbs=("all",), subjects=("/Boat/secret/...",), allow=False),
    PermissionRule(verbs=("publish", "subscribe", "remove"), subjects=("Boat",)),
)


def test_an_object_is_not_taken_away_from_where_a_client_may_not_publish(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=admission(*HIDDEN))
    low, high = harbour.guest("low"), harbour.guest("high")
    low.join("/Boat/*")
    high.publish(Boat(id=7, name="hidden"), subject="/Boat/secret/7")
    low.publish(Boat(id=7))
    low.remove(Boat(id=7))
    assert low.refusals() == [
        ("publish", "Boat: not permitted"),
        ("remove", "Boat: not permitted"),
    ]
    assert low.objects(Boat) == []
    assert harbour.cached(Boat) == [Boat(id=7, name="hidden")]
    high.publish(Boat(id=7), subject="/Boat/7")
    low.publish(Boat(id=7, name="seen"))
    low.remove(Boat(id=7))
    assert len(low.refusals()) == 2
    assert harbour.cached(Boat) == []
    harbour.check()


def test_an_object_without_its_key_is_a_fault_whoever_sends_it(guarded: Harbour) -> None:
    low = guarded.guest("low")
    low.publish(Boat(id=1))
    header = Header("Boat")
    header.attributes = 4
    low.say(header, b"\xa1\x02\x61x")
    assert low.fault == "Boat: the key is not complete"


def test_who_may_do_nothing_with_a_type_does_not_define_it(harbour: Harbour) -> None:
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


def test_who_may_do_nothing_with_a_type_is_not_told_what_it_is(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.publish(Boat(id=1), Car(id=1), Log(id=1))
    low.send("DotsDescriptorRequest")
    described = [message.name for message in low.messages("StructDescriptorData")]
    assert described == ["Place", "Boat", "Car"]


def test_parts_of_what_a_client_may_publish_are_learned_with_it(guarded: Harbour) -> None:
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


def test_a_long_chain_of_parts_is_learned_without_an_end_to_the_node(
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


def test_descriptions_that_are_set_aside_are_bounded(guarded: Harbour) -> None:
    low, plain = guarded.guest("low"), guarded.plain("plain")
    field = internal_class("StructPropertyData")
    long = field(name="x" * (SET_ASIDE_BYTES_MAX // 4), tag=1, isKey=True, type="bool")
    for guest in (low, plain):
        for number in range(3):
            guest.send("StructDescriptorData", name=f"T{number}", properties=[long])
        assert not guest.is_cut
        assert guest.refusals() == []
        guest.send("StructDescriptorData", name="T3", properties=[long])
    assert low.refusals() == [("describe", "T3: not permitted")]
    assert plain.is_cut


def test_everybody_may_say_of_itself_that_it_runs(guarded: Harbour) -> None:
    low = guarded.guest("low")
    client = internal_class("DotsClient")
    low.publish(client(id=low.client_id, running=True))
    assert low.refusals() == []
    low.publish(client(id=1, running=True))
    assert low.refusals()[0][0] == "publish"


def test_others_than_this_computer_may_do_nothing_until_told_otherwise(harbour: Harbour) -> None:
    stranger = harbour.guest("stranger", origin=ELSEWHERE)
    stranger.publish(Boat(id=1))
    stranger.join("Boat")
    stranger.join("DotsClient")
    whats = [what for what, _ in stranger.refusals()]
    assert whats == ["publish", "subscribe", "subscribe"]
    assert harbour.cached(Boat) == []


# -- rules about who may connect


def rule(**fields: Any) -> Any:
    network = Network(network="127.0.0.1", prefix=32)
    return Rule(nameSpace="", network=network, clientName="", priority=1, **fields)


def test_a_secret_is_never_sent_to_anybody(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=Admission(rng=Random(1)))
    admin, watcher, all_ = harbour.guest("admin"), harbour.guest("watcher"), harbour.guest("all")
    watcher.join("DotsAuthentication")
    watcher.open_view(Rule, 1, where="accept = true")
    all_.join("/...")
    admin.join("DotsAuthentication")
    admin.publish(rule(secret="sesame", accept=True))
    admin.publish(rule(secret="open"), only=["secret"])
    late = harbour.guest("late")
    late.join("DotsAuthentication")
    late.join("/...")
    for guest in (admin, watcher, all_, late):
        items = [i for i in guest.heard if i.header.type_name == "DotsAuthentication"]
        assert items
        for item in items:
            assert not item.header.attributes & 1 << 4
            assert not Rule.decode(item.payload).is_set("secret")
            assert b"sesame" not in item.payload
            assert b"open" not in item.payload
    assert not any(b"sesame" in e.payload for _, e in harbour.node.cache.objects(Rule.__name__))
    assert harbour.cached(Rule) == [rule(accept=True)]
    here = Origin(kind="tcp", host="127.0.0.1")
    wrong, right = (harbour.guest(n, origin=here, secret=n) for n in ("sesame", "open"))
    assert [guest.is_cut for guest in (wrong, right)] == [True, False]


def test_a_rule_that_is_removed_does_not_hold_any_more(harbour: Harbour) -> None:
    admin = harbour.guest("admin")
    admin.publish(rule(accept=False))
    here = Origin(kind="tcp", host="127.0.0.1")
    assert harbour.guest("first", origin=here).is_cut
    admin.remove(rule())
    assert not harbour.guest("second", origin=here).is_cut
    admin.publish(Policy(nameSpace="", accept=False))
    assert harbour.guest("third", origin=here).is_cut
    admin.remove(Policy(nameSpace=""))
    assert not harbour.guest("fourth", origin=here).is_cut


def test_only_who_may_administer_sets_rules(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    low.publish(rule(accept=False))
    low.publish(Policy(nameSpace="", accept=False))
    assert [what for what, _ in low.refusals()] == ["administer", "administer"]
    here = Origin(kind="tcp", host="127.0.0.1")
    assert not guarded.guest("high 2", origin=here).is_cut
    high.publish(rule(accept=False))
    assert guarded.guest("high 3", origin=here).is_cut


def test_a_rule_that_says_nothing_harms_only_its_sender(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.publish(rule())
    assert guest.is_cut
    assert guest.fault == str(
        LocalProtocolError("DotsAuthentication without accept, so it says nothing")
    )


def test_only_a_node_refuses(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    other.join("/...")
    other.forget()
    guest.send("SkerryRefusal", what="publish", reason="because")
    assert guest.is_cut
    assert guest.fault == "SkerryRefusal: only a node says this"
    assert other.items("SkerryRefusal") == []


def test_messages_to_the_node_are_not_passed_on(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    names = ("DotsMember", "DotsDescriptorRequest", "DotsEcho")
    for name in names:
        other.join(name)
    guest.join("Boat")
    guest.send("DotsDescriptorRequest")
    guest.echo(1)
    assert not set(names) & set(other.names())


def test_a_message_that_is_none_harms_only_its_sender(harbour: Harbour) -> None:
    for name in ("DotsMember", "DotsEcho", "DotsClearCache", "DotsDescriptorRequest"):
        guest = harbour.guest(name)
        header = Header(name)
        header.attributes = 2
        guest.say(header, b"\xa1\x01\xf6")
        assert guest.is_cut
        assert guest.fault.startswith(f"{name}.")


def test_a_node_without_random_numbers_takes_no_rule_with_a_secret(harbour: Harbour) -> None:
    # Its challenges could be foreseen, and the answers to them kept ready.
    admin = harbour.guest("admin")
    admin.publish(rule(accept=True))
    assert not admin.is_cut
    admin.publish(rule(secret="sesame", accept=True))
    assert "no random numbers" in admin.fault
    assert harbour.cached(Rule) == [rule(accept=True)]


def test_a_conflict_of_definitions_is_told_to_who_watches_for_that(harbour: Harbour) -> None:
    watcher, plain = harbour.guest("watcher"), harbour.plain("watching")
    for guest in (watcher, plain):
        guest.join("SkerryConflict")
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 name; }").Boat
    harbour.guest("first").describe(Boat)
    harbour.guest("second").describe(other)
    harbour.guest("third").describe(other)
    late = harbour.guest("late")
    late.join("SkerryConflict")
    for guest in (watcher, late):
        told = guest.messages("SkerryConflict")[-1]
        assert told.typeName == "Boat"
        assert "(first)" in told.known
        assert "(third)" in told.offered
        assert told.difference == (
            "only in one of them: field 2: string name and field 2: int32 name"
        )
    # Other hosts' programs do not know the type, and are not described it.
    plain.join("SkerryConflict")
    plain.join("/...")
    assert plain.messages("SkerryConflict") == []


def test_a_plain_host_tells_of_no_conflict(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(extensions=False)
    other = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 name; }").Boat
    harbour.plain("first").describe(Boat)
    harbour.plain("second").describe(other)
    assert harbour.node.statistics().conflict_count == 1
    assert harbour.node.cache.count("SkerryConflict") == 0


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/Berth/7/*", [(7, "a"), (7, "b")]),
        ("/Berth/*/b", [(7, "b"), (8, "b")]),
        ("/Berth/7/b", [(7, "b")]),
        ("/*/8/...", [(8, "b")]),
        ("/Berth/07/b", []),
        ("/Berth/7/b/...", []),
        ("/away/*", [(9, "a")]),
    ],
)
def test_a_pattern_finds_what_it_selects_of_a_type(
    pattern: str, found: list[tuple[int, str]], harbour: Harbour
) -> None:
    cls = skerry.define_types("struct Berth { 1: [key] uint32 pier; 2: [key] string name; }").Berth
    maker, guest = harbour.guest("maker"), harbour.guest("guest")
    maker.publish(*(cls(pier=pier, name=name) for pier, name in [(7, "a"), (7, "b"), (8, "b")]))
    maker.publish(cls(pier=9, name="a"), subject="/away/a")
    guest.join(pattern)
    assert [(berth.pier, berth.name) for berth in guest.objects(cls)] == found


@pytest.mark.parametrize("is_remove", [False, True])
def test_no_client_speaks_of_another(harbour: Harbour, is_remove: bool) -> None:
    reader, forger = harbour.guest("reader"), harbour.guest("forger")
    reader.join("DotsClient")
    reader.forget()
    other = internal_class("DotsClient")(id=1 if not is_remove else reader.client_id)
    if is_remove:
        forger.remove(other)
    else:
        forger.publish(other)
    assert not forger.is_cut
    assert [message.what for message in forger.messages("SkerryRefusal")] == ["publish"]
    assert reader.items("DotsClient") == []


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("DotsDaemonStatus", {"serverName": "me"}),
        ("DotsClientStatistics", {"clientId": 7}),
        ("SkerryLedger", {"kind": "type", "name": "Boat"}),
        ("SkerryLink", {"sender": "10.0.0.1:61234", "receiver": "10.0.0.2:61234"}),
        ("SkerryLoss", {"sender": "10.0.0.1:61234", "reason": "nak"}),
    ],
)
def test_what_a_node_says_of_itself_nobody_else_says(
    harbour: Harbour, name: str, fields: dict[str, object]
) -> None:
    forger = harbour.guest("forger")
    forger.publish(internal_class(name)(**fields))
    assert forger.is_cut
    assert "only a node says this" in forger.fault


def test_a_description_that_is_set_aside_again_takes_the_place_of_the_former(
    guarded: Harbour,
) -> None:
    low = guarded.guest("low")
    field = internal_class("StructPropertyData")
    long = field(name="x" * (SET_ASIDE_BYTES_MAX // 2), tag=1, isKey=True, type="bool")
    for _ in range(3):
        low.send("StructDescriptorData", name="T0", properties=[long])
    assert low.refusals() == []
    low.send("StructDescriptorData", name="T1", properties=[long])
    assert low.refusals() == [("describe", "T1: not permitted")]


def test_a_description_that_is_refused_is_not_counted(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(*RULES, type_count_max=2))
    low = harbour.guest("low")
    field = internal_class("StructPropertyData")
    long = field(name="x" * SET_ASIDE_BYTES_MAX, tag=1, isKey=True, type="bool")
    for _ in range(3):
        low.send("StructDescriptorData", name="T0", properties=[long])
    assert low.refusals() == [("describe", "T0: not permitted")] * 3
    low.forget()
    for number in range(3):
        low.send("StructDescriptorData", name=f"T{number}", properties=[])
    assert low.refusals() == [("describe", "2 types described already")]
    harbour.check()


def test_what_is_for_the_node_comes_under_no_subject_where_a_client_may_not_publish(
    guarded: Harbour,
) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.join("/alarms/...")
    high.join("/mine/...")
    client = internal_class("DotsClient")
    low.publish(client(id=low.client_id, running=True), subject="/alarms/fire")
    assert high.items("DotsClient") == []
    assert low.refusals() == []
    low.publish(client(id=low.client_id, running=True), subject="/mine/1")
    assert [item.header.subject for item in high.items("DotsClient")] == ["/mine/1"]
