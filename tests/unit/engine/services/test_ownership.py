"""Claims: holders and standbys, and the protection of owned objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.services.ownership import handler_subject
from skerry.errors import LocalProtocolError
from skerry.limits import CLAIM_COUNT_MAX, HANDLER_NAME_BYTES_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Buoy [cleanup] { 1: [key] uint32 id; 2: string name; }
    struct Shout [cached=false] { 1: string text; }
    struct Part [substruct_only] { 1: string text; }
    struct Ask [cached=false] { 1: string text; }
    struct Weather { 1: string text; }
    struct Note { 1: [key] string name; }
    struct Port { 1: [key] string name; }
    """
)
Boat, Buoy, Shout, Part, Ask = TYPES.Boat, TYPES.Buoy, TYPES.Shout, TYPES.Part, TYPES.Ask
Note = TYPES.Note
EVENTS: Any = internal_class("SkerryClaimEvent")
Holder: Any = internal_class("SkerryHolder")


def key_of(obj: Any) -> bytes:
    return bytes(codec_of(type(obj)).encode_only(obj, obj.descriptor.key_mask))


def claim(
    guest: Guest, what: Any, number: int = 1, event: str = "claim", *, handler: str | None = None
) -> None:
    """Claim an object, all objects of a class, or the requests of a class."""
    cls: Any = what if isinstance(what, type) else type(what)
    guest.describe(cls)
    fields: dict[str, Any] = {} if handler is None else {"handler": handler}
    if not isinstance(what, type):
        fields["object"] = key_of(what)
    name = cls.descriptor.name
    guest.send("SkerryClaim", number=number, event=EVENTS[event], typeName=name, **fields)


def notified(guest: Guest) -> list[tuple[int, str]]:
    return [(m.number, m.state.label) for m in guest.messages("SkerryClaimed")]


def reasons(guest: Guest) -> list[str]:
    return [m.reason for m in guest.messages("SkerryClaimed") if m.reason is not None]


def holders(harbour: Harbour) -> dict[str, tuple[int, int]]:
    return {h.subject: (h.client, h.standbys) for h in harbour.cached(Holder)}


def rules(*allowed: tuple[str, tuple[Any, ...]]) -> Admission:
    """Permissions for everything, except for the client "limited": one subject and some verbs."""
    mine = [
        PermissionRule(client="limited", verbs=verbs, subjects=(subject,))
        for subject, verbs in allowed
    ]
    others = PermissionRule(client="limited", verbs=("all",), subjects=("/...",), allow=False)
    everybody = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    return Admission(AdmissionConfig(permission=(*mine, others, everybody)))


# -- who holds it


def test_the_first_claim_holds_its_target_and_the_holder_is_published(harbour: Harbour) -> None:
    owner, watcher = harbour.guest("owner"), harbour.guest("watcher")
    watcher.join("SkerryHolder")
    claim(owner, Boat(id=7))
    assert notified(owner) == [(1, "held")]
    assert holders(harbour) == {"/Boat/7": (owner.client_id, 0)}
    (seen,) = watcher.messages("SkerryHolder")
    assert (seen.kind.label, seen.typeName) == ("objects", "Boat")


def test_a_later_claim_takes_over_and_the_former_holder_is_notified(harbour: Harbour) -> None:
    former, owner = harbour.guest("former"), harbour.guest("owner")
    claim(former, Boat(id=7), 3)
    claim(owner, Boat(id=7), 3)
    assert notified(former) == [(3, "held"), (3, "lost")]
    assert reasons(former) == [f"/Boat/7: claimed by client {owner.client_id}"]
    assert notified(owner) == [(3, "held")]
    owner.goodbye()
    assert holders(harbour) == {}
    assert notified(former) == [(3, "held"), (3, "lost")]


