"""Benchmark of the distributor: one publisher and some subscribers, each a process.

The publisher is at most a window of updates ahead of the slowest subscriber, so that no update need
be lost. The figure to compare is CPU time; the rate also depends on other programs.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.sharedctypes import SynchronizedArray
from typing import Any, Final

from skerry.client.distributor.config import Config
from skerry.client.distributor.sync import BlockingGroupConnection
from skerry.errors import SkerryError

_BURST: Final = 64
_WINDOW: Final = 16_384
_READY_S_MAX: Final = 20.0
_QUIET_S_MAX: Final = 10.0
_POLL_S: Final = 0.1
"""Interval at which a stop request is polled."""
_SUBJECT: Final = "/bench"
_WARM: Final = "/warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    group: str
    config: Config
    seconds: float = 1.0
    size: int = 56
    subscriber_count: int = 1
    in_batches: bool = False
    """Whether subscribers are called with lists of updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    sent_count: int
    received_count: int
    """Sum over all subscribers."""
    seconds: float
    publisher_cpu_us: float
    subscriber_cpu_us: float
    datagram_count: int
    resent_count: int
    request_count: int
    kernel_drop_count: int

    @property
    def rate(self) -> float:
        """Updates delivered per second."""
        return self.received_count / self.seconds


def run_bench(plan: BenchPlan, is_stopped: Callable[[], bool] = lambda: False) -> BenchResult:
    """Measure for the planned time or until `is_stopped`.

    SkerryError if a process fails or does not answer.
    """
    context = multiprocessing.get_context("spawn")
    # One counter per subscriber; it is at least 1 once the subscriber receives the publisher.
    counts = context.Array("Q", plan.subscriber_count)
    total = context.Value("q", -1)
    halt = context.Value("b", 0)
    pipes: list[Pipe] = []
    processes = []
    jobs: list[tuple[Any, ...]] = [
        (_subscribe, plan, counts, index, total) for index in range(plan.subscriber_count)
    ]
    jobs.append((_publish, plan, counts, total, halt))
    try:
        for work, *arguments in jobs:
            near, far = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(far, *arguments), daemon=True)
            process.start()
            far.close()
            pipes.append(near)
            processes.append(process)
        rows = [_answer(pipe, plan, halt, is_stopped) for pipe in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()
    *subscribers, publisher = rows
    received_count = sum(row["count"] for row in subscribers)
    return BenchResult(
        sent_count=publisher["count"],
        received_count=received_count,
        seconds=max(1e-9, *(row["seconds"] for row in subscribers)),
        publisher_cpu_us=publisher["cpu_s"] * 1e6 / max(publisher["count"], 1),
        subscriber_cpu_us=sum(row["cpu_s"] for row in subscribers) * 1e6 / max(received_count, 1),
        datagram_count=publisher["datagrams"],
        resent_count=publisher["resent"],
        request_count=sum(row["requests"] for row in subscribers),
        kernel_drop_count=sum(row["drops"] for row in subscribers),
    )


def _answer(
    pipe: Pipe, plan: BenchPlan, halt: Any, is_stopped: Callable[[], bool]
) -> dict[str, Any]:
    end_s = time.monotonic() + plan.seconds + 2 * _READY_S_MAX
    try:
        while time.monotonic() < end_s:
            if is_stopped():
                halt.value = 1
            if not pipe.poll(_POLL_S):
                continue
            row = pipe.recv()
            if "error" in row:
                raise SkerryError(f"a process of the benchmark failed: {row['error']}")
            assert isinstance(row, dict)
            return row
    except EOFError:
        raise SkerryError("a process of the benchmark ended without a result") from None
    raise SkerryError("a process of the benchmark did not return a result in time")


def _subscribe(
    pipe: Pipe, plan: BenchPlan, counts: SynchronizedArray[int], index: int, total: Any
) -> None:
    _ignore_interrupts()
    cells = counts.get_obj()
    state = _Count(cells, index)
    try:
        connection = BlockingGroupConnection(plan.group, plan.config)
    except SkerryError as error:
        pipe.send({"error": str(error)})
        return
    with connection:
        if plan.in_batches:
            subscriber = connection.subscriber(on_batch=state.on_batch)
        else:
            subscriber = connection.subscriber(state.on_update)
        warm = connection.subscriber(lambda *_: state.warm())
        subscriber.add(_SUBJECT)
        warm.add(_WARM)
        cpu_s = _until_quiet(state, total)
        statistics = connection.statistics()
        pipe.send(
            {
                "count": state.count,
                "seconds": (state.last_ns - state.first_ns) / 1e9,
                "cpu_s": cpu_s,
                "requests": statistics.counters.requests_sent_count,
                "drops": statistics.kernel_drop_count or 0,
            }
        )


def _until_quiet(state: _Count, total: Any) -> float:
    """CPU time until all updates were received, or no more arrive."""
    seen, since_s = -1, time.monotonic()
    started_s = time.process_time()
    limit_s = _READY_S_MAX
    while total.value < 0 or state.count < total.value:
        time.sleep(0.01)
        state.store()
        if state.count != seen:
            if seen <= 0:
                started_s = time.process_time()
            seen, since_s = state.count, time.monotonic()
            limit_s = _READY_S_MAX if total.value < 0 else _QUIET_S_MAX
        elif time.monotonic() - since_s > limit_s:
            break
    return time.process_time() - started_s


class _Count:
    """Counts the updates of one subscriber, in shared memory."""

    def __init__(self, cells: Any, index: int) -> None:
        self._cells = cells
        self._index = index
        self.count = 0
        self.first_ns = 0
        self.last_ns = 0

    def warm(self) -> None:
        if not self.count:
            self._cells[self._index] = 1

    def on_update(self, _subject: str, _data: bytes, _tag: object, _waiting: int) -> None:
        self.count = count = self.count + 1
        if not count % _BURST or count == 1:
            self.store()

    def on_batch(self, updates: list[tuple[str, bytes]]) -> None:
        for _, data in updates:
            assert data
        self.count += len(updates)
        self.store()

    def store(self) -> None:
        if self.count and self.count != self._cells[self._index] - 1:
            self.last_ns = time.monotonic_ns()
            self.first_ns = self.first_ns or self.last_ns
            self._cells[self._index] = self.count + 1


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes; the main process ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _publish(
    pipe: Pipe, plan: BenchPlan, counts: SynchronizedArray[int], total: Any, halt: Any
) -> None:
    _ignore_interrupts()
    cells = counts.get_obj()
    try:
        connection = BlockingGroupConnection(plan.group, plan.config)
    except SkerryError as error:
        pipe.send({"error": str(error)})
        return
    with connection:
        publisher = connection.publisher()
        end_s = time.monotonic() + _READY_S_MAX
        while not all(cells) and not halt.value:
            if time.monotonic() > end_s:
                pipe.send({"error": "the subscribers do not receive the publisher's updates"})
                return
            publisher.publish(_WARM, b"warm")
            publisher.flush()
            time.sleep(0.02)
        publish, data = publisher.publish, bytes(plan.size)
        started_s, end_s = time.process_time(), time.monotonic() + plan.seconds
        count = 0
        while time.monotonic() < end_s and not halt.value:
            if count - (min(cells) - 1) > _WINDOW:
                publisher.flush()
                time.sleep(0.0002)
                continue
            for _ in range(_BURST):
                publish(_SUBJECT, data)
            count += _BURST
        publisher.flush()
        total.value = count
        cpu_s = time.process_time() - started_s
        # Subscribers may still request repairs.
        end_s = time.monotonic()
        while count and min(cells) - 1 < count and time.monotonic() < end_s + _QUIET_S_MAX:
            time.sleep(0.01)
        counters = connection.statistics().counters
        pipe.send(
            {
                "count": count,
                "cpu_s": cpu_s,
                "datagrams": counters.sent_datagram_count,
                "resent": counters.resent_datagram_count,
            }
        )
