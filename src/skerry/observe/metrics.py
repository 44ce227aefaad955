"""Metrics of a node in the text form of Prometheus, made from its statistics when asked for.

Nothing is counted here. The core counts as it works; a scrape turns one snapshot into text, so the
numbers of one scrape fit each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from skerry import build_info
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.engine.dispatch.ledger import NodeStatistics, TypeRow
from skerry.observe.group_metrics import GroupCollector

__all__ = [
    "CONTENT_TYPE",
    "METRICS",
    "METRIC_TYPE_COUNT_MAX",
    "NodeCollector",
    "node_registry",
    "written",
]

METRIC_TYPE_COUNT_MAX: Final = 50
"""Types with their own metrics. Those with less traffic are added up as `other`. A time series for
each type of a large system would cost its monitoring more than it is worth."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OTHER: Final = "other"

METRICS: Final[Mapping[str, str]] = {
    "skerry_node_info": "Always 1; the labels tell which version and build of skerry this is.",
    "skerry_clients": "Clients by the door they came in by.",
    "skerry_types": "Types that the node knows.",
    "skerry_type_conflicts_total": "Definitions refused because another one has the name.",
    "skerry_groups": "Groups that somebody has joined: types and subject patterns.",
    "skerry_cache_objects": "Objects in the cache.",
    "skerry_cache_payload_bytes": "Bytes of these objects, encoded.",
    "skerry_received_messages_total": "Messages from clients.",
    "skerry_received_bytes_total": "Bytes of these.",
    "skerry_sent_messages_total": "Messages to clients.",
    "skerry_sent_bytes_total": "Bytes of these.",
    "skerry_accepted_updates_total": "Updates that were accepted from clients.",
    "skerry_backpressure_total": "How often a publisher had to wait for its subscribers.",
    "skerry_refusals_total": "What clients asked for and were not permitted, by what it was.",
    "skerry_disconnects_total": "Connections that ended, by reason.",
    "skerry_claims_held": "Objects, types and handlers that are some client's alone.",
    "skerry_requests_total": "Requests of clients that are over, by outcome.",
    "skerry_requests_open": "Requests of clients that have no answer yet.",
    "skerry_requests_late_total": "Answers that came when nobody waited for them any more.",
    "skerry_queued_bytes": "Bytes that wait for clients to take them.",
    "skerry_queued_bytes_max": "Bytes that wait for the client for whom most wait.",
    "skerry_storage_is_failing": "1 while the last attempt to store objects failed, else 0.",
    "skerry_storage_pending_changes": "Changes of persistent objects that are not stored yet.",
    "skerry_type_objects": "Objects in the cache, by type.",
    "skerry_type_accepted_updates_total": "Accepted updates, by type.",
    "skerry_type_members": "Clients that asked for objects of the type.",
    "skerry_ledger_due_total": "Deliveries that accepted updates gave rise to, by type.",
    "skerry_ledger_updates_total": "What became of due deliveries, by type and outcome.",
    "skerry_ledger_queued": "Due deliveries that wait, by type.",
    "skerry_ledger_unexplained": "Due deliveries of which nothing is known. Always 0.",
}
"""Every metric of ours, and its help text."""

_OUTCOMES: Final = ("delivered", "filtered", "conflated", "expired", "refused")


def node_registry(
    statistics: Callable[[], NodeStatistics],
    group: Callable[[], GroupStatistics | None] = lambda: None,
) -> CollectorRegistry:
    """All metrics of a node, its multicast group and its process, of which a scrape is made."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(statistics))
    registry.register(GroupCollector(group))
    ProcessCollector(registry=registry)
    return registry


def written(registry: CollectorRegistry) -> bytes:
    """One scrape."""
    return generate_latest(registry)


class NodeCollector(Collector):
    """Turns the statistics of a node into metrics."""

    def __init__(
        self,
        statistics: Callable[[], NodeStatistics],
        *,
        type_count_max: int = METRIC_TYPE_COUNT_MAX,
    ) -> None:
        self._statistics = statistics
        self._types = _Labels(type_count_max)
        self._reasons = _Labels(type_count_max)

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        now = self._statistics()
        info = {"version": build_info.version(), "build": build_info.mode()}
        yield _gauge("skerry_node_info", info, [(tuple(info.values()), 1)])
        yield from _totals(now)
        yield from self._reasoned(now)
        yield from self._by_type(now)
        yield _gauge("skerry_ledger_unexplained", (), [((), now.unexplained)])

    def _reasoned(self, now: NodeStatistics) -> Iterator[Metric]:
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
            yield _counter(name, (label_name,), sums.items())

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
            make = _counter if name.endswith("_total") else _gauge
            yield make(name, names, values.items())


class _Labels:
    """Values of a label: so many have their own, and keep it; all others share one.

    As nobody loses or gains one while others share, no counter ever goes down.
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
    """What became of requests, of those included whose client was gone by then."""
    abandoned = {"abandoned": now.requests.abandoned} if now.requests.abandoned else {}
    return {**now.requests.ended, **abandoned}


def _totals(now: NodeStatistics) -> Iterator[Metric]:
    doors: dict[tuple[str, ...], float] = {}
    for client in now.clients:
        doors[(client.kind,)] = doors.get((client.kind,), 0) + 1
    queued = [client.queued_bytes for client in now.clients]
    yield _gauge("skerry_clients", ("door",), doors.items())
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
        make = _counter if name.endswith("_total") else _gauge
        yield make(name, (), [((), value)])


def _gauge(
    name: str, labels: Iterable[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(name, METRICS[name], labels=tuple(labels))
    for label, value in values:
        family.add_metric(label, value)
    return family


def _counter(
    name: str, labels: Iterable[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = CounterMetricFamily(name.removesuffix("_total"), METRICS[name], labels=tuple(labels))
    for label, value in values:
        family.add_metric(label, value)
    return family
