"""What is told about a connection: counters, rates, queues and the socket, also as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Final

from skerry.client.distributor.group_driver import GroupDriver
from skerry.client.distributor.rates import INTERVAL_NS, RateMeter, TrafficRates
from skerry.json_values import plain
from skerry.protocol.distributor.events import DistributorStatistics, SenderInfo

__all__ = ["ConnectionStatistics", "QueueStatistics", "Reporter", "Traffic"]

_COUNTED: Final = tuple(
    (direction, what)
    for direction in ("sent", "received")
    for what in ("update", "datagram", "byte")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One direction: data only, neither control messages nor what was sent again."""

    updates: TrafficRates
    datagrams: TrafficRates
    bytes: TrafficRates
    updates_per_datagram: float
    fill_ratio: float
    """How full datagrams are on average, of the largest there may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """The queue of one publisher or subscriber."""

    name: str
    update_count: int
    """Updates that wait now."""
    update_count_peak: int
    dropped_count: int
    error_count: int
    """Callbacks that raised something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
    """A connection at one instant."""

    group: str
    port: int
    interface: str
    application: str
    sender_id: int
    start_ms: int
    application_id: int
    segment_bytes: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    is_buffer_clipped: bool
    kernel_drop_count: int | None
    """Datagrams that came while the receive buffer was full; None where nobody tells."""
    sends_trains: bool
    receives_trains: bool
    sent: Traffic
    received: Traffic
    queues: tuple[QueueStatistics, ...]
    senders: tuple[SenderInfo, ...]
    """Those that announced themselves."""
    counters: DistributorStatistics

    def to_json(self) -> str:
        """One line of JSON, fields by name."""
        return json.dumps(dataclasses.asdict(self), default=plain, separators=(", ", ": "))


class Reporter:
    """Notes the totals of a connection once a second, and tells about it."""

    def __init__(self, junction: GroupDriver, now_ns: int) -> None:
        self._junction = junction
        self._meters = {key: RateMeter(now_ns) for key in _COUNTED}
        self.due_ns = now_ns + INTERVAL_NS
        """When to `note` again."""

    def note(self, now_ns: int, wall_ns: int) -> None:
        """Note the totals if it is time to."""
        if now_ns < self.due_ns:
            return
        self.due_ns = now_ns + INTERVAL_NS
        with self._junction.lock:
            counters = self._junction.machine.statistics()
        for (direction, what), meter in self._meters.items():
            meter.note(getattr(counters, f"{direction}_{what}_count"), now_ns, wall_ns)

    def statistics(self) -> ConnectionStatistics:
        """All that is known now."""
        junction = self._junction
        with junction.lock:
            counters = junction.machine.statistics()
            identity = junction.machine.identity
            senders = tuple(found.sender for found in junction.machine.known_senders())
            outlets = tuple(junction.router.outlets)
            drop_count = None if junction.is_over else junction.socket.drop_count
        made = junction.socket
        return ConnectionStatistics(
            group=junction.group.host,
            port=junction.group.port,
            interface=made.interface.name or made.interface.address,
            application=junction.config.application,
            sender_id=identity.sender_id,
            start_ms=identity.start_ms,
            application_id=identity.application_id,
            segment_bytes=junction.machine.segment_bytes,
            receive_buffer_bytes=made.receive_buffer.bytes,
            send_buffer_bytes=made.send_buffer.bytes,
            is_buffer_clipped=made.receive_buffer.is_clipped,
            kernel_drop_count=drop_count,
            sends_trains=made.sends_trains,
            receives_trains=made.receives_trains,
            sent=self._traffic("sent", counters),
            received=self._traffic("received", counters),
            queues=tuple(
                QueueStatistics(
                    name=outlet.name,
                    update_count=outlet.count,
                    update_count_peak=outlet.count_peak,
                    dropped_count=outlet.dropped_count,
                    error_count=outlet.error_count,
                )
                for outlet in outlets
            ),
            senders=senders,
            counters=counters,
        )

    def _traffic(self, direction: str, counters: DistributorStatistics) -> Traffic:
        totals = {
            what: getattr(counters, f"{direction}_{what}_count")
            for what in ("update", "datagram", "byte")
        }
        rates = {what: self._meters[direction, what].rates(total) for what, total in totals.items()}
        datagram_count = max(totals["datagram"], 1)
        room = datagram_count * self._junction.machine.segment_bytes
        return Traffic(
            updates=rates["update"],
            datagrams=rates["datagram"],
            bytes=rates["byte"],
            updates_per_datagram=totals["update"] / datagram_count,
            fill_ratio=totals["byte"] / room,
        )
