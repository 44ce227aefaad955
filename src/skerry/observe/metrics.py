"""Metrics of a node and its group for Prometheus, made from its statistics for each scrape.

Nothing is counted here. The core counts as it works, and a scrape converts one snapshot to text, so
the numbers of one scrape are consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from skerry import build_info
from skerry.durations import DURATION_BOUNDS_S, Durations
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.engine.dispatch.ledger import NodeStatistics, TypeRow
from skerry.engine.system.events import MemberStatistics
from skerry.observe.number_metrics import metric_family
from skerry.observe.portal_metrics import PortalCollector
from skerry.observe.system_metrics import SystemCollector
from skerry.protocol.portal.statistics import PortalStatistics

METRIC_TYPE_COUNT_MAX: Final = 50
"""Types with their own metrics. Those with less traffic are added up as `other`. A time series for
each type of a large system would cost its monitoring more than it is worth."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OTHER: Final = "other"

METRICS: Final[Mapping[str, str]] = {
    "skerry_node_info": "Always 1; the labels are the version and build of skerry.",
    "skerry_clients": "Clients by kind of endpoint.",
    "skerry_types": "Types that the node knows.",
    "skerry_type_conflicts_total": "Definitions rejected because another one has the name.",
    "skerry_groups": "Groups with members: types and subject patterns.",
    "skerry_cache_objects": "Objects in the cache.",
    "skerry_cache_payload_bytes": "Encoded bytes of the objects in the cache.",
    "skerry_received_messages_total": "Messages received from clients.",
    "skerry_received_bytes_total": "Bytes received from clients.",
    "skerry_sent_messages_total": "Messages sent to clients.",
    "skerry_sent_bytes_total": "Bytes sent to clients.",
    "skerry_accepted_updates_total": "Updates accepted from clients.",
    "skerry_backpressure_total": "Times a publisher had to wait for its subscribers.",
    "skerry_refusals_total": "Operations that clients were not permitted, by operation.",
    "skerry_disconnects_total": "Closed connections, by reason.",
    "skerry_claims_held": "Objects, types and handlers held by a client.",
    "skerry_requests_total": "Completed requests of clients, by outcome.",
    "skerry_requests_open": "Requests of clients without a response.",
    "skerry_requests_late_total": "Responses received after the request had timed out.",
    "skerry_request_seconds": "Time from a request to its response at the node, any outcome.",
    "skerry_turn_seconds": "Time from reading input to writing what follows from it to clients.",
    "skerry_queued_bytes": "Bytes waiting to be sent to clients.",
    "skerry_queued_bytes_max": "Bytes waiting for the client with the longest queue.",
    "skerry_storage_is_failing": "1 while the last attempt to store objects failed, else 0.",
    "skerry_storage_pending_changes": "Changes of persistent objects that are not stored yet.",
    "skerry_type_objects": "Objects in the cache, by type.",
    "skerry_type_accepted_updates_total": "Accepted updates, by type.",
    "skerry_type_members": "Clients subscribed to the type.",
    "skerry_ledger_due_total": "Deliveries due for accepted updates, by type.",
    "skerry_ledger_updates_total": "Due deliveries that are done, by type and outcome.",
    "skerry_ledger_queued": "Due deliveries in queues, by type.",
    "skerry_ledger_unexplained": "Due deliveries that are unaccounted for. Always 0.",
}
"""The metrics of a node, and their help texts."""

_OUTCOMES: Final = ("delivered", "filtered", "conflated", "expired", "refused")


def node_registry(
    statistics: Callable[[], NodeStatistics],
    group: Callable[[], GroupStatistics | None] = lambda: None,
    member: Callable[[], MemberStatistics | None] = lambda: None,
    portal: Callable[[], PortalStatistics | None] = lambda: None,
    turns: Callable[[], Durations] = Durations,
) -> CollectorRegistry:
    """The registry with the metrics of a node, its multicast group, its system, its portal and its
    process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(statistics, turns))
    registry.register(GroupCollector(group))
    registry.register(SystemCollector(member))
    registry.register(PortalCollector(portal))
    ProcessCollector(registry=registry)
    return registry


def scrape(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


class NodeCollector(Collector):
    def __init__(
        self,
        statistics: Callable[[], NodeStatistics],
        turns: Callable[[], Durations] = Durations,
        *,
        type_count_max: int = METRIC_TYPE_COUNT_MAX,
    ) -> None:
        self._statistics = statistics
        self._turns = turns
        self._types = _Labels(type_count_max)
        self._reasons = _Labels(type_count_max)

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        now = self._statistics()
        info = {"version": build_info.version(), "build": build_info.mode()}
        yield _family("skerry_node_info", info, [(tuple(info.values()), 1)])
        yield from _totals(now)
        yield _histogram("skerry_request_seconds", now.requests.durations)
        yield _histogram("skerry_turn_seconds", self._turns())
        yield from self._by_reason(now)
        yield from self._by_type(now)
        yield _family("skerry_ledger_unexplained", (), [((), now.unexplained)])

    def _by_reason(self, now: NodeStatistics) -> Iterator[Metric]:
        for name, label_name, counts in (
            ("skerry_refusals_total", "what", now.refusals),
            ("skerry_disconnects_total", "reason", now.ends),
            ("skerry_requests_total", "outcome", _request_ends(now)),
        ):
            sums: dict[tuple[str, ...], float] = {}
            busiest = sorted(counts, key=lambda reason: -counts[reason])
            labels = self._reasons.of(busiest)
            for reason, count in counts.items():
                label = (labels[reason],)
                sums[label] = sums.get(label, 0) + count
            yield _family(name, (label_name,), sums.items())

    def _by_type(self, now: NodeStatistics) -> Iterator[Metric]:
        labels = self._types.of(
            row.name for row in sorted(now.types, key=lambda row: -row.accepted - row.ledger.due)
        )
        sums: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _BY_TYPE}
        for row in now.types:
            for name, outcome, value in _values(row):
                label = (labels[row.name], *outcome)
                sums[name][label] = sums[name].get(label, 0) + value
        for name, values in sums.items():
            names = ("type", "outcome") if name == "skerry_ledger_updates_total" else ("type",)
            yield _family(name, names, values.items())


class _Labels:
    """Limits the values of a label: the first names keep their own, all others share one.

    A name never changes between the two, so no counter ever decreases.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._own: set[str] = set()

    def of(self, busiest_first: Iterable[str]) -> dict[str, str]:
        labels: dict[str, str] = {}
        for name in busiest_first:
            if name not in self._own and len(self._own) < self._count_max:
                self._own.add(name)
            labels[name] = name if name in self._own else _OTHER
        return labels


