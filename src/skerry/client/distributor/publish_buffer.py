"""Publishing to a group: updates on their way from publishers to the machine.

A hot module. Any thread may publish, and most updates need no lock: while the machine holds a
datagram back, an update is written into that datagram. This is safe because compiled code is not
interrupted by other threads here. Uncompiled code can be interrupted, so it takes the lock for each
update.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from librt.strings import write_i32_be
from mypy_extensions import i32, i64

from skerry.errors import LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_BATCH_BYTES
from skerry.protocol.distributor.messages import UPDATE_HEADER_BYTES
from skerry.protocol.distributor.sending.packing import Packer
from skerry.runtime.udp.group_driver import GroupDriver

_IS_COMPILED: Final = not __file__.endswith((".py", ".pyc"))
_MS: Final = 1_000_000
_BACKLOG_NS: Final = 50_000_000
"""The longest sleep of a publisher before it checks again whether its update is sent."""


class PublishBuffer:
    def __init__(
        self,
        driver: GroupDriver,
        lock: threading.Lock,
        *,
        seal_bytes: int,
        holdback_delay_ms: int,
        may_wait: bool,
    ) -> None:
        """`seal_bytes` is what a seal adds to each datagram."""
        self.packer: Packer = driver.machine.packer
        """The open datagram."""
        self.checked: dict[str, bytes] = {}
        """The encoded heads of subjects that need no check; empty while there is no publisher."""
        # Between head and data of an update stands its length.
        self._overhead_bytes: int = UPDATE_HEADER_BYTES + seal_bytes + 4
        self.small_bytes_max: int = driver.machine.segment_bytes - self._overhead_bytes
        """Limit for head and data together; a larger update needs several datagrams."""
        self.last_subject: str | None = None
        """The last checked subject. Most updates repeat it, and to compare the reference is faster
        than to look it up."""
        self.last_head: bytes = b""
        self.pending: list[bytes] = []
        """Updates that wait for bandwidth: head with length, and data of each."""
        self.is_waiting = False
        self.is_closing = False
        self.publisher_count = 0
        self.deadline_ns = 0
        """Until when the thread or loop that drives the connection sleeps."""
        self.wake: Callable[[], None] = lambda: None
        """Wakes that thread or loop; may be called by any thread, with the lock held."""
        self._driver = driver
        self._machine = driver.machine
        self._lock = lock
        self._acquire: Callable[[], object] = lock.acquire
        self._release: Callable[[], object] = lock.release
        self._may_wait = may_wait
        # A millisecond more, so that no wake-up is too early.
        self._holdback_ns = (holdback_delay_ms + 1) * _MS

    def publish(self, subject: str, data: bytes) -> None:
        """Publish an update. Waits while the bandwidth limit is used up, if waiting is allowed.

        Raises LocalProtocolError for an invalid subject, LimitExceeded for too much data.
        """
        if _IS_COMPILED and subject is self.last_subject and type(data) is bytes:
            # `put` of the packer, inlined.
            packer, last_head = self.packer, self.last_head
            body = packer.body
            size: i64 = len(last_head) + len(data)
            if packer.hold_until_ns > 0 and len(body) + size + 4 <= packer.room:
                body.write(last_head)
                write_i32_be(body, i32(len(data)))
                body.write(data)
                if packer.keeps_parts:
                    packer.parts.append(last_head)
                    packer.parts.append(data)
                packer.count += 1
                return
            if packer.hold_until_ns > 0 and packer.put_next(last_head, data):
                return
            if size <= self.small_bytes_max:
                self._publish_locked(last_head, data)
                return
        head = self.checked.get(subject)
        if head is None or type(data) is not bytes or len(head) + len(data) > self.small_bytes_max:
            self._publish_unchecked(subject, data)
            return
        if _IS_COMPILED:
            self.last_subject, self.last_head = subject, head
            packer = self.packer
            if packer.hold_until_ns > 0 and packer.has_room(head, data):
                packer.put(head, data)
                return
        self._publish_locked(head, data)

    def check_again(self, checked: dict[str, bytes]) -> None:
        """Check the subject of each update again, except for these subjects."""
        self.checked = checked
        self.last_subject = None

    def drain(self) -> None:
        """Hand pending updates to the machine. Waits for bandwidth, if waiting is allowed."""
        while True:
            with self._lock:
                now_ns = monotonic_ns()
                is_done = self.take_pending(now_ns)
                ready_ns = now_ns if is_done else self._machine.ready_ns(now_ns)
                self.send_if_due(now_ns)
            if is_done:
                return
            if not self._may_wait:
                # The thread or loop that drives the connection hands them over.
                self.wake()
                return
            self._wait_until(ready_ns)

    def flush(self) -> None:
        """Send updates that are held back."""
        if not self.pending and not self.packer.count and not self._machine.has_ready:
            return
        self.drain()
        with self._lock:
            self._machine.flush(monotonic_ns())
            self._driver.send_ready()

    def ready_ns(self) -> int:
        """When there is bandwidth again."""
        with self._lock:
            return self._machine.ready_ns(monotonic_ns())

    # -- with the lock held

    def check_open(self) -> None:
        """LocalProtocolError if the connection is closed."""
        if self.is_closing:
            raise LocalProtocolError("the connection is closed")

    def take_pending(self, now_ns: int) -> bool:
        """Hand pending updates to the machine. False if some have to wait for bandwidth."""
        count = len(self.pending)
        if not count:
            self.is_waiting = False
            return True
        if not self.publisher_count:
            # Published while the last publisher was closed.
            del self.pending[:count]
            return True
        taken = self._machine.publish_pieces(self.pending, now_ns)
        del self.pending[:taken]
        self.is_waiting = taken < count
        return not self.is_waiting

    def send_if_due(self, now_ns: int) -> None:
        """Send datagrams that need not wait, and wake the driving thread for those that do."""
        machine = self._machine
        if not machine.may_send_later(DISTRIBUTOR_BATCH_BYTES):
            self._driver.send_ready()
        if machine.is_holding and self.deadline_ns > now_ns + self._holdback_ns:
            self.wake()

    def fit_segments(self) -> None:
        """Use the size of datagrams that the machine has chosen."""
        self.small_bytes_max = self._machine.segment_bytes - self._overhead_bytes

    def _publish_unchecked(self, subject: str, data: bytes) -> None:
        """Publish an update that is large, or whose subject is new."""
        if type(data) is not bytes:
            raise TypeError(f"data to publish must be bytes, not {type(data).__name__}")
        while True:
            with self._lock:
                self.check_open()
                now_ns = monotonic_ns()
                is_done = self.take_pending(now_ns)
                if is_done:
                    try:
                        self._machine.publish(subject, data, now_ns)
                    except WouldBlock:
                        is_done = False
                ready_ns = self._machine.ready_ns(now_ns)
                self.send_if_due(now_ns)
            if is_done:
                break
            self._wait_until(ready_ns)
        if len(data) > self.small_bytes_max:
            self._send_backlog()

    def _publish_locked(self, head: bytes, data: bytes) -> None:
        """Publish an update for which the held datagram has no room, or that need not wait."""
        self._acquire()
        try:
            now_ns = monotonic_ns()
            is_done = not self.pending
            if is_done:
                try:
                    self.packer.publish_cut(head, data, now_ns)
                except WouldBlock:
                    is_done = False
            if is_done:
                self.send_if_due(now_ns)
            else:
                self.pending.extend((head + len(data).to_bytes(4, "big"), data))
        finally:
            self._release()
        if not is_done:
            self.drain()

    def _send_backlog(self) -> None:
        """Send the rest of a large update, or leave it to the driving thread."""
        # There may be events to report.
        self.wake()
        while self._may_wait and self._machine.has_backlog and not self._driver.is_closed:
            with self._lock:
                now_ns = monotonic_ns()
                self._machine.advance(now_ns)
                self._driver.send_ready()
                due_ns = self._machine.deadline_ns() or now_ns
            _pause(min(due_ns - monotonic_ns(), _BACKLOG_NS) / 1e9)

    def _wait_until(self, ready_ns: int) -> None:
        if not self._may_wait:
            raise WouldBlock("the bandwidth is used up; wait for `drain`")
        _pause((ready_ns - monotonic_ns()) / 1e9)


def _pause(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)
