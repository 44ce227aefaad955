"""What is told about a connection: counters, rates, queues and the socket, also as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Final

from skerry.client.distributor.carrier import Carrier
from skerry.client.distributor.rates import INTERVAL_NS, RateMeter, Rates
from skerry.plain import plain
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

    updates: Rates
    datagrams: Rates
    bytes: Rates
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

    def __init__(self, carrier: Carrier, now_ns: int) -> None:
        self._carrier = carrier
        self._meters = {key: RateMeter(now_ns) for key in _COUNTED}
        self.due_ns = now_ns + INTERVAL_NS
        """When to `note` again."""

    def note(self, now_ns: int, wall_ns: int) -> None:
        """Note the totals if it is time to."""
        if now_ns < self.due_ns:
            return
        self.due_ns = now_ns + INTERVAL_NS
        with self._carrier.lock:
            counters = self._carrier.machine.statistics()
        for (direction, what), meter in self._meters.items():
            meter.note(getattr(counters, f"{direction}_{what}_count"), now_ns, wall_ns)

    def statistics(self) -> ConnectionStatistics:
        """All that is known now."""
        carrier = self._carrier
        with carrier.lock:
            counters = carrier.machine.statistics()
            identity = carrier.machine.identity
            senders = tuple(found.sender for found in carrier.machine.known_senders())
            outlets = tuple(carrier.router.outlets)
            drop_count = None if carrier.is_over else carrier.socket.drop_count
        made = carrier.socket
        return ConnectionStatistics(
            group=carrier.group.host,
            port=carrier.group.port,
            interface=made.interface.name or made.interface.address,
            application=carrier.config.application,
            sender_id=identity.sender_id,
            start_ms=identity.start_ms,
            application_id=identity.application_id,
            segment_bytes=carrier.config.segment_bytes,
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
        room = datagram_count * self._carrier.config.segment_bytes
        return Traffic(
            updates=rates["update"],
            datagrams=rates["datagram"],
            bytes=rates["byte"],
            updates_per_datagram=totals["update"] / datagram_count,
            fill_ratio=totals["byte"] / room,
        )
