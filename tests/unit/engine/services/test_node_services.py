"""Messages of clients to the node itself, and their permissions."""

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
from skerry.engine.persistence import Journal
from skerry.engine.services.node_services import RUNNING_CHANGE_COUNT_MAX
from skerry.engine.types.type_table import CLIENT_TYPES, SPECIAL_TYPES
from skerry.errors import LocalProtocolError
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import ALIVE_MARK, HANDSHAKE
from skerry.protocol.access.header import Header

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

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
Rule: Any = internal_class("DotsAuthentication")
Network: Any = internal_class("DotsNetwork")
Policy: Any = internal_class("DotsAuthenticationPolicy")
SERVED = {
    *("DotsAuthentication", "DotsAuthenticationPolicy", "DotsClearCache", "DotsClient"),
    *("DotsDescriptorRequest", "DotsEcho", "DotsMember"),
    *("EnumDescriptorData", "StructDescriptorData"),
    *("SkerryClaim", "SkerryForget", "SkerryRequest", "SkerryResponse"),
}
"""Internal types of messages to the node."""
ELSEWHERE = Origin(kind="tcp", host="10.1.2.3")


def admission(*rules: PermissionRule, **limits: Any) -> Admission:
    config = AdmissionConfig(permission=rules, limits=ClientLimits(**limits))
    return Admission(config, rng=Random(1))


# -- echo


def test_an_echo_is_returned_to_its_sender_only(harbour: Harbour) -> None:
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


