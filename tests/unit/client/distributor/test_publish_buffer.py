"""Publishing: which updates are sent at once, which wait, and which are rejected."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from skerry.client.distributor.publish_buffer import PublishBuffer
from skerry.errors import LocalProtocolError, WouldBlock
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.machine import Address
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.group_driver import GroupDriver
from skerry.runtime.udp.interfaces import parse_group

Open = Callable[..., PublishBuffer]


@pytest.fixture
def publishing(group: str) -> Iterator[Open]:
    """Opens publishing sides with a publisher."""
    drivers: list[GroupDriver] = []

    def opened(*, may_wait: bool = True, **fields: Any) -> PublishBuffer:
        config = DistributorConfig(interface="127.0.0.1", ttl=0, **fields)
        driver = GroupDriver(Address(*parse_group(group)), config, rng=Random(1))
        drivers.append(driver)
        made = PublishBuffer(
            driver,
            threading.Lock(),
            seal_bytes=0,
            holdback_delay_ms=config.holdback_delay_ms,
            may_wait=may_wait,
        )
        driver.machine.open_publisher(monotonic_ns())
        made.publisher_count = 1
        made.check_again(driver.machine.checked_subjects)
        return made

    yield opened
    for driver in drivers:
        driver.close()


def sent(buffer: PublishBuffer) -> tuple[int, int]:
    """How many updates were sent, and in how many datagrams."""
    statistics = buffer._machine.statistics()
    return statistics.sent_update_count, statistics.sent_datagram_count


def test_update_is_sent_at_once_if_nothing_is_held(publishing: Open) -> None:
    buffer = publishing()
    for data in (b"1", b"2"):
        buffer.publish("/a", data)
    assert sent(buffer) == (2, 2)


def test_updates_share_a_datagram_while_it_is_held(publishing: Open) -> None:
    buffer = publishing(holdback_delay_ms=50, holdback_threshold_per_s=0)
    for _ in range(10):
        buffer.publish("/a", b"x")
    assert buffer.packer.count > 0
    buffer.flush()
    assert buffer.packer.count == 0
    assert sent(buffer)[0] == 10
    assert sent(buffer)[1] <= 3
    buffer.flush()


def test_driving_thread_is_woken_for_a_held_datagram(publishing: Open) -> None:
    buffer = publishing(holdback_delay_ms=50, holdback_threshold_per_s=0)
    woken: list[bool] = []
    buffer.wake = lambda: woken.append(True)
    for _ in range(2):
        buffer.publish("/a", b"x")
    assert not woken, "it does not sleep yet"
    buffer.deadline_ns = 1 << 62
    with buffer._lock:
        buffer.send_if_due(monotonic_ns())
    assert woken


def test_subjects_are_checked_again_on_demand(publishing: Open) -> None:
    buffer = publishing()
    subject = "/a"
    for _ in range(3):
        buffer.publish(subject, b"x")
    assert subject in buffer.checked
    buffer.check_again({})
    buffer.is_closing = True
    with pytest.raises(LocalProtocolError, match="closed"):
        buffer.publish(subject, b"y")


@pytest.mark.parametrize("subject", ["a", "/a/*", ""])
def test_invalid_subject_is_rejected(publishing: Open, subject: str) -> None:
    with pytest.raises(LocalProtocolError):
        publishing().publish(subject, b"x")


def test_only_bytes_are_published(publishing: Open) -> None:
    buffer = publishing()
    buffer.publish("/a", b"x")
    for data in (7, bytearray(b"x")):
        wrong: Any = data
        with pytest.raises(TypeError):
            buffer.publish("/a", wrong)
    assert sent(buffer) == (1, 1)


def test_large_update_needs_several_datagrams(publishing: Open) -> None:
    buffer = publishing()
    buffer.publish("/a", b"")
    buffer.publish("/a", bytes(buffer.small_bytes_max + 1))
    assert sent(buffer)[1] == 3
    buffer.fit_segments()
    assert buffer.small_bytes_max < buffer._machine.segment_bytes


def test_update_waits_for_bandwidth_if_publishing_may_not_wait(publishing: Open) -> None:
    buffer = publishing(bandwidth_mbit_max=1, flow_interval_ms=1000, may_wait=False)
    buffer.publish("/a", b"")
    while not buffer.is_waiting:
        buffer.publish("/a", bytes(6000))
    assert buffer.ready_ns() > 0
    with pytest.raises(WouldBlock):
        buffer.publish("/new", b"")
    count = len(buffer.pending)
    buffer.publish("/a", b"")
    assert len(buffer.pending) == count + 2
    buffer.publisher_count = 0
    with buffer._lock:
        assert buffer.take_pending(monotonic_ns()), "without a publisher they are dropped"
    assert not buffer.pending


@pytest.mark.slow
def test_many_threads_publish_without_mixing_their_updates(publishing: Open) -> None:
    buffer = publishing(holdback_delay_ms=1000, holdback_threshold_per_s=0)
    barrier = threading.Barrier(4)

    def publish(subject: str, letter: bytes) -> None:
        barrier.wait()
        for number in range(5_000):
            buffer.publish(subject, letter * (number // 5 % 7))

    threads = [
        threading.Thread(target=publish, args=pair)
        for pair in (("/a", b"a"), ("/b", b"b"), ("/a", b"a"), ("/b", b"b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.flush()
    assert sent(buffer)[0] == 20_000
