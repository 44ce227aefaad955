"""The link in the simulator: scenarios of the specification, and random worlds."""

from __future__ import annotations

import pytest

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import StallReason
from skerry.testing.faults import Duplication, Loss, RateLimit, Reordering
from skerry.testing.world import MS, SECOND
from tests.sim.link import Site
from tests.sim.link_host import LinkDelivered


def test_messages_arrive_in_order_at_all_nodes_of_a_type() -> None:
    site = Site("a", "b", "c")
    site.include_all()
    site.flood("a", 1000)
    site.world.run_until(lambda: site.all_have("a", 1000))


def test_fs_08_loss_duplicates_and_reordering() -> None:
    site = Site("a", "b", "c", "d")
    site.include_all()
    for fault in (Loss(0.1), Duplication(0.05), Reordering(0.05)):
        site.world.inject(fault)
    count = 10_000
    for name in site.nodes:
        site.flood(name, count)
    site.world.run_until(
        lambda: all(site.all_have(name, count) for name in site.nodes), timeout_ns=300 * SECOND
    )


SMALL = LinkConfig(datagram_bytes=512, send_queue_packet_count=20)
"""Few packets in flight, so that a simulated second has thousands of packets and not more."""


def sent_in(site: Site, duration_ns: int) -> int:
    """How many messages of node a the receivers took in a duration."""
    before = site.checker.next.get(("b", "a", False), 0)
    site.world.run_for(duration_ns)
    return site.checker.next.get(("b", "a", False), 0) - before


@pytest.mark.slow
def test_fs_16_a_slow_receiver_does_not_slow_down_the_others_and_is_excluded() -> None:
    rates = {}
    for has_slow in (False, True):
        site = Site("a", "b", "c", "d", "e", "f", config=SMALL)
        site.include_all()
        if has_slow:
            # One in a hundred of what a sends.
            slow = RateLimit(bytes_per_s=30_000, queue_bytes_max=3_000)
            site.world.inject(slow.between(destinations=["f"]))
        site.flood("a", 10**9, gap_ns=5 * MS, size=400)
        rates[has_slow] = sent_in(site, 20 * SECOND)
        stalled = site.nodes["a"].machine.stalled
        if has_slow:
            assert {(one.node, one.reason) for one in stalled} <= {
                (105, StallReason.LAG),
                (105, StallReason.BACKLOG),
            }
            assert stalled
        else:
            assert stalled == []
    assert rates[True] >= 0.95 * rates[False], rates


@pytest.mark.slow
def test_fs_17_a_slow_receiver_that_recovers_catches_up() -> None:
    site = Site("a", "b", "c", config=SMALL)
    site.include_all()
    slow = RateLimit(bytes_per_s=30_000, queue_bytes_max=3_000).between(destinations=["c"])
    site.world.inject(slow)
    site.flood("a", 12_000, gap_ns=5 * MS, size=400)
    site.world.run_for(4 * SECOND)
    (row,) = [row for row in site.nodes["a"].machine.statistics().peers if row.node == 102]
    assert row.lag_ns > 0
    assert row.backlog_bytes > 0
    slow.stop(site.world)
    site.world.run_until(lambda: site.all_have("a", 12_000))
    site.world.run_for(SECOND)
    (row,) = [row for row in site.nodes["a"].machine.statistics().peers if row.node == 102]
    assert (row.lag_ns, row.backlog_bytes) == (0, 0)
    assert site.nodes["a"].machine.stalled == []


def test_fs_18_a_node_that_is_included_in_the_middle_starts_at_its_welcome() -> None:
    site = Site("a", "b", "c")
    a, b, c = site.nodes["a"], site.nodes["b"], site.nodes["c"]
    a.do(lambda host, now_ns: host.include("b", now_ns=now_ns))
    b.do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.flood("a", 20_000, size=300)
    site.world.run_for(20 * MS)
    number = a.machine.sent["server"]
    assert 0 < number < 20_000
    a.do(lambda host, now_ns: host.include("c", now_ns=now_ns))
    site.world.run_for(3 * MS)
    assert ("c", "a", False) not in site.checker.next
    c.do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.world.run_until(lambda: site.all_have("a", 20_000))
    (first,) = [
        event.numbers[0]
        for event in c.events
        if isinstance(event, LinkDelivered) and event.numbers[0] == c.events[0].numbers[0]
    ]
    assert first == number, "nothing from before its inclusion, and all from there on"
