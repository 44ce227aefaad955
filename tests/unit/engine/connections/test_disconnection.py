"""Connections end in order, and nothing is left of a client that disconnected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import skerry

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: uint32 id; }
    struct Whole { 1: [key] uint32 id; 2: Part part; }
    struct Shout [cached=false] { 1: string text; }
    struct Guard [cleanup] { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Part, Whole, Shout, Guard = TYPES.Boat, TYPES.Part, TYPES.Whole, TYPES.Shout, TYPES.Guard


@pytest.fixture
def watcher(harbour: Harbour) -> Guest:
    """A client that wants boats."""
    guest = harbour.guest("watcher")
    guest.join("Boat")
    return guest


def ids(guest: Guest) -> list[int]:
    return [boat.id for boat in guest.objects(Boat)]


def test_an_error_of_a_client_is_answered_with_the_same_error(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("DotsMsgError", errorCode=4, errorText="broken")
    assert guest.is_cut
    assert guest.fault == "received DOTS error: (4) broken"


@pytest.mark.parametrize("is_orderly", [True, False])
def test_objects_of_a_cleanup_type_are_removed_with_their_last_writer(
    is_orderly: bool, harbour: Harbour
) -> None:
    watcher, first, second = (harbour.guest(n) for n in ("watcher", "first", "second"))
    watcher.join("Guard")
    watcher.join("DotsClient")
    first.publish(Guard(id=1), Guard(id=2), Boat(id=1))
    first.publish(Guard(id=3), subject="/gate/3")
    second.publish(Guard(id=2, name="mine"))
    watcher.forget()
    if is_orderly:
        first.goodbye()
    else:
        first.vanish()
    assert [guard.id for guard in harbour.cached(Guard)] == [2]
    assert harbour.cached(Boat) == [Boat(id=1)]
    items = watcher.items("Guard")
    gone = [(Guard.decode(i.payload).id, int(i.header.sender)) for i in items]
    assert gone == [(1, 1), (3, 1)]
    assert all(item.header.remove_obj == 1 for item in items)
    assert watcher.names()[0] == "DotsClient", "its end is published before"


def test_a_client_that_left_a_group_receives_no_more_updates(
    harbour: Harbour, watcher: Guest
) -> None:
    watcher.leave("Boat")
    harbour.guest().publish(Boat(id=1))
    assert ids(watcher) == []


def test_a_node_that_stops_sends_all_clients_a_goodbye(harbour: Harbour) -> None:
    first, second, silent = harbour.guest("1"), harbour.guest("2"), harbour.stranger("silent")
    harbour.node.farewell(harbour.now_ns)
    harbour.pump()
    assert all(guest.is_cut for guest in (first, second, silent))
    assert [type(g.inputs[-1]).__name__ for g in (first, second)] == [
        "ConnectionEnded",
        "ConnectionEnded",
    ]
    assert harbour.node.statistics().client_count == 0
