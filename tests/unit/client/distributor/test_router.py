"""Who gets what, with a machine that is fed by hand."""

from __future__ import annotations

import threading
from random import Random

import pytest

from skerry.client.distributor.delivery_queue import DeliveryQueue
from skerry.client.distributor.router import (
    DISTRIBUTOR_ROUTE_COUNT_MAX,
    GroupSubscription,
    SubscriberRouter,
    SubscriberRoutes,
)
from skerry.errors import LocalProtocolError
from skerry.protocol.distributor.connection import GroupConnection as Machine
from skerry.protocol.distributor.events import Delivered, Direction, SenderFound
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address, MachineEvent

GROUP = Address("239.255.77.1", 4711)


def machine(number: int) -> Machine:
    identity = SenderIdentity(
        address=b"\x7f\0\0\1", sender_id=number, start_ms=1_700_000_000_000, application_id=number
    )
    return Machine(group=GROUP, identity=identity, rng=Random(number), now_ns=0)


class Group:
    """A router, and a sender whose updates it receives."""

    def __init__(self) -> None:
        self.machine, self.sender = machine(1), machine(2)
        self.router = SubscriberRouter(self.machine, threading.Lock())
        self.sender.open_publisher(0)
        self.carry()

    def carry(self) -> None:
        for datagram in self.sender.take_datagrams():
            self.machine.receive(datagram, GROUP, 0)

    def publish(self, *subjects: str) -> None:
        for subject in subjects:
            self.sender.publish(subject, subject.encode(), 0)
        self.carry()
        self.router.route()


class Ear:
    """A subscriber."""

    def __init__(self, router: SubscriberRouter, *patterns: str, **options: object) -> None:
        self.tags: list[tuple[str, object]] = []
        self.events: list[MachineEvent] = []
        self.routes = SubscriberRoutes(router)
        self.outlet = DeliveryQueue(
            name="ear",
            on_event=self.events.append,
            on_update=lambda subject, _data, tag, _waiting: self.tags.append((subject, tag)),
            routes=self.routes,
            **{"delivery": "inline", **options},  # type: ignore[arg-type]
        )
        router.add_subscriber(self.routes, self.outlet)
        self.handles = [router.subscribe(self.routes, pattern, pattern) for pattern in patterns]

    def collected(self) -> list[tuple[str, object]]:
        self.outlet.run()
        tags, self.tags = self.tags, []
        return tags


@pytest.fixture
def group() -> Group:
    return Group()


def test_only_subscriber_receives_all_subscribed_updates(group: Group) -> None:
    ear = Ear(group.router, "/a")
    assert ear.routes.is_single
    group.publish("/a", "/b", "/a")
    assert ear.collected() == [("/a", "/a"), ("/a", "/a")]
    assert group.router.subscriber_count == 1
    assert group.router.has_subscriptions


def test_each_subscriber_receives_its_updates_with_each_tag(group: Group) -> None:
    first, second = Ear(group.router, "/a"), Ear(group.router, "/b", "/*", "/b")
    group.publish("/a", "/b", "/c")
    assert first.collected() == [("/a", "/a")]
    assert second.collected() == [
        ("/a", "/*"), ("/b", "/b"), ("/b", "/b"), ("/b", "/*"), ("/c", "/*"),
    ]  # fmt: skip


def test_waiting_updates_use_the_current_subscriptions(group: Group) -> None:
    ear = Ear(group.router, "/a", "/b")
    group.publish("/a", "/b")
    group.router.unsubscribe(ear.routes, ear.handles[0])
    assert ear.collected() == [("/b", "/b")]


def test_routes_above_the_limit_are_forgotten(group: Group) -> None:
    assert group.router.route_count_max == DISTRIBUTOR_ROUTE_COUNT_MAX
    group.router.route_count_max = 2
    first, second = Ear(group.router, "/...", "/x"), Ear(group.router, "/...")
    group.publish(*(f"/{number}" for number in range(5)))
    assert [subject for subject, _ in first.collected()] == [f"/{number}" for number in range(5)]
    assert len(second.collected()) == 5
    assert len(first.routes.known) <= 2
    assert len(group.router._split) <= 2


def test_events_reach_all_queues_and_a_new_queue_receives_known_senders(group: Group) -> None:
    group.router.route()
    ear = Ear(group.router)
    ear.outlet.run()
    assert [type(event) for event in ear.events] == [SenderFound]


def test_notable_events_are_logged_without_a_callback(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.machine.failed(Direction.SEND, "broken")
    assert not group.router.route()
    assert "trouble in a multicast group" in caplog.text


def test_end_of_the_machine_is_reported(group: Group) -> None:
    group.router.is_closing = True
    ear = Ear(group.router)
    group.machine.close(1)
    group.machine.advance(1)
    assert group.router.route()
    group.router.remove_subscriber(ear.routes)
    assert group.router.subscriber_count == 0


def test_disconnected_subscriber_has_no_subscriptions(group: Group) -> None:
    ear = Ear(group.router, "/a", delivery="thread", on_slow="disconnect", count_max=1)
    try:
        group.publish("/a", "/a")
        assert not group.router.has_subscriptions
        assert group.machine.statistics().subscription_count == 0
        with pytest.raises(LocalProtocolError, match="closed"):
            group.router.subscribe(ear.routes, "/a", None)
    finally:
        ear.outlet.close()


def test_removed_subscriber_cannot_subscribe(group: Group) -> None:
    ear = Ear(group.router, "/a")
    with pytest.raises(LocalProtocolError, match="no subscription"):
        group.router.unsubscribe(ear.routes, 12345)
    group.router.remove_subscriber(ear.routes)
    group.router.remove_subscriber(ear.routes)
    with pytest.raises(LocalProtocolError, match="closed"):
        group.router.subscribe(ear.routes, "/a", None)


def test_a_full_queue_leaves_no_room(group: Group) -> None:
    ear = Ear(group.router, "/a")
    assert group.router.has_room
    ear.outlet.is_full = True
    assert not group.router.has_room


def test_a_subscription_knows_its_tag(group: Group) -> None:
    routes = SubscriberRoutes(group.router)
    assert GroupSubscription(routes, "x").tag == "x"


def test_tap_receives_everything_and_subscribers_only_their_updates(
    group: Group,
) -> None:
    events: list[MachineEvent] = []
    states = [group.router.has_subscriptions]
    group.router.tap(events.append)
    assert [*states, group.router.has_subscriptions] == [False, True]
    group.publish("/a")
    ear = Ear(group.router, "/b")
    group.publish("/a", "/b")
    assert ear.collected() == [("/b", "/b")]
    delivered = [event for event in events if isinstance(event, Delivered)]
    assert [subject for event in delivered for subject, _ in event.updates] == ["/a", "/a", "/b"]
    assert delivered[0].sender.sender_id == 2
    numbers = [event.numbers for event in delivered]
    assert numbers[0] == [(0, 1)]
    assert all(found is not None for found in numbers)
