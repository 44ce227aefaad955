"""The statistics of a connection: counters, rates, queues and the socket, also as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from dataclasses import dataclass
from typing import Final, TypeVar

from skerry.client.distributor.group_session import GroupSession
from skerry.json_values import plain
from skerry.protocol.distributor.events import DistributorStatistics, SenderInfo

T = TypeVar("T", int, float)

INTERVAL_NS: Final = 1_000_000_000
WINDOWS_S: Final = (1, 60, 300)
_COUNTED: Final = tuple(
    (direction, what)
    for direction in ("sent", "received")
    for what in ("update", "datagram", "byte")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRates:
    """The total and the rates of one counter."""

    total: int
    per_s: tuple[float, float, float]
    """Rates per second over the last second, minute and five minutes."""
    peak_per_s: tuple[float, float, float]
    peak_wall_ns: tuple[int, int, int]


class RateMeter:
    """Samples one counter a second, and computes its rates."""

    def __init__(self, now_ns: int) -> None:
        self._noted: deque[tuple[int, int]] = deque([(now_ns, 0)])
        self._per_s = [0.0, 0.0, 0.0]
        self._peak_per_s = [0.0, 0.0, 0.0]
        self._peak_wall_ns = [0, 0, 0]

    def note(self, total: int, now_ns: int, wall_ns: int) -> None:
        noted = self._noted
        noted.append((now_ns, total))
        # One sample more than the longest window has seconds, for the start of the window.
        while len(noted) > WINDOWS_S[-1] + 1:
            noted.popleft()
        for index, window_s in enumerate(WINDOWS_S):
            then_ns, then_total = noted[max(0, len(noted) - 1 - window_s)]
            # A window that began before the meter counts from the first sample.
            passed_ns = max(now_ns - then_ns, 1)
            per_s = (total - then_total) * 1e9 / passed_ns
            self._per_s[index] = per_s
            if per_s > self._peak_per_s[index]:
                self._peak_per_s[index] = per_s
                self._peak_wall_ns[index] = wall_ns

    def rates(self, total: int) -> TrafficRates:
        return TrafficRates(
            total=total,
            per_s=_three(self._per_s),
            peak_per_s=_three(self._peak_per_s),
            peak_wall_ns=_three(self._peak_wall_ns),
        )


def _three(values: list[T]) -> tuple[T, T, T]:
    first, second, third = values
    return first, second, third


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One direction: data only, without control messages and retransmissions."""

    updates: TrafficRates
    datagrams: TrafficRates
    bytes: TrafficRates
    updates_per_datagram: float
    fill_ratio: float
    """Average size of datagrams, relative to the largest size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """The queue of one publisher or subscriber."""

    name: str
    update_count: int
    update_count_peak: int
    dropped_count: int
    error_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
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
    """Datagrams that arrived at a full receive buffer; None if the kernel does not count them."""
    sends_trains: bool
    receives_trains: bool
    sent: Traffic
    received: Traffic
    queues: tuple[QueueStatistics, ...]
    senders: tuple[SenderInfo, ...]
    """The senders that have announced themselves."""
    counters: DistributorStatistics

    def to_json(self) -> str:
        """One line of JSON, fields by name."""
        return json.dumps(dataclasses.asdict(self), default=plain, separators=(", ", ": "))


class Reporter:
    """Samples the totals of a connection once a second, and makes its statistics."""

    def __init__(self, session: GroupSession, now_ns: int) -> None:
        self._session = session
        self._meters = {key: RateMeter(now_ns) for key in _COUNTED}
        self.due_ns = now_ns + INTERVAL_NS
        """When to call `note` again."""

    def note(self, now_ns: int, wall_ns: int) -> None:
        """Sample the totals, if a second has passed."""
        if now_ns < self.due_ns:
            return
        self.due_ns = now_ns + INTERVAL_NS
        with self._session.lock:
            counters = self._session.machine.statistics()
        for (direction, what), meter in self._meters.items():
            meter.note(getattr(counters, f"{direction}_{what}_count"), now_ns, wall_ns)

    def statistics(self) -> ConnectionStatistics:
        session = self._session
        with session.lock:
            counters = session.machine.statistics()
            identity = session.machine.identity
            senders = tuple(found.sender for found in session.machine.known_senders())
            queues = tuple(session.router.queues)
            drop_count = None if session.is_over else session.driver.socket.drop_count
        made = session.driver.socket
        return ConnectionStatistics(
            group=session.group.host,
            port=session.group.port,
            interface=made.interface.name or made.interface.address,
            application=session.config.application,
            sender_id=identity.sender_id,
            start_ms=identity.start_ms,
            application_id=identity.application_id,
            segment_bytes=session.machine.segment_bytes,
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
                    name=queue.name,
                    update_count=queue.count,
                    update_count_peak=queue.count_peak,
                    dropped_count=queue.dropped_count,
                    error_count=queue.error_count,
                )
                for queue in queues
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
        room = datagram_count * self._session.machine.segment_bytes
        return Traffic(
            updates=rates["update"],
            datagrams=rates["datagram"],
            bytes=rates["byte"],
            updates_per_datagram=totals["update"] / datagram_count,
            fill_ratio=totals["byte"] / room,
        )
