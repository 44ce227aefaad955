"""What waits for one publisher or subscriber, and who calls it.

Items come from whoever reads, in order: lists of updates, and events between them. They are taken
by a thread of the outlet, or at once by whoever reads. Updates are bounded; what happens at the
bound is the policy of the outlet.
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

__all__ = ["DeliveryQueue", "OnBatch", "OnEvent"]

A = TypeVar("A")

OnEvent = Callable[[MachineEvent], object]
OnBatch = Callable[[Pairs], object]

_READ_COUNT = 64
"""After a delivery of at least so many updates there probably is more to read."""

log = logging.getLogger(__name__)


class DeliveryQueue:
    """A queue with its callbacks."""

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
        """`read` lets the thread of the outlet look for more; `resume` is called after a pause."""
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
        # Quicker than `with`, for what is done with each delivery.
        self._acquire: Callable[[], object] = self._lock.acquire
        self._release: Callable[[], object] = self._lock.release
        self._changed = threading.Condition(self._lock)
        self._calling: threading.Thread | None = None
        self._is_closed = False
        self.is_full = False
        """Nothing more is to be read for now."""
        self.is_cut = False
        """It did not keep up, and gets nothing more."""
        self.count = 0
        """Updates that wait."""
        self.count_peak = 0
        self.dropped_count = 0
        self.error_count = 0
        """Callbacks that raised something."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._items

    # -- from whoever reads

    def put_updates(self, updates: Updates) -> None:
        """Updates, which belong to the outlet from now on."""
        self._acquire()
        try:
            if self._is_closed or self.is_cut:
                return
            self._items.append(updates)
            self.count += updates.count
            if self.count > self.count_peak:
                self.count_peak = self.count
            if self.is_inline:
                # What is delivered at once does not wait.
                return
            if self.count > self._count_max:
                self._overflow()
            self._notify()
        finally:
            self._release()

    def put_event(self, event: MachineEvent) -> None:
        """An event; none is ever dropped."""
        if self.on_event is None:
            return
        with self._lock:
            if not self._is_closed and not self.is_cut:
                self._items.append(event)
                self._notify()

    # -- to the application

    def run(self) -> None:
        """Deliver all that waits. Only ever called by one thread."""
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
        """Deliver nothing more; waits for a callback that is running, if that is another's."""
        with self._lock:
            self._is_closed = True
            self._items.clear()
            self.count = 0
            self._changed.notify_all()
        thread = self._calling
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def finish(self) -> None:
        """Deliver what waits, then nothing more; does not wait for it to be done."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the last callback has returned; call `finish` or `close` first."""
        thread = self._calling
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # -- inside

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
            # This thread has the interpreter and the reading one would have to wait for it, up to
            # the five milliseconds after which Python takes it away; so it reads by itself.
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
            # Nobody listens to events, and yet updates must not go missing in silence.
            log.warning("a subscriber does not keep up", extra={"event": repr(item)})

    def _deliver_each(self, updates: Updates, on_update: OnUpdate) -> None:
        while True:
            try:
                call_each(updates, on_update, self._routes, self.count)
            except Exception as error:  # a fault of the application must not end the connection
                self._failed(on_update, error)
            else:
                return

    def _guarded(self, callback: Callable[[A], object], argument: A) -> None:
        try:
            callback(argument)
        except Exception as error:  # a fault of the application must not end the connection
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