def test_an_echo_waits_until_earlier_updates_of_its_client_are_stored(
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


def test_a_liveness_echo_does_not_wait_for_the_storage(
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


def test_persistent_updates_are_refused_while_the_journal_is_full(
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


def test_a_clear_without_type_names_is_a_fault(harbour: Harbour) -> None:
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
def test_a_refused_client_without_extensions_is_notified_and_disconnected(
    what: str, guarded: Harbour
) -> None:
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


def test_a_chosen_subject_does_not_evade_permissions(guarded: Harbour) -> None:
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


def test_an_object_is_not_moved_away_from_a_forbidden_subject(
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


def test_an_object_without_its_key_is_a_fault_of_any_client(guarded: Harbour) -> None:
    low = guarded.guest("low")
    low.publish(Boat(id=1))
    header = Header("Boat")
    header.attributes = 4
    low.say(header, b"\xa1\x02\x61x")
    assert low.fault == "Boat: the key is not complete"


def test_every_client_may_publish_that_it_runs(guarded: Harbour) -> None:
    low = guarded.guest("low")
    client = internal_class("DotsClient")
    low.publish(client(id=low.client_id, running=True))
    assert low.refusals() == []
    low.publish(client(id=1, running=True))
    assert low.refusals()[0][0] == "publish"


def test_remote_clients_may_do_nothing_by_default(harbour: Harbour) -> None:
    stranger = harbour.guest("stranger", origin=ELSEWHERE)
    stranger.publish(Boat(id=1))
    stranger.join("Boat")
    stranger.join("DotsClient")
    whats = [what for what, _ in stranger.refusals()]
    assert whats == ["publish", "subscribe", "subscribe"]
    assert harbour.cached(Boat) == []


def test_clients_of_loopback_addresses_publish_unexamined_and_may_not_clear(
    harbour: Harbour,
) -> None:
    local = harbour.guest("local", origin=Origin(kind="tcp", host="127.0.0.1"))
    client = harbour.node.host.table.by_id.get(local.client_id)
    assert client is not None
    assert client.is_free
    local.publish(Boat(id=1), Boat(id=2))
    local.remove(Boat(id=1))
    local.send("DotsClearCache", typeNames=["Boat"])
    local.publish(rule(accept=False))
    assert [what for what, _ in local.refusals()] == ["clear", "administer"]
    assert harbour.cached(Boat) == [Boat(id=2)]
    unix = harbour.guest("unix", origin=Origin(kind="unix"))
    unix.send("DotsClearCache", typeNames=["Boat"])
    assert harbour.cached(Boat) == []


# -- rules about who may connect


def rule(**fields: Any) -> Any:
    network = Network(network="127.0.0.1", prefix=32)
    return Rule(nameSpace="", network=network, clientName="", priority=1, **fields)


def test_a_secret_is_never_sent(make_harbour: Callable[..., Harbour]) -> None:
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
    harbour.wait(1)
    assert [guest.is_cut for guest in (wrong, right)] == [True, False]


def test_a_removed_rule_does_not_apply_any_more(harbour: Harbour) -> None:
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


def test_setting_rules_requires_the_right_to_administer(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    low.publish(rule(accept=False))
    low.publish(Policy(nameSpace="", accept=False))
    assert [what for what, _ in low.refusals()] == ["administer", "administer"]
    here = Origin(kind="tcp", host="127.0.0.1")
    assert not guarded.guest("high 2", origin=here).is_cut
    high.publish(rule(accept=False))
    assert guarded.guest("high 3", origin=here).is_cut


def test_an_empty_rule_harms_only_its_sender(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.publish(rule())
    assert guest.is_cut
    assert guest.fault == str(
        LocalProtocolError("DotsAuthentication without accept: set it for a new rule")
    )


def test_only_a_node_refuses(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    other.join("/...")
    other.forget()
    guest.send("SkerryRefusal", what="publish", reason="because")
    assert guest.refusals() == [
        ("publish", "SkerryRefusal: only the node publishes and removes its objects")
    ]
    assert other.items("SkerryRefusal") == []


def test_messages_to_the_node_are_not_forwarded(harbour: Harbour) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    names = ("DotsMember", "DotsDescriptorRequest", "DotsEcho")
    for name in names:
        other.join(name)
    guest.join("Boat")
    guest.send("DotsDescriptorRequest")
    guest.echo(1)
    assert not set(names) & set(other.names())


def test_an_invalid_message_harms_only_its_sender(harbour: Harbour) -> None:
    for name in ("DotsMember", "DotsEcho", "DotsClearCache", "DotsDescriptorRequest"):
        guest = harbour.guest(name)
        header = Header(name)
        header.attributes = 2
        guest.say(header, b"\xa1\x01\xf6")
        assert guest.is_cut
        assert guest.fault.startswith(f"{name}.")


def test_a_node_without_random_numbers_rejects_rules_with_a_secret(harbour: Harbour) -> None:
    # Its challenges could be foreseen, and the answers to them kept ready.
    admin = harbour.guest("admin")
    admin.publish(rule(accept=True))
    assert not admin.is_cut
    admin.publish(rule(secret="sesame", accept=True))
    assert "no random numbers" in admin.fault
    assert harbour.cached(Rule) == [rule(accept=True)]


@pytest.mark.parametrize("is_remove", [False, True])
def test_a_client_cannot_publish_the_state_of_another(harbour: Harbour, is_remove: bool) -> None:
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


FORBIDDEN = sorted(SPECIAL_TYPES - HANDSHAKE - SERVED - {"DotsNetwork", "SkerryNode"})


@pytest.mark.parametrize("name", FORBIDDEN)
def test_only_the_node_publishes_removes_and_clears_its_own_objects(
    harbour: Harbour, name: str
) -> None:
    watcher, forger = harbour.guest("watcher"), harbour.guest("forger")
    watcher.join("/...")
    watcher.join(name)
    harbour.wait(6)
    before = len(harbour.cached(internal_class(name)))
    watcher.forget()
    header = Header(name)
    header.attributes = 0
    for is_remove in (0, 1):
        header.remove_obj = is_remove
        forger.say(header, b"\xa0")
    forger.send("DotsClearCache", typeNames=[name])
    why = f"{name}: only the node publishes and removes its objects"
    assert forger.refusals() == [("publish", why), ("remove", why), ("clear", why)]
    assert watcher.items(name) == []
    assert len(harbour.cached(internal_class(name))) == before


@pytest.mark.parametrize("name", sorted(SERVED))
def test_clients_cannot_clear_objects_of_the_node(harbour: Harbour, name: str) -> None:
    guest = harbour.guest()
    before = len(harbour.cached(internal_class(name)))
    guest.send("DotsClearCache", typeNames=["Boat", name])
    assert [what for what, _ in guest.refusals()] == ["clear"]
    assert len(harbour.cached(internal_class(name))) == before


@pytest.mark.parametrize("name", sorted(CLIENT_TYPES))
def test_internal_types_that_clients_exchange_are_treated_like_others(
    harbour: Harbour, name: str
) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    other.join(name)
    cls = internal_class(name)
    guest.publish(cls(**{field.name: "x" for field in cls.descriptor.key_fields}))
    assert len(other.items(name)) == 1
    guest.send("DotsClearCache", typeNames=[name])
    assert guest.refusals() == []
    assert harbour.cached(cls) == []


def test_a_client_without_extensions_that_publishes_objects_of_the_node_is_disconnected(
    harbour: Harbour,
) -> None:
    guest = harbour.plain()
    guest.publish(internal_class("DotsDaemonStatus")(serverName="me"))
    assert guest.is_cut
    assert "only the node publishes" in guest.fault
    assert "SkerryRefusal" not in guest.names()


def test_a_client_publishes_only_running_of_its_own_state(harbour: Harbour) -> None:
    client = internal_class("DotsClient")
    watcher = harbour.guest("watcher")
    guest = harbour.plain("guest")
    watcher.join("DotsClient")
    watcher.forget()
    states = internal_class("DotsConnectionState")
    many = ["x" * 1000] * 100
    guest.publish(
        client(
            id=guest.client_id,
            running=True,
            name="another",
            publishedTypes=many,
            connectionState=states.of_tag(5),
        )
    )
    assert watcher.objects(client) == [client(id=guest.client_id, running=True)]
    (known,) = [obj for obj in harbour.cached(client) if obj.id == guest.client_id]
    assert (known.name, known.connectionState.label) == ("guest", "connected")
    assert known.running
    assert not guest.is_cut


def test_changes_of_running_are_limited(harbour: Harbour) -> None:
    client = internal_class("DotsClient")
    watcher, guest = harbour.guest("watcher"), harbour.guest("guest")
    watcher.join("DotsClient")
    watcher.forget()
    for _ in range(3):
        guest.publish(client(id=guest.client_id, running=True))
    assert len(watcher.items("DotsClient")) == 1, "the same again is nothing new"
    for number in range(RUNNING_CHANGE_COUNT_MAX):
        guest.post(client(id=guest.client_id, running=bool(number % 2)))
    harbour.pump()
    assert len(watcher.items("DotsClient")) == RUNNING_CHANGE_COUNT_MAX
    assert [what for what, _ in guest.refusals()] == ["publish"]


def test_a_clear_of_no_types_is_not_forwarded(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.join("DotsClearCache")
    low.send("DotsClearCache", typeNames=[])
    assert low.refusals() == []
    assert high.items("DotsClearCache") == []


def test_messages_to_the_node_have_no_subject(guarded: Harbour) -> None:
    low, high = guarded.guest("low"), guarded.guest("high")
    high.join("/alarms/...")
    high.join("/mine/...")
    client = internal_class("DotsClient")
    low.publish(client(id=low.client_id, running=True), subject="/alarms/fire")
    low.publish(client(id=low.client_id, running=False), subject="/mine/1")
    assert high.items("DotsClient") == []
    assert low.refusals() == []
