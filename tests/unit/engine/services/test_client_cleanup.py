"""Cleanup after disconnected clients, in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import skerry
from skerry.engine.services.client_cleanup import ClientCleanup
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class
from skerry.protocol.machine import CloseReason

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }")
Boat = TYPES.Boat
COUNT = SELECT_SLICE_COUNT // 4


def lose(harbour: Harbour, guest: Guest) -> None:
    """Disconnect a client without advancing the node."""
    guest.is_mute = True
    harbour.node.stream_closed(guest.address, CloseReason.LOST, harbour.now_ns)


def group_count(harbour: Harbour) -> int:
    return harbour.node.statistics().group_count


def test_groups_are_left_in_slices_and_others_have_their_turn_between(harbour: Harbour) -> None:
    guest, other = harbour.guest("guest"), harbour.guest("other")
    for number in range(COUNT):
        guest.connection.join(f"Group{number}", 0.0)
    harbour.pump()
    assert group_count(harbour) == COUNT
    lose(harbour, guest)
    assert harbour.node.deadline_ns() == harbour.now_ns
    counts = [group_count(harbour)]
    while counts[-1]:
        other.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
        harbour.carry()
        harbour.node.advance(harbour.now_ns)
        counts.append(group_count(harbour))
    assert len(counts) >= 3
    harbour.pump()
    assert harbour.node.deadline_ns() != harbour.now_ns
    assert len(other.messages("DotsEcho")) == len(counts) - 1


def test_updates_for_a_disconnected_client_expire(harbour: Harbour) -> None:
    guest, maker = harbour.guest("guest"), harbour.guest("maker")
    maker.publish(Boat(id=1))
    for number in range(COUNT):
        guest.connection.join(f"Group{number}", 0.0)
    guest.join("Boat")
    lose(harbour, guest)
    assert group_count(harbour) > 1
    maker.post(Boat(id=2))
    harbour.carry()
    harbour.carry()
    assert harbour.row("Boat").expired == 1
    harbour.pump()
    assert group_count(harbour) == 0
    harbour.check()


def test_claims_pass_to_standbys(harbour: Harbour) -> None:
    guest, heir = harbour.guest("guest"), harbour.guest("heir")
    guest.publish(Boat(id=0))
    heir.describe(Boat)
    events = internal_class("SkerryClaimEvent")

    def claim(who: Guest, number: int, event: str) -> None:
        message = internal_class("SkerryClaim")(number=number + 1, typeName="Boat")
        message.event, message.object = events[event], Boat(id=number).encode()
        who.connection.send_message(message, 0.0)

    for number in range(100):
        claim(guest, number, "claim")
    harbour.pump()
    for number in range(100):
        claim(heir, number, "standby")
    harbour.pump()
    lose(harbour, guest)
    # One that is taken over between two slices is not given up again.
    claim(heir, 99 + 1000, "claim")
    claim(heir, 99, "release")
    harbour.pump()
    held = [m.number for m in heir.messages("SkerryClaimed") if m.state.label == "held"]
    assert {number + 1 for number in range(99)} <= set(held)
    assert harbour.node.statistics().held_count == 100


def test_a_node_that_stops_completes_the_cleanup(harbour: Harbour) -> None:
    guest = harbour.guest("guest")
    for number in range(COUNT):
        guest.connection.join(f"Group{number}", 0.0)
    harbour.pump()
    harbour.node.farewell(harbour.now_ns)
    assert group_count(harbour) == 0
    departures = harbour.node._cleanup
    assert isinstance(departures, ClientCleanup)
    assert not departures


def test_topics_of_published_types_are_not_renewed_for_the_cleanup(
    harbour: Harbour,
) -> None:
    text = "struct Inner [substruct_only] { 1: int32 value; }" + "".join(
        f"struct Whole{number} {{ 1: [key] uint32 id; 2: Inner inner; }}" for number in range(30)
    )
    types = skerry.define_types(text)
    maker, other = harbour.guest("maker"), harbour.guest("other")
    maker.publish(*(getattr(types, f"Whole{number}")(id=1) for number in range(30)))
    other.describe(skerry.define_types(text.replace("value;", "value; 2: int32 x;")).Whole0)
    outdated = len(harbour.node._dispatcher.outdated)
    assert outdated >= 29
    maker.vanish()
    harbour.pump()
    assert len(harbour.node._dispatcher.outdated) == outdated
