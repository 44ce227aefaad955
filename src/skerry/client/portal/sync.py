"""Connections to a portal for programs with threads.

A thread of the connection reads, sends, and calls the callbacks one at a time. Callbacks may
publish and subscribe, but not wait for the connection.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from typing import Any

from skerry.client.io.loop_thread import LoopThread
from skerry.client.portal.portal_link import OnPortalEvent, PortalLink, config_of
from skerry.client.portal.publications import OnPublication
from skerry.closing import Closing
from skerry.errors import Disconnected
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.identifiers import Scheme
from skerry.protocol.portal.session_messages import SessionStatistics
from skerry.protocol.portal.subscriptions import PortalSubscription


def open_portal(
    name: str = "",
    *,
    config: PortalClientConfig | None = None,
    on_event: OnPortalEvent | None = None,
    **fields: Any,
) -> PortalConnection:
    """Connect to a portal; close it, or use it with `with`. Does not wait for the portal.

    `name` identifies the client to the portal, by default the name of the program. Parameters are
    those of `config`, or its defaults, replaced by `fields`, such as `platform="auv"`. Call `ready`
    once all subscriptions are made.
    """
    settings = config_of(config, name, fields)
    thread = LoopThread(f"portal {name}")

    async def made() -> PortalLink:
        return PortalLink(settings, on_event)

    try:
        link = thread.run(made())
    except BaseException:
        thread.end()
        raise
    return PortalConnection(link, thread)


class PortalConnection(Closing):
    """A connection to a portal. Any thread may use it."""

    def __init__(self, link: PortalLink, thread: LoopThread) -> None:
        """See `open_portal`."""
        self._link = link
        self._thread = thread
        # What was published before the end of the program is sent.
        atexit.register(self.close)

    @property
    def is_open(self) -> bool:
        """Whether publications are sent; they wait in a buffer otherwise."""
        return self._link.session.is_open

    @property
    def config(self) -> PortalClientConfig:
        """The parameters in use."""
        return self._link.config

    def publish(
        self,
        group: str,
        content: object,
        *,
        scheme: int | None = None,
        type_name: str | None = None,
    ) -> None:
        """Publish a text, a dictionary, a message of Protocol Buffers, or bytes with their scheme
        and type name.

        It waits in a buffer until the hold is released. If the buffer is full, the oldest
        publications are dropped. Raises LocalProtocolError for an invalid group or type.
        """
        frame = self._link.frame_of(group, content, scheme, type_name)
        if not self._thread.is_open:
            raise Disconnected("the connection to the portal is closed")
        if not self._link.publish_threadsafe(frame):
            self._thread.call(lambda: None)

    def subscribe(
        self,
        callback: OnPublication,
        group: str | None = None,
        scheme: int | None = None,
        type_name: str | None = None,
        process: int | None = None,
        thread: int | None = None,
    ) -> PortalSubscription:
        """Call back for each publication of a group, scheme, type, process and thread.

        Levels that are not given match everything, and a level needs the ones before it.
        """
        return self._thread.call(
            lambda: self._link.subscribe(callback, group, scheme, type_name, process, thread)
        )

    def subscribe_matching(
        self,
        callback: OnPublication,
        *,
        group: str = ".*",
        type_name: str = ".*",
        schemes: Iterable[int] = (Scheme.ALL,),
    ) -> PortalSubscription:
        """Call back for each publication whose group and type match regular expressions as a whole.

        This process then receives all that is published.
        """
        return self._thread.call(
            lambda: self._link.subscribe_matching(
                callback, group=group, type_name=type_name, schemes=schemes
            )
        )

    def unsubscribe(self, subscription: PortalSubscription) -> None:
        """End a subscription."""
        self._thread.call(lambda: self._link.unsubscribe(subscription))

    def ready(self) -> None:
        """All subscriptions are made that are needed before other programs may publish."""
        self._thread.call(self._link.set_ready)

    def wait_open(self, timeout: float | None = 10.0) -> None:
        """Wait until the hold is released. Raises RequestTimedOut."""
        self._thread.run(self._link.wait_open(timeout), timeout=timeout, what="the portal")

    def settle(self, timeout: float | None = 10.0) -> None:
        """Wait until the portal knows all subscriptions made until now. Raises RequestTimedOut."""
        self._thread.run(self._link.settle(timeout), timeout=timeout, what="the portal")

    def flush(self, timeout: float | None = 10.0) -> None:
        """Wait until all publications are handed to ZeroMQ. Raises RequestTimedOut."""
        self._thread.run(self._link.flush(timeout), timeout=timeout, what="the portal")

    def statistics(self) -> SessionStatistics:
        """Counters of this connection."""
        return self._link.statistics()

    def close(self, timeout: float = 1.0) -> None:
        """Send what waits, for up to `timeout` seconds, and close the connection."""
        atexit.unregister(self.close)
        if not self._thread.is_open:
            return
        try:
            self._thread.run(self._link.close(timeout))
        except Disconnected:
            # Another thread closes it.
            pass
        finally:
            self._thread.end()
