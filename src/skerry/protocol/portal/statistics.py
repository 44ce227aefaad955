"""The counters of a portal, under the names of its metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterCounters:
    """What has passed a router."""

    received_count: int = 0
    """Publications received from publishers."""
    received_bytes: int = 0
    sent_count: int = 0
    """Publications that were passed on, counted once for all subscribers."""
    sent_bytes: int = 0
    refused_count: int = 0
    """Malformed publications and filters. Only a checking router refuses any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalStatistics:
    """A snapshot of the counters of a portal."""

    publishers: int
    """Connected sockets for publications."""
    subscribers: int
    """Connected sockets for subscriptions."""
    clients: int
    """Clients that have asked the manager, as far as it remembers them."""
    is_held: int
    """1 while the hold is not released, else 0."""
    missing_clients: int
    """Required clients that are not ready yet."""
    received_publications: int
    received_bytes: int
    sent_publications: int
    sent_bytes: int
    refused_messages: int
    refused_connections: int
    """Connections whose handshake failed."""
    requests: int
    hold_requests: int
    malformed_requests: int
    mapped_publications: int = 0
    """Publications that were mapped into a space."""
    mapped_updates: int = 0
    """Updates of a space that were mapped to the portal."""
    unmapped: int = 0
    """Publications and updates that match a rule of the mapping and could not be mapped."""
    returned: int = 0
    """Publications and updates that the mapping dropped because a mapping is their origin."""
    unmapped_removes: int = 0
    """Removes of objects, for which a portal has no publication."""
    unpublished: int = 0
    """What was mapped and could not be published, such as while the node is not connected."""
