"""The junction between machine, socket and application, driven by hand."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skerry.client.distributor import group_driver as module
from skerry.client.distributor.config import Config
from skerry.client.distributor.delivery_queue import DeliveryQueue
from skerry.client.distributor.group_driver import GroupDriver
from skerry.client.distributor.router import SubscriberRoutes
from skerry.errors import ConnectFailed, LocalProtocolError, WouldBlock
from skerry.protocol.distributor.events import CommunicationFailed, Direction, SenderFound
from skerry.protocol.machine import Address, MachineEvent
from skerry.runtime.udp.multicast import MulticastSocket

Join = Callable[..., GroupDriver]


@pytest.fixture
def join(group: str) -> Iterator[Join]:
    made: list[GroupDriver] = []

    def joined(**fields: Any) -> GroupDriver:
        may_wait = fields.pop("may_wait", True)
        fields = {"interface": "127.0.0.1", "ttl": 0, "request_timeout_ms": 20, **fields}
        made.append(GroupDriver(group, Config(**fields), may_wait=may_wait))
        return made[-1]

    yield joined
    for one in made:
        one.end()


class Ear:
    """A subscriber that is called when the test says so."""

    def __init__(self, junction: GroupDriver, *patterns: str, in_batches: bool = False) -> None:
        self.junction = junction
        self.updates: list[tuple[str, bytes, object]] = []
        self.events: list[MachineEvent] = []
        self.routes = SubscriberRoutes(junction.router)
        self.outlet = DeliveryQueue(
            name="ear",
            on_event=self.events.append,
            on_update=lambda subject, data, tag, _: self.updates.append((subject, data, tag)),
            routes=self.routes,
            delivery="inline",
        )
        junction.open_subscriber(self.routes, self.outlet)
        self.handles = [junction.subscribe(self.routes, pattern, pattern) for pattern in patterns]

    def listen(self) -> None:
        """Read until nothing more comes."""
        while select.select([self.junction.socket], [], [], 0.05)[0]:
            self.junction.turn()
        self.junction.turn()
        self.junction.run_inline()


def voice(junction: GroupDriver, events: list[MachineEvent] | None = None) -> DeliveryQueue:
    """A publisher."""
    on_event = None if events is None else events.append
    outlet = DeliveryQueue(name="voice", on_event=on_event, delivery="inline")
    junction.open_publisher(outlet)
    return outlet


def test_updates_come_with_the_tag_of_each_subscription(join: Join) -> None:
    ear = Ear(join(), "/a/*", "/a/b", "/a/b")
    sender = join()
    voice(sender)
    sender.publish("/a/b", b"1")
    sender.publish("/a/c", b"2")
    sender.publish("/b", b"3")
    ear.listen()
    assert ear.updates == [
        ("/a/b", b"1", "/a/b"), ("/a/b", b"1", "/a/b"), ("/a/b", b"1", "/a/*"),
        ("/a/c", b"2", "/a/*"),
    ]  # fmt: skip


def test_what_waits_for_a_subscription_that_is_removed_is_not_delivered(join: Join) -> None:
    junction = join()
    ear = Ear(junction, "/a", "/b")
    sender = join()
    voice(sender)
    sender.publish("/a", b"1")
    sender.publish("/b", b"2")
    select.select([junction.socket], [], [], 1)
    while select.select([junction.socket], [], [], 0.05)[0]:
        junction.turn()
    junction.unsubscribe(ear.routes, ear.handles[0])
    junction.run_inline()
    assert ear.updates == [("/b", b"2", "/b")]


def waits(junction: GroupDriver) -> bool:
    """Whether something was published and not sent; where depends on the build."""
    return bool(junction.pending) or junction.packer.count > 0


def test_held_updates_go_with_others_and_when_their_time_comes(join: Join) -> None:
    ear = Ear(join(), "/a")
    sender = join(holdback_delay_ms=50, holdback_threshold_per_s=0)
    woken: list[bool] = []
    voice(sender)
    sender.turn()
    sender.wake = lambda: woken.append(True)
    for number in range(10):
        sender.publish("/a", b"%d" % number)
    # The first goes at once, since nothing was published before it; the others wait.
    assert sender.pending_count_max
    assert waits(sender)
    assert woken, "whoever drives sleeps for seconds and must be told"
    ear.listen()
    assert len(ear.updates) < 10
    sender.flush()
    ear.listen()
    assert [data for _, data, _ in ear.updates] == [b"%d" % number for number in range(10)]
    assert not waits(sender)
    assert sender.machine.statistics().sent_datagram_count <= 3


def test_turn_hands_over_what_waits(join: Join) -> None:
    sender = join(holdback_delay_ms=50, holdback_threshold_per_s=0)
    voice(sender)
    for _ in range(4):
        sender.publish("/a", b"x")
    assert sender.pending_count_max
    sender.turn()
    assert not sender.pending


def test_who_only_hears_has_nothing_to_settle_until_something_is_due(join: Join) -> None:
    junction, other = join(), join()
    ear = Ear(junction, "/a")
    voice(other)
    junction.turn()
    # Somebody new is heard of: there is a time to look whether it is still there.
    now_ns = junction.hear()
    assert junction.is_due(now_ns) == (junction.deadline_ns > (junction.machine.deadline_ns() or 0))
    junction.settle()
    other.publish("/a", b"1")
    select.select([junction.socket], [], [], 5)
    now_ns = junction.hear()
    junction.run_inline()
    assert ear.updates == [("/a", b"1", "/a")]
    assert not junction.is_due(now_ns)
    assert junction.is_due(junction.deadline_ns)
    voice(junction)
    junction.publish("/b", b"")
    junction.machine.publish("/b", b"", now_ns)
    assert junction.is_due(now_ns), "a datagram is ready"
    junction.settle()
    assert not junction.machine.has_ready


def test_wrong_subjects_are_refused_at_the_call(join: Join) -> None:
    sender = join(holdback_delay_ms=50)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        sender.publish("/a", b"")
    voice(sender)
    for subject in ("a", "/a/*", "/ä", ""):
        with pytest.raises(LocalProtocolError):
            sender.publish(subject, b"")
    data: Any = bytearray(b"x")
    with pytest.raises(TypeError, match="bytearray"):
        sender.publish("/a", data)
    assert sender.machine.statistics().sent_update_count == 0


def test_large_updates_are_cut_and_keep_their_place(join: Join) -> None:
    ear = Ear(join(socket_buffer_bytes=500_000), "/a")
    sender = join()
    voice(sender)
    large = bytes(range(256)) * 200
    for data in (b"1", large, b"2", bytes(7000)):
        sender.publish("/a", data)
    ear.listen()
    assert [data for _, data, _ in ear.updates] == [b"1", large, b"2", bytes(7000)]


def test_update_that_just_fits_is_one_datagram(join: Join) -> None:
    sender = join()
    voice(sender)
    sender.publish("/a", b"")
    head_bytes = 1 + 4 + len("/a") + 1
    most = sender.machine.segment_bytes - 28 - head_bytes - 4
    for size, count in ((most, 2), (most + 1, 4)):
        sender.publish("/a", bytes(size))
        assert sender.machine.statistics().sent_datagram_count == count


def test_nothing_is_published_after_the_end(join: Join) -> None:
    sender = join()
    outlet = voice(sender)
    sender.publish("/a", b"")
    sender.close_publisher(outlet)
    sender.close_publisher(outlet)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        sender.publish("/a", b"")
    voice(sender)
    sender.publish("/a", b"")
    sender.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        sender.publish("/a", b"")
    with pytest.raises(LocalProtocolError, match="closed"):
        voice(sender)


def test_subscribers_that_are_gone_are_told_so(join: Join) -> None:
    junction = join()
    ear = Ear(junction, "/a")
    with pytest.raises(LocalProtocolError, match="no subscription"):
        junction.unsubscribe(ear.routes, 12345)
    junction.close_subscriber(ear.routes)
    junction.close_subscriber(ear.routes)
    assert junction.router.subscriber_count == 0
    with pytest.raises(LocalProtocolError, match="closed"):
        junction.subscribe(ear.routes, "/a", None)


def test_publisher_pauses_while_the_bandwidth_is_used_up(join: Join) -> None:
    ear = Ear(join(socket_buffer_bytes=500_000), "/a")
    sender = join(bandwidth_mbit_max=1, flow_interval_ms=10)
    voice(sender)
    for number in range(6):
        sender.publish("/a", bytes(1000) + b"%d" % number)
    ear.listen()
    assert [data[1000:] for _, data, _ in ear.updates] == [b"%d" % n for n in range(6)]


def test_who_may_not_wait_is_told(join: Join) -> None:
    sender = join(bandwidth_mbit_max=1, flow_interval_ms=1000, may_wait=False)
    voice(sender)
    sender.publish("/a", b"")
    while not sender.is_waiting:
        sender.publish("/a", bytes(6000))
    with pytest.raises(WouldBlock):
        sender.publish("/new", b"")
    count = len(sender.pending)
    sender.publish("/a", b"")
    assert len(sender.pending) == count + 2
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
def swapped(junction: GroupDriver, kind: type[MulticastSocket]) -> Iterator[None]:
    """The junction with another socket in the same group."""
    usual = junction.socket
    junction.socket = kind(junction.group, interface="127.0.0.1")
    try:
        yield
    finally:
        junction.socket.close()
        junction.socket = usual


def test_failures_of_the_socket_are_told_once_until_it_works(join: Join) -> None:
    events: list[MachineEvent] = []
    sender = join()
    voice(sender, events)
    with swapped(sender, Broken):
        sender.publish("/a", b"1")
        sender.publish("/a", b"2")
    sender.turn()
    sender.run_inline()
    told = [event for event in events if isinstance(event, CommunicationFailed)]
    assert [(event.direction, event.reason) for event in told] == [
        (Direction.SEND, "Network is unreachable")
    ]
    # What could not be sent is kept, and asked for by who misses it.
    assert sender.machine.statistics().cache_count == 2


def test_failures_to_receive_are_told(join: Join) -> None:
    ear = Ear(join(), "/a")
    with swapped(ear.junction, Broken):
        ear.junction.turn()
        ear.junction.turn()
    ear.junction.run_inline()
    (told,) = [event for event in ear.events if isinstance(event, CommunicationFailed)]
    assert told.direction is Direction.RECEIVE


def test_who_comes_later_hears_of_known_senders(join: Join) -> None:
    junction, sender = join(), join(application="feed")
    voice(sender)
    Ear(junction, "/a").listen()
    late = Ear(junction, "/a")
    late.listen()
    (found,) = [event for event in late.events if isinstance(event, SenderFound)]
    assert found.sender.application == "feed"


def test_data_is_not_even_received_where_nobody_subscribed(join: Join) -> None:
    junction, sender = join(), join()
    voice(sender)
    sender.publish("/a", b"1")
    while select.select([junction.socket], [], [], 0.05)[0]:
        junction.turn()
    assert junction.machine.statistics().received_datagram_count == 0
    ear = Ear(junction, "/a")
    sender.publish("/a", b"2")
    ear.listen()
    # The sender answers that the first update was published before the subscription.
    while select.select([sender.socket], [], [], 0.05)[0]:
        sender.turn()
    ear.listen()
    assert [data for _, data, _ in ear.updates] == [b"2"]


def test_own_updates_come_back_only_where_wanted(join: Join) -> None:
    for hears_own in (True, False):
        junction, other = join(hears_own=hears_own), join()
        ear = Ear(junction, "/a")
        voice(junction)
        voice(other)
        junction.publish("/a", b"own")
        other.publish("/a", b"other")
        ear.listen()
        heard = {data for _, data, _ in ear.updates}
        assert heard == ({b"own", b"other"} if hears_own else {b"other"})


def test_own_updates_are_left_out_also_where_the_kernel_does_not_help(join: Join) -> None:
    junction = join(hears_own=False)
    with swapped(junction, Unfiltered):
        ear = Ear(junction, "/a")
        voice(junction)
        junction.publish("/a", b"own")
        ear.listen()
        assert junction.machine.statistics().received_datagram_count == 0
        assert not ear.updates


def test_a_full_queue_stops_the_reading(join: Join) -> None:
    ear = Ear(join(), "/a")
    ear.outlet.is_full = True
    sender = join()
    voice(sender)
    sender.publish("/a", b"1")
    assert not ear.junction.router.has_room
    ear.junction.turn()
    assert ear.junction.machine.statistics().received_datagram_count == 0
    ear.outlet.is_full = False
    ear.listen()
    assert len(ear.updates) == 1


def test_threads_of_outlets_leave_reading_to_others_where_some_have_no_thread(join: Join) -> None:
    ear = Ear(join(), "/a")
    ear.junction.turn()
    sender = join()
    voice(sender)
    sender.publish("/a", b"1")
    ear.junction.read_for_outlet()
    assert ear.junction.machine.statistics().received_datagram_count == 0
    ear.outlet.is_inline = False
    while select.select([ear.junction.socket], [], [], 0.1)[0]:
        ear.junction.read_for_outlet()
    assert ear.junction.machine.statistics().received_datagram_count == 1


def test_datagrams_fit_the_way_where_trains_are_sent(join: Join) -> None:
    # The loopback interface takes more than the default.
    assert join().fitted_config.segment_bytes == 7800
    assert join(segment_bytes=1000).fitted_config.segment_bytes == 1000
    assert join().config.host != "localhost"
    assert join(host="box").config.host == "box"


def test_nothing_is_left_open_when_it_cannot_be_opened(group: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", int(group.rpartition(":")[2])))
        with pytest.raises(ConnectFailed):
            GroupDriver(group, Config(interface="127.0.0.1"))