_BY_TYPE: Final = (
    "skerry_type_objects",
    "skerry_type_accepted_updates_total",
    "skerry_type_members",
    "skerry_ledger_due_total",
    "skerry_ledger_updates_total",
    "skerry_ledger_queued",
)


def _values(row: TypeRow) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield "skerry_type_objects", (), row.object_count
    yield "skerry_type_accepted_updates_total", (), row.accepted
    yield "skerry_type_members", (), row.member_count
    yield "skerry_ledger_due_total", (), row.ledger.due
    yield "skerry_ledger_queued", (), row.ledger.queued
    for outcome in _OUTCOMES:
        yield "skerry_ledger_updates_total", (outcome,), getattr(row.ledger, outcome)


def _request_ends(now: NodeStatistics) -> dict[str, int]:
    """Completed requests by outcome, including those whose client had disconnected."""
    abandoned = {"abandoned": now.requests.abandoned} if now.requests.abandoned else {}
    return {**now.requests.ended, **abandoned}


def _totals(now: NodeStatistics) -> Iterator[Metric]:
    kinds: dict[tuple[str, ...], float] = {}
    for client in now.clients:
        kinds[(client.kind,)] = kinds.get((client.kind,), 0) + 1
    queued = [client.queued_bytes for client in now.clients]
    yield _family("skerry_clients", ("door",), kinds.items())
    for name, value in (
        ("skerry_types", now.type_count),
        ("skerry_type_conflicts_total", now.conflict_count),
        ("skerry_groups", now.group_count),
        ("skerry_cache_objects", now.object_count),
        ("skerry_cache_payload_bytes", now.payload_bytes),
        ("skerry_received_messages_total", now.received_count),
        ("skerry_received_bytes_total", now.received_bytes),
        ("skerry_sent_messages_total", now.sent_count),
        ("skerry_sent_bytes_total", now.sent_bytes),
        ("skerry_accepted_updates_total", now.accepted_count),
        ("skerry_backpressure_total", now.backpressure_count),
        ("skerry_claims_held", now.held_count),
        ("skerry_requests_open", now.requests.open),
        ("skerry_requests_late_total", now.requests.late),
        ("skerry_queued_bytes", sum(queued)),
        ("skerry_queued_bytes_max", max(queued, default=0)),
        ("skerry_storage_is_failing", int(bool(now.storage_trouble))),
        ("skerry_storage_pending_changes", now.storage_waiting_count),
    ):
        yield _family(name, (), [((), value)])


def _histogram(name: str, durations: Durations) -> Metric:
    """A histogram: each bucket counts the durations up to its bound."""
    sums = list(accumulate(durations.counts))
    bounds = [*map(str, DURATION_BOUNDS_S), "+Inf"]
    family = HistogramMetricFamily(name, METRICS[name])
    family.add_metric((), list(zip(bounds, sums, strict=True)), durations.sum_ns / 1e9)
    return family


def _family(
    name: str, labels: Iterable[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    return metric_family(name, METRICS[name], labels, values)


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
            yield from _group_totals(now)
            yield from _group_by_reason(now)


def _group_totals(now: GroupStatistics) -> Iterator[Metric]:
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


def _group_by_reason(now: GroupStatistics) -> Iterator[Metric]:
    refused: Mapping[str, int] = {} if now.seal is None else now.seal.refused
    for name, label, counts in (
        ("skerry_carrier_dropped_messages_total", "reason", now.carrier.dropped),
        ("skerry_distributor_faults_total", "fault", now.carrier.group.faults),
        ("skerry_distributor_sealed_refusals_total", "reason", refused),
    ):
        values = [((reason,), count) for reason, count in counts.items()]
        yield metric_family(name, GROUP_METRICS[name], (label,), values)
