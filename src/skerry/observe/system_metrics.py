"""Metrics of a node in its system for Prometheus, made from its statistics per scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from skerry.engine.system.events import MemberStatistics
from skerry.observe.number_metrics import metric_family
from skerry.protocol.link.events import LinkStatistics, PeerStatistics

SYSTEM_METRICS: Final[Mapping[str, str]] = {
    "skerry_system_is_member": "1 while the node is in the picture of its system, else 0.",
    "skerry_system_is_elected": "1 while the node is the elected one, else 0.",
    "skerry_system_nodes": "Nodes of the picture, by state.",
    "skerry_system_elections_total": "Elections that the node has taken part in.",
    "skerry_system_exclusions_total": "Nodes that were excluded, by reason.",
    "skerry_system_rejoins_total": "How often the node was excluded and joined again.",
    "skerry_system_clock_difference_seconds_max": "Largest clock difference to another node.",
    "skerry_link_peers": "Nodes with which messages are exchanged, by channel.",
    "skerry_link_sent_messages_total": "Messages sent, by channel.",
    "skerry_link_received_messages_total": "Messages received, by channel.",
    "skerry_link_refused_messages_total": "Messages that found no room in a send queue.",
    "skerry_link_dropped_messages_total": "Unacknowledged messages that found no room.",
    "skerry_link_queued_packets": "Packets that wait for an acknowledgement, by channel.",
    "skerry_link_sent_packets_total": "Packets sent to other nodes, by channel.",
    "skerry_link_sent_bytes_total": "Bytes of the packets sent.",
    "skerry_link_received_packets_total": "Packets received from other nodes, by channel.",
    "skerry_link_received_bytes_total": "Bytes of the packets received.",
    "skerry_link_retransmissions_total": "Packets sent again, by channel.",
    "skerry_link_duplicates_total": "Packets received again, by channel.",
    "skerry_link_drops_total": "Datagrams that were dropped, by channel and reason.",
    "skerry_link_round_trip_seconds_max": "Longest round-trip time of all nodes, by channel.",
    "skerry_link_lag_seconds_max": "How long the slowest node is behind, by channel.",
    "skerry_link_backlog_bytes": "Bytes that wait for nodes that are behind, by channel.",
    "skerry_link_kernel_drops_total": "Datagrams dropped because a receive buffer was full.",
    "skerry_link_unsent_datagrams_total": "Datagrams that could not be sent.",
    "skerry_link_reopened_sockets_total": "How often sockets were opened again.",
    "skerry_link_sealed_refusals_total": "Datagrams that the seal rejected, by reason.",
}
"""Every metric of the system, and its help text."""

_NS: Final = 1e9
_SUMMED: Final[Mapping[str, Callable[[PeerStatistics], int]]] = {
    "skerry_link_sent_packets_total": lambda peer: peer.sent_packet_count,
    "skerry_link_sent_bytes_total": lambda peer: peer.sent_bytes,
    "skerry_link_received_packets_total": lambda peer: peer.received_packet_count,
    "skerry_link_received_bytes_total": lambda peer: peer.received_bytes,
    "skerry_link_retransmissions_total": lambda peer: peer.retransmission_count,
    "skerry_link_duplicates_total": lambda peer: peer.duplicate_count,
}
"""Counters that a link has for each node."""


class SystemCollector(Collector):
    """Converts the statistics of a node in its system to metrics; a node alone has none."""

    def __init__(self, statistics: Callable[[], MemberStatistics | None]) -> None:
        self._statistics = statistics
        self._last: dict[tuple[str, str, int], int] = {}
        """The last value of each counter, by metric, channel and node."""
        self._sums: dict[tuple[str, str], int] = {}

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        now = self._statistics()
        if now is None:
            return
        links = {"control": now.machine.control, "data": now.machine.data}
        yield from _of_system(now)
        yield from _of_links(links)
        for name, value in _SUMMED.items():
            for channel, link in links.items():
                self._add(name, channel, {peer.node: value(peer) for peer in link.peers})
            sums = [((channel,), self._sums[name, channel]) for channel in links]
            yield metric_family(name, SYSTEM_METRICS[name], ("channel",), sums)

    def _add(self, name: str, channel: str, counts: Mapping[int, int]) -> None:
        """Add what the nodes have counted since the last scrape: a node that is excluded takes its
        counters with it, and the sum never decreases."""
        total = self._sums.get((name, channel), 0)
        for node, count in counts.items():
            before = self._last.get((name, channel, node), 0)
            total += count - before if count >= before else count
        gone = [key for key in self._last if key[:2] == (name, channel) and key[2] not in counts]
        for key in gone:
            del self._last[key]
        self._last |= {(name, channel, node): count for node, count in counts.items()}
        self._sums[name, channel] = total


def _of_system(now: MemberStatistics) -> Iterator[Metric]:
    states = [(("alive",), now.alive_count), (("dead",), now.machine.picture.dead_count)]
    yield metric_family(
        "skerry_system_nodes", SYSTEM_METRICS["skerry_system_nodes"], ("state",), states
    )
    for name, value in (
        ("skerry_system_is_member", int(now.is_member)),
        ("skerry_system_is_elected", int(now.is_elected)),
        ("skerry_system_elections_total", now.machine.picture.election_count),
        ("skerry_system_rejoins_total", now.rejoin_count),
        ("skerry_system_clock_difference_seconds_max", now.clock_offset_ns_max / _NS),
        ("skerry_link_kernel_drops_total", now.kernel_drop_count),
        ("skerry_link_unsent_datagrams_total", now.unsent_count),
        ("skerry_link_reopened_sockets_total", now.reopened_count),
    ):
        yield metric_family(name, SYSTEM_METRICS[name], (), [((), value)])
    refused = {} if now.machine.seal is None else now.machine.seal.refused
    for name, counts in (
        ("skerry_system_exclusions_total", now.exclusions),
        ("skerry_link_sealed_refusals_total", refused),
    ):
        values = [((reason,), count) for reason, count in counts.items()]
        yield metric_family(name, SYSTEM_METRICS[name], ("reason",), values)


def _of_links(links: Mapping[str, LinkStatistics]) -> Iterator[Metric]:
    for name, value in _BY_CHANNEL.items():
        values = [((channel,), value(link)) for channel, link in links.items()]
        yield metric_family(name, SYSTEM_METRICS[name], ("channel",), values)
    drops = [
        ((channel, reason), count)
        for channel, link in links.items()
        for reason, count in link.drops.items()
    ]
    name = "skerry_link_drops_total"
    yield metric_family(name, SYSTEM_METRICS[name], ("channel", "reason"), drops)


_BY_CHANNEL: Final[Mapping[str, Callable[[LinkStatistics], float]]] = {
    "skerry_link_peers": lambda link: sum(peer.is_included for peer in link.peers),
    "skerry_link_sent_messages_total": lambda link: link.sent_message_count,
    "skerry_link_received_messages_total": lambda link: link.received_message_count,
    "skerry_link_refused_messages_total": lambda link: link.refused_message_count,
    "skerry_link_dropped_messages_total": lambda link: link.dropped_message_count,
    "skerry_link_queued_packets": lambda link: link.queued_packet_count,
    "skerry_link_round_trip_seconds_max": lambda link: (
        max((peer.round_trip_ns for peer in link.peers), default=0) / _NS
    ),
    "skerry_link_lag_seconds_max": lambda link: (
        max((peer.lag_ns for peer in link.peers), default=0) / _NS
    ),
    "skerry_link_backlog_bytes": lambda link: sum(peer.backlog_bytes for peer in link.peers),
}
