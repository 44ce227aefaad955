"""The queue of one publisher or subscriber, and the calls of its callbacks.

A hot module. The reading thread adds items in order: lists of updates, and events between them. A
thread of the queue delivers them, or with inline delivery the driving thread. The number of updates
is limited; `on_slow` is what happens at the limit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from skerry.client.distributor.config import Delivery, OnSlow
from skerry.client.distributor.dispatch import OnUpdate, Routes, call_each
from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.protocol.distributor.receiving.updates import Pairs, Updates
from skerry.protocol.machine import MachineEvent

A = TypeVar("A")

OnEvent = Callable[[MachineEvent], object]
OnBatch = Callable[[Pairs], object]

_READ_COUNT = 64
"""After a delivery of at least so many updates there is probably more to read."""

log = logging.getLogger(__name__)


class DeliveryQueue:
    """A queue of updates and events, with its callbacks."""

    def __init__(
        self,
        *,
        name: str,
        on_event: OnEvent | None,
        on_update: OnUpdate | None = None,
        on_batch: OnBatch | None = None,
        routes: Routes | None = None,
        delivery: Delivery = "thread",
        on_slow: OnSlow = "drop-oldest",
        count_max: int = 1,
        read: Callable[[], None] | None = None,
        resume: Callable[[], None] | None = None,
    ) -> None:
        """`read` reads from the socket; `resume` is called when the queue is not full any more."""
        self.name = name
        self.on_event = on_event
        self._on_update = on_update
        self._on_batch = on_batch
        self._routes = routes or Routes()
        self.is_inline = delivery == "inline"
        self._on_slow = on_slow
        self._count_max = count_max
        self._read = read
        self._resume = resume
        self._items: deque[Updates | MachineEvent] = deque()
        self._lock = threading.Lock()
        # Faster than `with`, which counts for each delivery.
        self._acquire: Callable[[], object] = self._lock.acquire
        self._release: Callable[[], object] = self._lock.release
        self._changed = threading.Condition(self._lock)
        self._calling: threading.Thread | None = None
        self._is_closed = False
        self.is_full = False
        """Whether reading is paused, since too many updates wait."""
        self.is_cut = False
        """Whether the subscriber was too slow and is disconnected."""
        self.count = 0
        self.count_peak = 0
        self.dropped_count = 0
        self.error_count = 0

    @property
    def is_empty(self) -> bool:
        return not self._items

    # -- for the reading thread

    def put_updates(self, updates: Updates) -> None:
        """Add updates, which belong to the queue from now on."""
        self._acquire()
        try:
            if self._is_closed or self.is_cut:
                return
            self._items.append(updates)
            self.count += updates.count
            if self.count > self.count_peak:
                self.count_peak = self.count
            if self.is_inline:
                # Inline delivery has no backlog.
                return
            if self.count > self._count_max:
                self._overflow()
            self._notify()
        finally:
            self._release()

    def put_event(self, event: MachineEvent) -> None:
        """Add an event. Events are never dropped."""
        if self.on_event is None:
            return
        with self._lock:
            if not self._is_closed and not self.is_cut:
                self._items.append(event)
                self._notify()

    # -- delivery

    def run(self) -> None:
        """Deliver all items. Only one thread may call this."""
        while self._items:
            self._acquire()
            try:
                item = self._take()
            finally:
                self._release()
            if item is None:
                return
            self._deliver(item)

    def close(self) -> None:
        """Drop all items. Waits for a callback that runs on the thread of the queue."""
        with self._lock:
            self._is_closed = True
            self._items.clear()
            self.count = 0
            self._changed.notify_all()
        thread = self._calling
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def finish(self) -> None:
        """Accept no more items; those that wait are still delivered. Does not wait."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the last callback has returned; call `finish` or `close` first."""
        thread = self._calling
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _notify(self) -> None:
        if self.is_inline:
            return
        if self._calling is None:
            self._calling = threading.Thread(target=self._run_thread, name=self.name, daemon=True)
            self._calling.start()
        self._changed.notify()

    def _take(self) -> Updates | MachineEvent | None:
        if not self._items:
            return None
        item = self._items.popleft()
        if isinstance(item, Updates):
            self.count -= item.count
            if self.is_full and self.count <= self._count_max // 2:
                self.is_full = False
                if self._resume is not None:
                    self._resume()
        return item

    def _run_thread(self) -> None:
        while True:
            with self._lock:
                while not self._items and not self._is_closed:
                    self._changed.wait()
                item = self._take()
            if item is None:
                return
            count = item.count if isinstance(item, Updates) else 0
            self._deliver(item)
            # This thread holds the interpreter lock, and the reading thread might wait for it for
            # Python's switch interval of five milliseconds; so this thread reads itself.
            if self._read is not None and count >= _READ_COUNT:
                self._read()

    def _deliver(self, item: Updates | MachineEvent) -> None:
        if isinstance(item, Updates):
            if self._on_batch is not None:
                self._guarded(self._on_batch, item.pairs())
            elif self._on_update is not None:
                self._deliver_each(item, self._on_update)
        elif self.on_event is not None:
            self._guarded(self.on_event, item)
        else:
            # Without a callback for events, lost updates are at least logged.
            log.warning("a subscriber does not keep up", extra={"event": repr(item)})

    def _deliver_each(self, updates: Updates, on_update: OnUpdate) -> None:
        while True:
            try:
                call_each(updates, on_update, self._routes, self.count)
            except Exception as error:  # an error of the application must not end the connection
                self._failed(on_update, error)
            else:
                return

    def _guarded(self, callback: Callable[[A], object], argument: A) -> None:
        try:
            callback(argument)
        except Exception as error:  # an error of the application must not end the connection
            self._failed(callback, error)

    def _failed(self, callback: object, error: Exception) -> None:
        self.error_count += 1
        log.error("a callback failed", extra={"callback": repr(callback)}, exc_info=error)

    def _overflow(self) -> None:
        if self._on_slow == "block":
            self.is_full = True
        elif self._on_slow == "disconnect":
            self.is_cut = True
            self._items.clear()
            self._items.append(SubscriberCut(update_count=self.count))
            self.dropped_count += self.count
            self.count = 0
        else:
            self._drop_oldest(self.count - self._count_max)

    def _drop_oldest(self, excess: int) -> None:
        self.count -= excess
        self.dropped_count += excess
        kept: list[Updates | MachineEvent] = []
        dropped = excess
        while excess > 0:
            item = self._items.popleft()
            if isinstance(item, UpdatesDropped):
                dropped += item.update_count
            elif not isinstance(item, Updates):
                kept.append(item)
            elif item.count > excess:
                item.drop_first(excess)
                self._items.appendleft(item)
                excess = 0
            else:
                excess -= item.count
        self._items.extendleft([UpdatesDropped(update_count=dropped), *reversed(kept)])
