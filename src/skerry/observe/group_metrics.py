"""Metrics of a node's multicast group in the text form of Prometheus, made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from skerry.engine.carriage.distributor.events import GroupStatistics

__all__ = ["GROUP_METRICS", "GroupCollector"]

GROUP_METRICS: Final[Mapping[str, str]] = {
    "skerry_carrier_is_connected": "1 while messages are carried between node and group, else 0.",
    "skerry_carrier_sent_messages_total": "Messages of clients that were sent to the group.",
    "skerry_carrier_brought_messages_total": "Messages from the group that the node was given.",
    "skerry_carrier_dropped_messages_total": "Messages that were not brought over, by reason.",
    "skerry_carrier_conflicts_total": "Definitions of types in the group that differ from ours.",
    "skerry_carrier_cuts_total": "How often the node cut the carrier, as it was too slow.",
    "skerry_carrier_waiting_messages": "Messages that wait for a description or for bandwidth.",
    "skerry_distributor_senders": "Senders of the group that are heard, this node included.",
    "skerry_distributor_sent_datagrams_total": "Data datagrams sent, repetitions not counted.",
    "skerry_distributor_sent_bytes_total": "Bytes of these.",
    "skerry_distributor_resent_datagrams_total": "Datagrams sent again, as somebody asked.",
    "skerry_distributor_received_datagrams_total": "Data datagrams received.",
    "skerry_distributor_received_bytes_total": "Bytes of these.",
    "skerry_distributor_requests_sent_total": "Requests for lost datagrams.",
    "skerry_distributor_requests_received_total": "Requests of others for ours.",
    "skerry_distributor_lost_datagrams_total": "Datagrams that could not be had any more.",
    "skerry_distributor_faults_total": "Datagrams that were of no use, by fault.",
    "skerry_distributor_kernel_drops_total": "Datagrams the system had no room for.",
    "skerry_distributor_sealed_refusals_total": "Datagrams of strangers, by reason.",
}
"""Every metric of the group, and its help text."""


class GroupCollector(Collector):
    """Turns the statistics of a group into metrics; a node in no group has none."""

    def __init__(self, statistics: Callable[[], GroupStatistics | None]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        now = self._statistics()
        if now is not None:
            yield from _plain(now)
            yield from _reasoned(now)


def _plain(now: GroupStatistics) -> Iterator[Metric]:
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
            yield _family(name, (), [((), value)])


def _reasoned(now: GroupStatistics) -> Iterator[Metric]:
    refused: Mapping[str, int] = {} if now.seal is None else now.seal.refused
    for name, label, counts in (
        ("skerry_carrier_dropped_messages_total", "reason", now.carrier.dropped),
        ("skerry_distributor_faults_total", "fault", now.carrier.group.faults),
        ("skerry_distributor_sealed_refusals_total", "reason", refused),
    ):
        yield _family(name, (label,), [((reason,), count) for reason, count in counts.items()])


def _family(
    name: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    help_text = GROUP_METRICS[name]
    if name.endswith("_total"):
        counter = CounterMetricFamily(name.removesuffix("_total"), help_text, labels=labels)
        for label, value in values:
            counter.add_metric(label, value)
        return counter
    gauge = GaugeMetricFamily(name, help_text, labels=labels)
    for label, value in values:
        gauge.add_metric(label, value)
    return gauge