def test_standbys_become_holders_in_their_order(harbour: Harbour) -> None:
    owner, first, second = (harbour.guest(name) for name in ("owner", "first", "second"))
    claim(owner, Boat(id=7))
    claim(first, Boat(id=7), event="standby")
    claim(second, Boat(id=7), event="standby")
    assert holders(harbour) == {"/Boat/7": (owner.client_id, 2)}
    owner.vanish()
    assert notified(first) == [(1, "standby"), (1, "held")]
    assert notified(second) == [(1, "standby")]
    assert holders(harbour) == {"/Boat/7": (first.client_id, 1)}
    first.send("SkerryClaim", number=1, event=EVENTS["release"])
    assert notified(second) == [(1, "standby"), (1, "held")]
    assert holders(harbour) == {"/Boat/7": (second.client_id, 0)}


def test_a_standby_holds_a_free_target_at_once(harbour: Harbour) -> None:
    guest = harbour.guest()
    claim(guest, Boat(id=7), event="standby")
    assert notified(guest) == [(1, "held")]


def test_a_standby_that_lost_its_target_is_the_next_holder(harbour: Harbour) -> None:
    spare, waiting, owner = (harbour.guest(name) for name in ("spare", "waiting", "owner"))
    claim(spare, Boat(id=7), event="standby")
    claim(waiting, Boat(id=7), event="standby")
    claim(owner, Boat(id=7))
    assert notified(spare) == [(1, "held"), (1, "standby")]
    owner.vanish()
    assert notified(spare) == [(1, "held"), (1, "standby"), (1, "held")]
    assert notified(waiting) == [(1, "standby")]


def test_a_standby_that_disconnects_is_skipped(harbour: Harbour) -> None:
    owner, first, second = (harbour.guest(name) for name in ("owner", "first", "second"))
    claim(owner, Boat(id=7))
    claim(first, Boat(id=7), event="standby")
    claim(second, Boat(id=7), event="standby")
    first.vanish()
    assert holders(harbour) == {"/Boat/7": (owner.client_id, 1)}
    owner.goodbye()
    assert notified(second) == [(1, "standby"), (1, "held")]


def test_a_disconnected_client_does_not_become_a_holder(harbour: Harbour) -> None:
    owner, heir = harbour.guest("owner"), harbour.guest("heir")
    claim(owner, Boat(id=7), 1)
    claim(owner, Boat(id=7), 2, "standby")
    claim(heir, Boat(id=7), event="standby")
    heir.join("SkerryHolder")
    heir.forget()
    owner.vanish()
    assert notified(heir) == [(1, "held")]
    assert {m.client for m in heir.messages("SkerryHolder") if m.client} <= {
        owner.client_id,
        heir.client_id,
    }
    assert heir.messages("SkerryHolder")[-1].client == heir.client_id


def test_a_released_number_can_be_used_again_and_an_unknown_one_is_ignored(
    harbour: Harbour,
) -> None:
    guest = harbour.guest()
    claim(guest, Boat(id=7))
    guest.send("SkerryClaim", number=1, event=EVENTS["release"])
    guest.send("SkerryClaim", number=1, event=EVENTS["release"])
    claim(guest, Boat(id=8))
    assert notified(guest) == [(1, "held"), (1, "held")]
    assert holders(harbour) == {"/Boat/8": (guest.client_id, 0)}


def test_a_number_that_is_in_use_ends_the_connection(harbour: Harbour) -> None:
    guest = harbour.guest()
    claim(guest, Boat(id=7))
    claim(guest, Boat(id=8))
    assert guest.is_cut
    assert guest.fault == "SkerryClaim: number 1 is in use"
    assert holders(harbour) == {}


@pytest.mark.parametrize("fields", [{}, {"number": 1}, {"event": EVENTS["claim"]}])
def test_a_claim_without_number_or_event_ends_the_connection(
    harbour: Harbour, fields: dict[str, Any]
) -> None:
    guest = harbour.guest()
    guest.send("SkerryClaim", **fields)
    assert guest.fault == "SkerryClaim: without number or event"


def test_claims_of_clients_without_extensions_end_the_connection(harbour: Harbour) -> None:
    guest = harbour.plain()
    claim(guest, Boat(id=7))
    assert guest.fault == "SkerryClaim: without `extensions`"


# -- what can be claimed


