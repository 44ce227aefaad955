"""Where events wait for who iterates, and the place of a subscription in its space."""

from __future__ import annotations

from typing import Any

from skerry.client.api.inbox import Inbox, SubscriptionState
from skerry.client.core.event_queue import EventQueue
from tests.unit.client.api.test_subscription import session_of
from tests.unit.client.stage import Shout, Stage, Vessel


def test_events_wait_in_the_inbox_as_long_as_its_place_is_open() -> None:
    stage = Stage()
    session = session_of(stage)
    inbox: Inbox[Any] = Inbox(EventQueue(count_max=10, on_slow="disconnect"))
    place = SubscriptionState(session, "disconnect")
    place.open(Shout, inbox.put, inbox.wake, where=None, fields=None)
    is_open = [place.is_open]
    assert session.wakers == {inbox.wake}
    stage.publish(session.core, Shout(text="a"))
    place.end()
    place.end()
    is_open.append(place.is_open)
    assert is_open == [True, False]
    assert session.wakers == set()
    stage.publish(session.core, Shout(text="b"))
    first = inbox.queue.get()
    assert first is not None
    assert first.object.text == "a"
    assert inbox.queue.get() is None


def test_place_beside_others_shares_what_they_hold() -> None:
    stage = Stage()
    session = session_of(stage)
    interest, shape = session.core.hold(Vessel, stage.now_ns)
    stage.publish(session.core, Vessel(mmsi=1))
    inbox: Inbox[Any] = Inbox(EventQueue(count_max=10, on_slow="disconnect"))
    place = SubscriptionState(session, "disconnect")
    place.open_beside(interest, shape, inbox.put, inbox.wake)
    place.end_soon()
    is_open = [place.is_open]
    session.loop.turn()
    is_open.append(place.is_open)
    assert is_open == [True, False], "it is for the loop to do"
    assert interest.is_used
    assert len(inbox.queue) == 1
