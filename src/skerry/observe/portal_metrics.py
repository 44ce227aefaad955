"""Metrics of a portal for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from skerry.observe.number_metrics import NumberCollector, number_registry
from skerry.protocol.portal.statistics import PortalStatistics

PORTAL_METRICS: Final = {
    "skerry_portal_publishers": "Connected sockets for publications.",
    "skerry_portal_subscribers": "Connected sockets for subscriptions.",
    "skerry_portal_clients": "Clients that have asked the manager.",
    "skerry_portal_is_held": "1 while required clients are missing, else 0.",
    "skerry_portal_missing_clients": "Required clients that are not ready yet.",
    "skerry_portal_received_publications_total": "Publications received from clients.",
    "skerry_portal_received_bytes_total": "Bytes of the received publications.",
    "skerry_portal_sent_publications_total": "Publications passed on, once for all subscribers.",
    "skerry_portal_sent_bytes_total": "Bytes of the publications passed on.",
    "skerry_portal_refused_messages_total": "Malformed messages refused by a checking router.",
    "skerry_portal_refused_connections_total": "Connections whose handshake failed.",
    "skerry_portal_requests_total": "Requests to the manager.",
    "skerry_portal_hold_requests_total": "Published requests about the hold.",
    "skerry_portal_malformed_requests_total": "Malformed messages to the manager.",
    "skerry_portal_mapped_publications_total": "Publications mapped into the space.",
    "skerry_portal_mapped_updates_total": "Updates of the space mapped to the portal.",
    "skerry_portal_unmapped_total": "Publications and updates that could not be mapped.",
    "skerry_portal_returned_total": "Dropped, because a mapping is their origin.",
    "skerry_portal_unmapped_removes_total": "Removes of objects, which a portal cannot have.",
    "skerry_portal_unpublished_total": "Mapped, and dropped because the target had no room.",
}
"""The metrics of a portal, and their help texts."""

_PREFIX: Final = "skerry_portal_"


def portal_registry(statistics: Callable[[], PortalStatistics]) -> CollectorRegistry:
    """The registry with the metrics of a portal and its process."""
    return number_registry(_PREFIX, PORTAL_METRICS, statistics)


class PortalCollector(Collector):
    """The metrics of a portal that is part of another program, which may have none."""

    def __init__(self, statistics: Callable[[], PortalStatistics | None]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        now = self._statistics()
        if now is not None:
            yield from NumberCollector(_PREFIX, PORTAL_METRICS, lambda: now).collect()