def test_an_impossible_claim_is_refused_and_its_number_is_free_again(harbour: Harbour) -> None:
    guest = harbour.guest()
    event = EVENTS["claim"]
    claim(guest, Shout)
    guest.describe(Part)
    guest.send("SkerryClaim", number=1, event=event, typeName="Part")
    guest.send("SkerryClaim", number=1, event=event, typeName="DotsClient")
    guest.send("SkerryClaim", number=1, event=event, typeName="Nothing")
    guest.send("SkerryClaim", number=1, event=event)
    guest.describe(Boat)
    guest.send("SkerryClaim", number=1, event=event, typeName="Boat", object=b"\xa0")
    assert notified(guest) == [(1, "refused")] * 6
    assert reasons(guest) == [
        "Shout: objects of a type that is not cached cannot be claimed",
        "Part: its objects cannot be claimed",
        "DotsClient: its objects cannot be claimed",
        "Nothing: there is no such type",
        ": there is no such type",
        "Boat: the key is not complete",
    ]
    assert harbour.node.statistics().refusals == {"claim": 6}
    claim(guest, Boat(id=1))
    assert notified(guest)[-1] == (1, "held")


def test_bytes_that_are_not_an_object_end_the_connection(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    event = EVENTS["claim"]
    guest.send("SkerryClaim", number=1, event=event, typeName="Boat", object=b"\xff")
    assert guest.is_cut
    assert holders(harbour) == {}


def test_the_claims_of_a_client_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    config = AdmissionConfig(limits=ClientLimits(claim_count_max=2))
    harbour = make_harbour(admission=Admission(config))
    guest, other = harbour.guest(), harbour.guest("other")
    for number in (1, 2, 3):
        claim(guest, Boat(id=number), number)
    assert notified(guest) == [(1, "held"), (2, "held"), (3, "refused")]
    assert reasons(guest) == ["/Boat/3: 2 claims already"]
    claim(other, Boat(id=3))
    assert notified(other) == [(1, "held")]
    assert ClientLimits().claim_count_max == CLAIM_COUNT_MAX
    harbour.check()


def test_an_object_with_too_long_a_key_is_refused_and_the_client_stays(harbour: Harbour) -> None:
    owner = harbour.guest("owner")
    room = SUBJECT_CHAR_COUNT_MAX - len("/Port/")
    claim(owner, TYPES.Port(name="x" * room), 1)
    claim(owner, TYPES.Port(name="x" * (room + 1)), 2)
    # This takes three characters.
    claim(owner, TYPES.Port(name="x" * (room - 1) + "/"), 3)
    assert notified(owner) == [(1, "held"), (2, "refused"), (3, "refused")]
    assert all("the key is too long" in reason for reason in reasons(owner))
    assert len(holders(harbour)) == 1
    owner.goodbye()
    assert holders(harbour) == {}


def test_the_length_of_a_handler_name_is_limited(harbour: Harbour) -> None:
    guest = harbour.guest()
    claim(guest, Ask, 1, handler="h" * HANDLER_NAME_BYTES_MAX)
    claim(guest, Ask, 2, handler="h" * (HANDLER_NAME_BYTES_MAX + 1))
    assert notified(guest) == [(1, "held"), (2, "refused")]
    with pytest.raises(LocalProtocolError, match="has 202 bytes, the limit is 200"):
        handler_subject("Ask", "ä" * 101)


def test_the_subject_of_a_handler_has_the_type_and_its_name() -> None:
    assert handler_subject("Ask", "") == "/Ask"
    assert handler_subject("Ask", "router 1/2") == "/Ask/router%201%2F2"


def test_objects_and_requests_of_one_type_are_claimed_separately(harbour: Harbour) -> None:
    owner, server = harbour.guest("owner"), harbour.guest("server")
    claim(owner, Boat)
    claim(server, Boat, handler="")
    assert notified(owner) == notified(server) == [(1, "held")]
    kinds = {(h.kind.label, h.client) for h in harbour.cached(Holder)}
    assert kinds == {("objects", owner.client_id), ("requests", server.client_id)}


# -- permissions


def test_owning_objects_requires_the_right_to_publish_and_to_remove(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(
        admission=rules(
            ("/Boat/1", ("publish", "remove")),
            ("/Boat/2", ("publish",)),
            ("Buoy", ("publish", "remove")),
        )
    )
    guest = harbour.guest("limited")
    claim(guest, Boat(id=1), 1)
    claim(guest, Boat(id=2), 2)
    claim(guest, Boat, 3)
    claim(guest, Buoy, 4)
    assert notified(guest) == [(1, "held"), (2, "refused"), (3, "refused"), (4, "held")]
    assert reasons(guest) == ["/Boat/2: not permitted", "/Boat: not permitted"]


def test_owning_an_object_requires_the_right_to_its_chosen_subject_too(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=rules(("Boat", ("publish", "remove"))))
    other, guest = harbour.guest("other"), harbour.guest("limited")
    other.publish(Boat(id=1), subject="/secret/1")
    claim(guest, Boat(id=1), 1)
    claim(guest, Boat(id=2), 2)
    assert notified(guest) == [(1, "refused"), (2, "held")]


def test_answering_requests_requires_the_right_to_subscribe_to_them(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=rules(("/Ask/mine", ("subscribe", "publish"))))
    guest = harbour.guest("limited")
    claim(guest, Ask, 1, handler="mine")
    claim(guest, Ask, 2, handler="yours")
    assert notified(guest) == [(1, "held"), (2, "refused")]


def test_a_client_that_loses_the_right_to_its_claim_is_disconnected(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=rules(("Boat", ("all",))))
    guest, heir = harbour.guest("limited"), harbour.guest("heir")
    claim(guest, Boat(id=1))
    claim(heir, Boat(id=1), event="standby")
    deny = PermissionRule(client="limited", verbs=("all",), subjects=("/...",), allow=False)
    everybody = PermissionRule(client="*", verbs=("all",), subjects=("/...",))
    harbour.node.renew_admission(AdmissionConfig(permission=(deny, everybody)), harbour.now_ns)
    harbour.pump()
    assert guest.fault == "/Boat/1: not permitted any more"
    assert notified(heir)[-1] == (1, "held")


# -- what it means to own


def test_only_the_owner_changes_an_object(harbour: Harbour) -> None:
    owner, other = harbour.guest("owner"), harbour.guest("other")
    other.publish(Boat(id=7, name="before"))
    claim(owner, Boat(id=7))
    why = f"/Boat/7: it is owned by client {owner.client_id}"
    other.publish(Boat(id=7, name="theirs"))
    other.remove(Boat(id=7))
    assert other.refusals() == [("publish", why), ("remove", why)]
    assert harbour.cached(Boat) == [Boat(id=7, name="before")]
    owner.publish(Boat(id=7, name="mine"))
    other.publish(Boat(id=8, name="free"))
    assert harbour.cached(Boat) == [Boat(id=7, name="mine"), Boat(id=8, name="free")]
    assert not other.is_cut


def test_of_a_row_of_updates_only_those_of_owned_objects_are_refused(harbour: Harbour) -> None:
    owner, other, listener = (harbour.guest(name) for name in ("owner", "other", "listener"))
    listener.join("Boat")
    claim(owner, Boat(id=7))
    # The header is the same each time, so all but the first go the short way.
    other.publish(*(Boat(id=number, name="x") for number in (5, 6, 7, 8)))
    owner.publish(*(Boat(id=7, name=str(number)) for number in range(4)))
    assert [boat.id for boat in listener.objects(Boat)] == [5, 6, 8, 7, 7, 7, 7]
    assert [what for what, _ in other.refusals()] == ["publish"]


def test_a_refusal_is_short_however_long_the_key_is(harbour: Harbour) -> None:
    owner, other = harbour.guest("owner"), harbour.guest("other")
    claim(owner, Note)
    other.publish(Note(name="/" * 4_000_000))
    ((what, why),) = other.refusals()
    assert what == "publish"
    assert why.endswith(f": it is owned by client {owner.client_id}")
    assert len(why) < 300
    assert not other.is_cut


def test_a_client_without_extensions_that_changes_an_owned_object_is_disconnected(
    harbour: Harbour,
) -> None:
    owner, plain = harbour.guest("owner"), harbour.plain()
    claim(owner, Boat(id=7))
    plain.publish(Boat(id=7, name="theirs"))
    assert plain.is_cut
    assert plain.fault == f"publish: /Boat/7: it is owned by client {owner.client_id}"


def test_the_owner_of_one_object_takes_precedence_over_the_owner_of_all(harbour: Harbour) -> None:
    one, all_ = harbour.guest("one"), harbour.guest("all")
    claim(all_, Boat)
    claim(one, Boat(id=7))
    one.publish(Boat(id=7, name="one"))
    all_.publish(Boat(id=8, name="all"))
    one.publish(Boat(id=8, name="one"))
    all_.publish(Boat(id=7, name="all"))
    assert harbour.cached(Boat) == [Boat(id=7, name="one"), Boat(id=8, name="all")]
    one.vanish()
    all_.publish(Boat(id=7, name="all"))
    assert harbour.cached(Boat)[0].name == "all"


def test_a_claim_to_a_singleton_is_a_claim_to_its_type(harbour: Harbour) -> None:
    former, owner = harbour.guest("former"), harbour.guest("owner")
    claim(former, TYPES.Weather)
    claim(owner, TYPES.Weather())
    assert notified(former) == [(1, "held"), (1, "lost")]
    assert holders(harbour) == {"/Weather": (owner.client_id, 0)}
    former.publish(TYPES.Weather(text="rain"))
    owner.publish(TYPES.Weather(text="sun"))
    assert harbour.cached(TYPES.Weather) == [TYPES.Weather(text="sun")]
    owner.goodbye()
    assert holders(harbour) == {}


def test_objects_without_an_owner_can_be_changed_by_all(harbour: Harbour) -> None:
    owner, other = harbour.guest("owner"), harbour.guest("other")
    claim(owner, Boat, 1)
    claim(owner, Boat(id=7), 2)
    owner.send("SkerryClaim", number=1, event=EVENTS["release"])
    other.publish(Boat(id=8, name="free"))
    owner.goodbye()
    other.publish(Boat(id=7, name="free"))
    assert other.refusals() == []
    assert harbour.node.statistics().held_count == 0


def test_objects_of_other_owners_cannot_be_cleared(harbour: Harbour) -> None:
    owner, other = harbour.guest("owner"), harbour.guest("other")
    owner.publish(Boat(id=7), Boat(id=8))
    claim(owner, Boat(id=7))
    other.send("DotsClearCache", typeNames=["Boat"])
    assert other.refusals() == [("clear", "Boat: another client owns some of its objects")]
    assert len(harbour.cached(Boat)) == 2
    owner.send("DotsClearCache", typeNames=["Boat"])
    assert harbour.cached(Boat) == []


def test_ownership_does_not_change_the_cleanup_of_objects(harbour: Harbour) -> None:
    maker, owner, heir = (harbour.guest(name) for name in ("maker", "owner", "heir"))
    maker.publish(Boat(id=1), Buoy(id=1), Buoy(id=2))
    claim(owner, Boat(id=1), 1)
    claim(owner, Buoy(id=2), 2)
    claim(heir, Buoy(id=2), event="standby")
    owner.publish(Buoy(id=2, name="mine"))
    maker.vanish()
    assert harbour.cached(Buoy) == [Buoy(id=2, name="mine")]
    owner.vanish()
    assert harbour.cached(Buoy) == []
    assert harbour.cached(Boat) == [Boat(id=1)]
    assert notified(heir) == [(1, "standby"), (1, "held")]


def test_only_a_node_publishes_claims(harbour: Harbour) -> None:
    for name in ("SkerryClaimed", "SkerryHolder"):
        guest = harbour.guest(name)
        guest.send(name)
        why = f"{name}: only the node publishes and removes its objects"
        assert guest.refusals() == [("publish", why)]
