"""A session with its machine, socket and queues, driven by hand."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skerry.client.distributor import group_session as module
from skerry.client.distributor.config import Config
from skerry.client.distributor.delivery_queue import DeliveryQueue
from skerry.client.distributor.group_session import GroupSession
from skerry.client.distributor.router import SubscriberRoutes
from skerry.errors import ConnectFailed, LocalProtocolError, WouldBlock
from skerry.protocol.distributor.events import CommunicationFailed, Direction, SenderFound
from skerry.protocol.machine import Address, MachineEvent
from skerry.runtime.udp.multicast import MulticastSocket

Join = Callable[..., GroupSession]


@pytest.fixture
def join(group: str) -> Iterator[Join]:
    made: list[GroupSession] = []

    def joined(**fields: Any) -> GroupSession:
        may_wait = fields.pop("may_wait", True)
        fields = {"interface": "127.0.0.1", "ttl": 0, "request_timeout_ms": 20, **fields}
        made.append(GroupSession(group, Config(**fields), may_wait=may_wait))
        return made[-1]

    yield joined
    for one in made:
        one.end()


class Listener:
    """A subscriber whose callbacks the test runs."""

    def __init__(self, session: GroupSession, *patterns: str, in_batches: bool = False) -> None:
        self.session = session
        self.updates: list[tuple[str, bytes, object]] = []
        self.events: list[MachineEvent] = []
        self.routes = SubscriberRoutes(session.router)
        self.queue = DeliveryQueue(
            name="listener",
            on_event=self.events.append,
            on_update=lambda subject, data, tag, _: self.updates.append((subject, data, tag)),
            routes=self.routes,
            delivery="inline",
        )
        session.open_subscriber(self.routes, self.queue)
        self.handles = [session.subscribe(self.routes, pattern, pattern) for pattern in patterns]

    def listen(self) -> None:
        """Read until no datagram is left."""
        while select.select([self.session.driver.socket], [], [], 0.05)[0]:
            self.session.turn()
        self.session.turn()
        self.session.run_inline()


def add_publisher(session: GroupSession, events: list[MachineEvent] | None = None) -> DeliveryQueue:
    """A publisher."""
    on_event = None if events is None else events.append
    queue = DeliveryQueue(name="publisher", on_event=on_event, delivery="inline")
    session.open_publisher(queue)
    return queue


def test_updates_come_with_the_tag_of_each_subscription(join: Join) -> None:
    listener = Listener(join(), "/a/*", "/a/b", "/a/b")
    sender = join()
    add_publisher(sender)
    sender.publishing.publish("/a/b", b"1")
    sender.publishing.publish("/a/c", b"2")
    sender.publishing.publish("/b", b"3")
    listener.listen()
    assert listener.updates == [
        ("/a/b", b"1", "/a/b"), ("/a/b", b"1", "/a/b"), ("/a/b", b"1", "/a/*"),
        ("/a/c", b"2", "/a/*"),
    ]  # fmt: skip


def test_what_waits_for_a_subscription_that_is_removed_is_not_delivered(join: Join) -> None:
    session = join()
    listener = Listener(session, "/a", "/b")
    sender = join()
    add_publisher(sender)
    sender.publishing.publish("/a", b"1")
    sender.publishing.publish("/b", b"2")
    select.select([session.driver.socket], [], [], 1)
    while select.select([session.driver.socket], [], [], 0.05)[0]:
        session.turn()
    session.unsubscribe(listener.routes, listener.handles[0])
    session.run_inline()
    assert listener.updates == [("/b", b"2", "/b")]


def waits(session: GroupSession) -> bool:
    """Whether something was published and not sent; where depends on the build."""
    return bool(session.publishing.pending) or session.publishing.packer.count > 0


def test_held_updates_share_a_datagram_and_are_sent_in_time(join: Join) -> None:
    listener = Listener(join(), "/a")
    sender = join(holdback_delay_ms=50, holdback_threshold_per_s=0)
    woken: list[bool] = []
    add_publisher(sender)
    sender.turn()
    sender.set_waker(lambda: woken.append(True))
    for number in range(10):
        sender.publishing.publish("/a", b"%d" % number)
    # The first goes at once, since nothing was published before it; the others wait.
    assert waits(sender)
    assert woken, "the driving thread sleeps for seconds and must be woken"
    listener.listen()
    assert len(listener.updates) < 10
    sender.publishing.flush()
    listener.listen()
    assert [data for _, data, _ in listener.updates] == [b"%d" % number for number in range(10)]
    assert not waits(sender)
    assert sender.machine.statistics().sent_datagram_count <= 3


def test_turn_hands_over_waiting_updates(join: Join) -> None:
    sender = join(holdback_delay_ms=50, holdback_threshold_per_s=0)
    add_publisher(sender)
    for _ in range(4):
        sender.publishing.publish("/a", b"x")
    sender.turn()
    assert not sender.publishing.pending


def test_receiver_has_nothing_to_settle_until_something_is_due(join: Join) -> None:
    session, other = join(), join()
    listener = Listener(session, "/a")
    add_publisher(other)
    session.turn()
    # A new sender is known: a deadline is set for its removal.
    now_ns = session.receive()
    assert session.is_due(now_ns) == (session.deadline_ns > (session.machine.deadline_ns() or 0))
    session.settle()
    other.publishing.publish("/a", b"1")
    select.select([session.driver.socket], [], [], 5)
    now_ns = session.receive()
    session.run_inline()
    assert listener.updates == [("/a", b"1", "/a")]
    assert not session.is_due(now_ns)
    assert session.is_due(session.deadline_ns)
    add_publisher(session)
    session.publishing.publish("/b", b"")
    session.machine.publish("/b", b"", now_ns)
    assert session.is_due(now_ns), "a datagram is ready"
    session.settle()
    assert not session.machine.has_ready


def test_invalid_subjects_are_rejected_by_publish(join: Join) -> None:
    sender = join(holdback_delay_ms=50)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        sender.publishing.publish("/a", b"")
    add_publisher(sender)
    for subject in ("a", "/a/*", "/ä", ""):
        with pytest.raises(LocalProtocolError):
            sender.publishing.publish(subject, b"")
    data: Any = bytearray(b"x")
    with pytest.raises(TypeError, match="bytearray"):
        sender.publishing.publish("/a", data)
    assert sender.machine.statistics().sent_update_count == 0


def test_large_updates_are_cut_and_keep_their_place(join: Join) -> None:
    listener = Listener(join(socket_buffer_bytes=500_000), "/a")
    sender = join()
    add_publisher(sender)
    large = bytes(range(256)) * 200
    for data in (b"1", large, b"2", bytes(7000)):
        sender.publishing.publish("/a", data)
    listener.listen()
    assert [data for _, data, _ in listener.updates] == [b"1", large, b"2", bytes(7000)]


def test_update_that_just_fits_is_one_datagram(join: Join) -> None:
    sender = join()
    add_publisher(sender)
    sender.publishing.publish("/a", b"")
    head_bytes = 1 + 4 + len("/a") + 1
    most = sender.machine.segment_bytes - 28 - head_bytes - 4
    for size, count in ((most, 2), (most + 1, 4)):
        sender.publishing.publish("/a", bytes(size))
        assert sender.machine.statistics().sent_datagram_count == count


def test_nothing_is_published_after_the_end(join: Join) -> None:
    sender = join()
    queue = add_publisher(sender)
    sender.publishing.publish("/a", b"")
    sender.close_publisher(queue)
    sender.close_publisher(queue)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        sender.publishing.publish("/a", b"")
    add_publisher(sender)
    sender.publishing.publish("/a", b"")
    sender.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        sender.publishing.publish("/a", b"")
    with pytest.raises(LocalProtocolError, match="closed"):
        add_publisher(sender)


def test_removed_subscriber_raises_an_error(join: Join) -> None:
    session = join()
    listener = Listener(session, "/a")
    with pytest.raises(LocalProtocolError, match="no subscription"):
        session.unsubscribe(listener.routes, 12345)
    session.close_subscriber(listener.routes)
    session.close_subscriber(listener.routes)
    assert session.router.subscriber_count == 0
    with pytest.raises(LocalProtocolError, match="closed"):
        session.subscribe(listener.routes, "/a", None)


def test_publisher_pauses_while_the_bandwidth_is_used_up(join: Join) -> None:
    listener = Listener(join(socket_buffer_bytes=500_000), "/a")
    sender = join(bandwidth_mbit_max=1, flow_interval_ms=10)
    add_publisher(sender)
    for number in range(6):
        sender.publishing.publish("/a", bytes(1000) + b"%d" % number)
    listener.listen()
    assert [data[1000:] for _, data, _ in listener.updates] == [b"%d" % n for n in range(6)]


def test_publishing_that_may_not_wait_raises_would_block(join: Join) -> None:
    sender = join(bandwidth_mbit_max=1, flow_interval_ms=1000, may_wait=False)
    add_publisher(sender)
    sender.publishing.publish("/a", b"")
    while not sender.publishing.is_waiting:
        sender.publishing.publish("/a", bytes(6000))
    with pytest.raises(WouldBlock):
        sender.publishing.publish("/new", b"")
    count = len(sender.publishing.pending)
    sender.publishing.publish("/a", b"")
    assert len(sender.publishing.pending) == count + 2
    sender.turn()
    assert 0 < sender.deadline_ns < module._FOREVER_NS


class Broken(MulticastSocket):
    """A socket that neither sends nor receives, and has no filter."""

    def send_all(self, datagrams: list[bytes]) -> None:
        raise OSError(101, "Network is unreachable")

    def receive(self) -> tuple[bytes, int, Address]:
        raise OSError(5, "Input/output error")


class Unfiltered(MulticastSocket):
    """A socket of a kernel without filters."""

    def drop_kinds(self, *kinds: int, sender: bytes = b"") -> bool:
        return False


@contextlib.contextmanager
def swapped(session: GroupSession, kind: type[MulticastSocket]) -> Iterator[None]:
    """The session with another socket in the same group."""
    usual = session.driver.socket
    session.driver.socket = kind(session.group, interface="127.0.0.1")
    try:
        yield
    finally:
        session.driver.socket.close()
        session.driver.socket = usual


def test_socket_error_is_reported_once_until_the_socket_recovers(join: Join) -> None:
    events: list[MachineEvent] = []
    sender = join()
    add_publisher(sender, events)
    with swapped(sender, Broken):
        sender.publishing.publish("/a", b"1")
        sender.publishing.publish("/a", b"2")
    sender.turn()
    sender.run_inline()
    reported = [event for event in events if isinstance(event, CommunicationFailed)]
    assert [(event.direction, event.reason) for event in reported] == [
        (Direction.SEND, "Network is unreachable")
    ]
    # What could not be sent is kept, and asked for by who misses it.
    assert sender.machine.statistics().cache_count == 2


def test_receive_errors_are_reported(join: Join) -> None:
    listener = Listener(join(), "/a")
    with swapped(listener.session, Broken):
        listener.session.turn()
        listener.session.turn()
    listener.session.run_inline()
    (reported,) = [event for event in listener.events if isinstance(event, CommunicationFailed)]
    assert reported.direction is Direction.RECEIVE


def test_new_subscriber_receives_known_senders(join: Join) -> None:
    session, sender = join(), join(application="feed")
    add_publisher(sender)
    Listener(session, "/a").listen()
    late = Listener(session, "/a")
    late.listen()
    (found,) = [event for event in late.events if isinstance(event, SenderFound)]
    assert found.sender.application == "feed"


def test_data_is_not_received_without_a_subscription(join: Join) -> None:
    session, sender = join(), join()
    add_publisher(sender)
    sender.publishing.publish("/a", b"1")
    while select.select([session.driver.socket], [], [], 0.05)[0]:
        session.turn()
    assert session.machine.statistics().received_datagram_count == 0
    listener = Listener(session, "/a")
    sender.publishing.publish("/a", b"2")
    listener.listen()
    # The sender answers that the first update was published before the subscription.
    while select.select([sender.driver.socket], [], [], 0.05)[0]:
        sender.turn()
    listener.listen()
    assert [data for _, data, _ in listener.updates] == [b"2"]


def test_own_updates_are_received_only_if_configured(join: Join) -> None:
    for hears_own in (True, False):
        session, other = join(hears_own=hears_own), join()
        listener = Listener(session, "/a")
        add_publisher(session)
        add_publisher(other)
        session.publishing.publish("/a", b"own")
        other.publishing.publish("/a", b"other")
        listener.listen()
        collected = {data for _, data, _ in listener.updates}
        assert collected == ({b"own", b"other"} if hears_own else {b"other"})


def test_own_updates_are_dropped_without_a_kernel_filter(join: Join) -> None:
    session = join(hears_own=False)
    with swapped(session, Unfiltered):
        listener = Listener(session, "/a")
        add_publisher(session)
        session.publishing.publish("/a", b"own")
        listener.listen()
        assert session.machine.statistics().received_datagram_count == 0
        assert not listener.updates


def test_a_full_queue_stops_the_reading(join: Join) -> None:
    listener = Listener(join(), "/a")
    listener.queue.is_full = True
    sender = join()
    add_publisher(sender)
    sender.publishing.publish("/a", b"1")
    assert not listener.session.router.has_room
    listener.session.turn()
    assert listener.session.machine.statistics().received_datagram_count == 0
    listener.queue.is_full = False
    listener.listen()
    assert len(listener.updates) == 1


def test_threads_of_queues_do_not_read_if_a_queue_is_inline(join: Join) -> None:
    listener = Listener(join(), "/a")
    listener.session.turn()
    sender = join()
    add_publisher(sender)
    sender.publishing.publish("/a", b"1")
    listener.session.read_for_queue()
    assert listener.session.machine.statistics().received_datagram_count == 0
    listener.queue.is_inline = False
    while select.select([listener.session.driver.socket], [], [], 0.1)[0]:
        listener.session.read_for_queue()
    assert listener.session.machine.statistics().received_datagram_count == 1


def test_datagrams_fit_the_interface_with_segmentation(join: Join) -> None:
    # The loopback interface takes more than the default.
    assert join().fitted_config.segment_bytes == 7800
    assert join(segment_bytes=1000).fitted_config.segment_bytes == 1000
    assert join().config.host != "localhost"
    assert join(host="box").config.host == "box"


def test_failed_open_leaves_nothing_open(group: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", int(group.rpartition(":")[2])))
        with pytest.raises(ConnectFailed):
            GroupSession(group, Config(interface="127.0.0.1"))
