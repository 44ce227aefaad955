"""Benchmark of a node: round trips of single updates, then as many updates as pass.

Publisher and subscriber are two connections of this process. The publisher is at most a window of
updates ahead of the subscriber, so that the node never has a slow client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from skerry.client.api.sync import Space
from skerry.errors import Disconnected, Refused, RequestTimedOut, WouldBlock

_BURST: Final = 64
_WINDOW_COUNT: Final = 16_384
_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Far below the limits of a node for the queue of a client."""
_TRIP_COUNT_MAX: Final = 2000
_TRIP_SHARE: Final = 0.25
"""Share of the time that round trips take at most."""
_ANSWER_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBenchResult:
    node: str
    size: int
    count: int
    """Updates that the subscriber received at full rate."""
    seconds: float
    cpu_us: float
    """CPU time of this process per update: encoding, sending, receiving and calling back."""
    trip_count: int
    trip_s_median: float
    trip_s_p99: float

    @property
    def rate(self) -> float:
        """Updates delivered per second."""
        return self.count / self.seconds


def bench_node(
    connect: Callable[[str], Space],
    *,
    seconds: float,
    size: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> NodeBenchResult:
    """Measure for some time or until `is_stopped`; `connect` opens a space with a name.

    Raises Refused if the node does not permit it, RequestTimedOut if updates are missing.
    """
    with ExitStack() as stack:
        publisher = stack.enter_context(connect("skerry-bench"))
        subscriber = stack.enter_context(connect("skerry-bench-subscriber"))
        bench = _NodeBench(publisher, subscriber, bytes(size))
        # It is in effect at the node when this returns.
        subscriber.flush()
        publisher.flush()
        trips = sorted(bench.trips(seconds * _TRIP_SHARE, is_stopped))
        cpu_s, begun_s = time.process_time(), time.perf_counter()
        count = bench.flood(seconds * (1 - _TRIP_SHARE), is_stopped)
        passed_s = time.perf_counter() - begun_s
        return NodeBenchResult(
            node=publisher.node_name,
            size=size,
            count=count,
            seconds=passed_s,
            cpu_us=(time.process_time() - cpu_s) * 1e6 / max(count, 1),
            trip_count=len(trips),
            trip_s_median=trips[len(trips) // 2],
            trip_s_p99=trips[len(trips) * 99 // 100],
        )


class _NodeBench:
    def __init__(self, publisher: Space, subscriber: Space, data: bytes) -> None:
        self._publisher = publisher
        self._data = data
        self._subject = f"/skerry/bench/{subscriber.client_id}"
        self._arrived = threading.Condition()
        self._count = 0
        self._awaited = 1
        self._refusals: list[Any] = []
        for space in (publisher, subscriber):
            space.on_refused(self._refusals.append)
        subscriber.subscribe(self._subject, self._note)

    def _note(self, _event: object) -> None:
        self._count += 1
        if self._count == self._awaited:
            with self._arrived:
                self._arrived.notify()

    def trips(self, seconds: float, is_stopped: Callable[[], bool]) -> list[float]:
        """The seconds from the publish of an update to its arrival, at least one."""
        found: list[float] = []
        end_s = time.perf_counter() + seconds
        while True:
            begun_s = time.perf_counter()
            self._publish(1)
            found.append(time.perf_counter() - begun_s)
            is_over = time.perf_counter() > end_s or len(found) == _TRIP_COUNT_MAX
            if is_over or is_stopped():
                return found

    def flood(self, seconds: float, is_stopped: Callable[[], bool]) -> int:
        """Publish as fast as the subscriber receives; returns the count."""
        window = max(min(_WINDOW_COUNT, _WINDOW_BYTES // (len(self._data) + 1)), _BURST)
        end_s = time.perf_counter() + seconds
        sent, before = 0, self._count
        while time.perf_counter() < end_s and not is_stopped():
            for _ in range(_BURST):
                self._send()
            sent += _BURST
            if before + sent - self._count > window:
                self._wait(before + sent - window // 2)
        self._wait(before + sent)
        return sent

    def _publish(self, count: int) -> None:
        awaited = self._count + count
        self._awaited = awaited
        for _ in range(count):
            self._send()
        self._wait(awaited)

    def _send(self) -> None:
        while True:
            try:
                self._publisher.publish(self._subject, self._data)
            except WouldBlock:
                self._publisher.drain(timeout=_ANSWER_S_MAX)
            else:
                return

    def _wait(self, count: int) -> None:
        """Wait until so many updates have arrived in all."""
        self._awaited = count
        with self._arrived:
            if not self._arrived.wait_for(
                lambda: self._count >= count or bool(self._refusals), _ANSWER_S_MAX
            ):
                if self._publisher.state == "closed":
                    raise Disconnected(self._publisher.wait_closed())
                raise RequestTimedOut(
                    f"only {self._count} of {count} updates arrived within {_ANSWER_S_MAX:g} s"
                )
        if self._refusals:
            raise Refused(f"the node does not permit {self._refusals[0]}")
