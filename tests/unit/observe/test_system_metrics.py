"""Metrics of a node in its system."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from prometheus_client import CollectorRegistry, generate_latest

from skerry.engine.system.config import SystemConfig
from skerry.engine.system.events import MemberStatistics
from skerry.engine.system.system_core import SystemCore
from skerry.observe.system_metrics import SYSTEM_METRICS, SystemCollector
from skerry.protocol.link.events import PeerStatistics
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.sealing.group_keys import GroupKey, KeyRing


def statistics(*peers: PeerStatistics) -> MemberStatistics:
    core = SystemCore(
        SystemConfig(
            system="harbour",
            name="north",
            node_types=NodeTypes([NodeType()]),
            type_name="node",
            control=Address("10.0.0.1", 1),
            data=Address("10.0.0.1", 2),
            keys=KeyRing([GroupKey(key_id=1, secret=bytes(32))]),
        ),
        rng=Random(1),
        now_ns=1,
    )
    core.receive(b"RTPS of a stranger", Address("10.0.0.9", 5), 2)
    found = core.statistics()
    return MemberStatistics(
        machine=replace(found, data=replace(found.data, peers=peers)),
        is_member=True,
        is_elected=False,
        alive_count=3,
        clock_offset_ns_max=2_500_000_000,
        exclusions={"silent": 2},
        rejoin_count=1,
        kernel_drop_count=4,
        unsent_count=5,
        reopened_count=6,
    )


def peer(node: int, count: int, *, lag_ns: int = 0) -> PeerStatistics:
    return PeerStatistics(
        node=node,
        is_included=True,
        received_packet_count=count,
        received_bytes=100 * count,
        sent_packet_count=count,
        sent_bytes=100 * count,
        duplicate_count=0,
        retransmission_count=0,
        lost_best_effort_count=0,
        corrupt_count=0,
        received_ns=None,
        multicast_ns=None,
        round_trip_ns=1_000_000 * node,
        backlog_bytes=7,
        lag_ns=lag_ns,
        unanswered_count=0,
    )


class Scraper:
    def __init__(self) -> None:
        self.now: MemberStatistics | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(SystemCollector(lambda: self.now))

    def scrape(self, *peers: PeerStatistics) -> str:
        self.now = statistics(*peers)
        return self.text()

    def text(self) -> str:
        return generate_latest(self._registry).decode()


def test_numbers_become_metrics() -> None:
    text = Scraper().scrape(peer(1, 10), peer(2, 20, lag_ns=500_000_000))
    for line in (
        'skerry_system_nodes{state="alive"} 3.0',
        "skerry_system_is_member 1.0",
        "skerry_system_is_elected 0.0",
        'skerry_system_exclusions_total{reason="silent"} 2.0',
        "skerry_system_clock_difference_seconds_max 2.5",
        'skerry_link_peers{channel="data"} 2.0',
        'skerry_link_peers{channel="control"} 0.0',
        'skerry_link_sent_packets_total{channel="data"} 30.0',
        'skerry_link_received_bytes_total{channel="data"} 3000.0',
        'skerry_link_round_trip_seconds_max{channel="data"} 0.002',
        'skerry_link_lag_seconds_max{channel="data"} 0.5',
        'skerry_link_backlog_bytes{channel="data"} 14.0',
        "skerry_link_kernel_drops_total 4.0",
    ):
        assert line in text.splitlines()
    assert re.search(
        r'^skerry_link_drops_total{channel="control",reason="\w+"} 1', text, re.MULTILINE
    )
    assert re.search(r'^skerry_link_sealed_refusals_total{reason="\w+"} 1', text, re.MULTILINE)


def test_sums_over_nodes_never_decrease_when_a_node_leaves() -> None:
    scraper = Scraper()
    name = 'skerry_link_sent_packets_total{channel="data"}'
    assert f"{name} 30.0" in scraper.scrape(peer(1, 10), peer(2, 20))
    assert f"{name} 31.0" in scraper.scrape(peer(1, 11))
    # The counters of a node that has returned begin at 0.
    assert f"{name} 36.0" in scraper.scrape(peer(1, 11), peer(2, 5))


def test_all_metrics_are_collected() -> None:
    text = Scraper().scrape(peer(1, 1))
    assert set(re.findall(r"^# HELP (\w+) ", text, flags=re.MULTILINE)) == set(SYSTEM_METRICS)


def test_a_node_alone_has_none() -> None:
    assert Scraper().text().strip() == ""
