"""Metrics of a node's multicast group."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from prometheus_client import CollectorRegistry, generate_latest

from skerry.engine.carriage.distributor.carriage import GroupCarriage
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.engine.node import NodeCore
from skerry.observe.metrics import GROUP_METRICS, GroupCollector
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.sealed_datagrams import GroupSeal
from skerry.protocol.machine import Address
from skerry.protocol.sealing.group_keys import GroupKey, KeyRing

ROOT = Path(__file__).resolve().parents[3]
GROUP = Address("239.192.7.1", 4711)


def statistics(kernel_drop_count: int | None = 3) -> GroupStatistics:
    identity = SenderIdentity(
        address=b"\x0a\x00\x00\x01", sender_id=1, start_ms=1, application_id=0
    )
    seal = GroupSeal(KeyRing([GroupKey(key_id=1, secret=bytes(32))]), wall_ns=lambda: 1)
    connection = GroupConnection(group=GROUP, identity=identity, rng=Random(1), now_ns=1, seal=seal)
    carrier = GroupCarriage(NodeCore(), connection, config=DistributorConfig(), now_ns=1)
    carrier.receive(b"\x01\x00 a stranger", GROUP, 2)
    return GroupStatistics(
        carrier=carrier.statistics(), seal=seal.statistics(), kernel_drop_count=kernel_drop_count
    )


def scraped(found: GroupStatistics | None) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(GroupCollector(lambda: found))
    return generate_latest(registry).decode()


def test_numbers_become_metrics() -> None:
    text = scraped(statistics())
    assert "skerry_carrier_is_connected 0.0" in text
    assert "skerry_distributor_kernel_drops_total 3.0" in text
    assert 'skerry_distributor_sealed_refusals_total{reason="plain"} 1.0' in text
    assert 'skerry_distributor_faults_total{fault="seal"} 1.0' in text
    assert 'skerry_carrier_dropped_messages_total{reason="malformed"} 0.0' in text


def test_all_metrics_are_collected() -> None:
    made = set(re.findall(r"^# HELP (\w+) ", scraped(statistics()), flags=re.MULTILINE))
    assert made == set(GROUP_METRICS)


def test_count_that_the_system_does_not_have_is_left_out() -> None:
    assert "kernel_drops" not in scraped(statistics(kernel_drop_count=None))


def test_node_without_a_group_has_no_group_metrics() -> None:
    assert scraped(None).strip() == ""


def test_each_is_documented() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    for name in GROUP_METRICS:
        assert f"| `{name}` |" in page
