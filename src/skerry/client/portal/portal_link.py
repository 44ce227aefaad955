"""A connection to a portal on a running loop: its machine, its sockets, and those who wait for it.

Callbacks run on the loop, one at a time. One that raises is logged, and does not affect others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from random import SystemRandom
from typing import Final

from skerry.client.portal.publications import OnPublication, PortalPublication, encode_content
from skerry.errors import ConnectFailed, Disconnected, RequestTimedOut
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.identifiers import Scheme, prefix, publication_head
from skerry.protocol.portal.session import PortalSession
from skerry.protocol.portal.session_messages import PublicationsDropped, SessionStatistics
from skerry.protocol.portal.subscriptions import (
    EVERYTHING,
    PortalMatch,
    PortalSubscription,
    make_expression,
)
from skerry.runtime.clock import monotonic_ns

try:
    from skerry.runtime.portal.client_driver import PortalClientDriver
except ImportError as _error:  # pragma: no cover - the package is installed in all tests
    _missing = ConnectFailed(f"portals need a package that is not installed: {_error.name}")
    _missing.hint = "install skerry[portal]"
    raise _missing from _error

OnPortalEvent = Callable[[MachineEvent], object]

_HEAD_COUNT_MAX: Final = 1000
"""Beginnings of frames that are remembered, one for each group and type that is published."""

_INBOX_COUNT_MAX: Final = 1000
"""Publications of other threads above which these wait for the loop, which would fall behind."""

log = logging.getLogger(__name__)


class PortalLink:
    """A connection until `close`. Made on its loop; methods are called there unless they say so."""

    def __init__(
        self,
        config: PortalClientConfig,
        on_event: OnPortalEvent | None,
        *,
        thread: int | None = None,
    ) -> None:
        """`thread` is the thread id of its publications; None for a random one."""
        name = config.client_name or PurePath(sys.argv[0] if sys.argv else "").stem or "skerry"
        self.config = replace(config, client_name=name)
        self._on_event = on_event
        rng = SystemRandom()
        self.session = PortalSession(
            self.config,
            process=os.getpid(),
            # Any number that no other connection has.
            thread=rng.getrandbits(64) if thread is None else thread,
            rng=rng,
            now_ns=monotonic_ns(),
        )
        self._heads: dict[tuple[str, int, str], bytes] = {}
        self._changed = asyncio.Event()
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._is_waking = False
        self._inbox: deque[bytes] = deque()
        """Publications of other threads."""
        self._driver = PortalClientDriver(
            self.session, self.config, on_frame=self._deliver, on_events=self._report
        )

    # -- from any thread

    def frame_of(
        self, group: str, content: object, scheme: int | None, type_name: str | None
    ) -> bytes:
        """The frame of a publication. Raises LocalProtocolError, LimitExceeded or EncodeError."""
        number, name, payload = encode_content(content, scheme, type_name)
        key = (group, number, name)
        head = self._heads.get(key)
        if head is None:
            head = publication_head(self.session.identifier(group, number, name))
            if len(self._heads) >= _HEAD_COUNT_MAX:
                self._heads.clear()
            self._heads[key] = head
        return head + payload

    def publish_threadsafe(self, frame: bytes) -> bool:
        """Publish a frame of `frame_of` soon. Returns whether the loop keeps up; if not, the caller
        has to wait for it."""
        if self._is_closed:
            raise Disconnected("the connection to the portal is closed")
        self._inbox.append(frame)
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._woken)
        return len(self._inbox) < _INBOX_COUNT_MAX

    # -- on the loop

    def publish(self, frame: bytes) -> None:
        """Publish a frame of `frame_of`."""
        if self._is_closed:
            raise Disconnected("the connection to the portal is closed")
        self.session.publish(frame)
        self._driver.wake()

    def subscribe(
        self,
        callback: OnPublication,
        group: str | None,
        scheme: int | None,
        type_name: str | None,
        process: int | None,
        thread: int | None,
    ) -> PortalSubscription:
        text = prefix(group, scheme, type_name, process, thread)
        return self._subscribe(PortalSubscription(text, callback))

    def subscribe_matching(
        self,
        callback: OnPublication,
        *,
        group: str = ".*",
        type_name: str = ".*",
        schemes: Iterable[int] = (Scheme.ALL,),
    ) -> PortalSubscription:
        expression = make_expression(schemes=schemes, type_name=type_name, group=group)
        return self._subscribe(PortalSubscription(EVERYTHING, callback, expression))

    def unsubscribe(self, subscription: PortalSubscription) -> None:
        self.session.unsubscribe(subscription)
        self._driver.wake()

    def set_ready(self) -> None:
        self.session.set_ready()
        self._driver.wake()

    async def wait_open(self, timeout: float | None) -> None:
        """Wait until publications are sent. Raises RequestTimedOut."""
        await self._wait_until(lambda: self.session.is_open, timeout, "the release of the hold")

    async def settle(self, timeout: float | None) -> None:
        """Wait until the router knows the subscriptions. Raises RequestTimedOut."""
        number = self.session.settle()
        self._driver.wake()
        await self._wait_until(lambda: self.session.settled_number >= number, timeout, "the router")

    async def flush(self, timeout: float | None) -> None:
        """Wait until ZeroMQ has taken all publications. Raises RequestTimedOut."""
        await self._wait_until(
            lambda: not self.session.waiting_count, timeout, "publications to be sent", poll_s=0.01
        )

    def statistics(self) -> SessionStatistics:
        return self.session.statistics()

    async def close(self, timeout: float) -> None:
        """Send what waits, for up to `timeout` seconds, and close the connection."""
        if self._is_closed:
            return
        started = self._loop.time()
        if self.session.is_open:
            try:
                await self.flush(timeout)
            except RequestTimedOut as error:
                log.warning("publications were not sent", extra={"reason": str(error)})
        self._is_closed = True
        self._changed.set()
        await self._driver.close(max(0.0, timeout - (self._loop.time() - started)))

    # -- inside

    def _woken(self) -> None:
        # Before the frames are taken: one that is added from now on wakes the loop again.
        self._is_waking = False
        inbox = self._inbox
        while inbox:
            self.session.publish(inbox.popleft())
        if not self._is_closed:
            self._driver.wake()

    def _subscribe(self, subscription: PortalSubscription) -> PortalSubscription:
        self.session.subscribe(subscription)
        self._driver.wake()
        return subscription

    async def _wait_until(
        self, is_true: Callable[[], bool], timeout: float | None, what: str, poll_s: float = 0.0
    ) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not is_true():
                    if self._is_closed:
                        raise Disconnected("the connection to the portal is closed")
                    if poll_s:
                        await asyncio.sleep(poll_s)
                    else:
                        self._changed.clear()
                        await self._changed.wait()
        except TimeoutError:
            state = self.session.state
            raise RequestTimedOut(
                f"timed out after {timeout} s waiting for {what} of the portal at"
                f" {self.config.manager} (state {state.name}: {state.value})"
            ) from None

    def _deliver(self, match: PortalMatch, frame: bytes, start: int) -> None:
        publication = PortalPublication(match.identifier, frame[start:])
        for target in match.targets:
            if not callable(target):
                # Of the machine itself.
                continue
            try:
                target(publication)
            except Exception:  # the callback belongs to the program
                log.exception(
                    "a callback of a portal client failed", extra={"group": publication.group}
                )

    def _report(self, events: Sequence[MachineEvent]) -> None:
        self._changed.set()
        for event in events:
            if isinstance(event, PublicationsDropped):
                log.warning(
                    "too many publications wait; the oldest are dropped",
                    extra={"waiting_count": event.waiting_count},
                )
            if self._on_event is not None:
                try:
                    self._on_event(event)
                except Exception:  # the callback belongs to the program
                    log.exception("a callback for events of a portal client failed")


def config_of(
    config: PortalClientConfig | None, name: str, fields: Mapping[str, object]
) -> PortalClientConfig:
    """`config`, or its defaults, with some fields replaced."""
    changed = replace(config or PortalClientConfig(), **fields)  # type: ignore[arg-type]
    return replace(changed, client_name=name) if name else changed
