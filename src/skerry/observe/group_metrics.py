"""Metrics of the multicast group of a node for Prometheus, made from its statistics per scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.observe.number_metrics import metric_family

GROUP_METRICS: Final[Mapping[str, str]] = {
    "skerry_carrier_is_connected": "1 while the node exchanges messages with the group, else 0.",
    "skerry_carrier_sent_messages_total": "Messages of clients that were sent to the group.",
    "skerry_carrier_brought_messages_total": "Messages of the group that the node received.",
    "skerry_carrier_dropped_messages_total": "Messages that were dropped in between, by reason.",
    "skerry_carrier_conflicts_total": "Types that have another definition in the group.",
    "skerry_carrier_cuts_total": "Times the node disconnected the carriage for being too slow.",
    "skerry_carrier_waiting_messages": "Messages waiting for a description or for bandwidth.",
    "skerry_distributor_senders": "Known senders of the group, including this node.",
    "skerry_distributor_sent_datagrams_total": "Data datagrams sent, without repetitions.",
    "skerry_distributor_sent_bytes_total": "Bytes of the data datagrams sent.",
    "skerry_distributor_resent_datagrams_total": "Datagrams sent again on request.",
    "skerry_distributor_received_datagrams_total": "Data datagrams received.",
    "skerry_distributor_received_bytes_total": "Bytes of the data datagrams received.",
    "skerry_distributor_requests_sent_total": "Repair requests sent.",
    "skerry_distributor_requests_received_total": "Repair requests received.",
    "skerry_distributor_lost_datagrams_total": "Datagrams that could not be repaired.",
    "skerry_distributor_faults_total": "Invalid datagrams, by fault.",
    "skerry_distributor_kernel_drops_total": "Datagrams dropped because a buffer was full.",
    "skerry_distributor_sealed_refusals_total": "Datagrams that the seal rejected, by reason.",
}
"""Every metric of the group, and its help text."""


class GroupCollector(Collector):
    """Converts the statistics of a group to metrics; a node without a group has none."""

    def __init__(self, statistics: Callable[[], GroupStatistics | None]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        now = self._statistics()
        if now is not None:
            yield from _totals(now)
            yield from _by_reason(now)


def _totals(now: GroupStatistics) -> Iterator[Metric]:
    carrier, group = now.carrier, now.carrier.group
    for name, value in (
        ("skerry_carrier_is_connected", int(carrier.is_connected)),
        ("skerry_carrier_sent_messages_total", carrier.sent_count),
        ("skerry_carrier_brought_messages_total", carrier.brought_count),
        ("skerry_carrier_conflicts_total", carrier.conflict_count),
        ("skerry_carrier_cuts_total", carrier.cut_count),
        ("skerry_carrier_waiting_messages", carrier.waiting_count),
        ("skerry_distributor_senders", group.sender_count),
        ("skerry_distributor_sent_datagrams_total", group.sent_datagram_count),
        ("skerry_distributor_sent_bytes_total", group.sent_byte_count),
        ("skerry_distributor_resent_datagrams_total", group.resent_datagram_count),
        ("skerry_distributor_received_datagrams_total", group.received_datagram_count),
        ("skerry_distributor_received_bytes_total", group.received_byte_count),
        ("skerry_distributor_requests_sent_total", group.requests_sent_count),
        ("skerry_distributor_requests_received_total", group.requests_received_count),
        ("skerry_distributor_lost_datagrams_total", group.lost_datagram_count),
        ("skerry_distributor_kernel_drops_total", now.kernel_drop_count),
    ):
        if value is not None:
            yield metric_family(name, GROUP_METRICS[name], (), [((), value)])


def _by_reason(now: GroupStatistics) -> Iterator[Metric]:
    refused: Mapping[str, int] = {} if now.seal is None else now.seal.refused
    for name, label, counts in (
        ("skerry_carrier_dropped_messages_total", "reason", now.carrier.dropped),
        ("skerry_distributor_faults_total", "fault", now.carrier.group.faults),
        ("skerry_distributor_sealed_refusals_total", "reason", refused),
    ):
        values = [((reason,), count) for reason, count in counts.items()]
        yield metric_family(name, GROUP_METRICS[name], (label,), values)
