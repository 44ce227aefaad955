"""Connections to a portal on an asyncio loop."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from skerry.client.portal.portal_link import OnPortalEvent, PortalLink, config_of
from skerry.client.portal.publications import OnPublication, PortalPublication
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.identifiers import Scheme
from skerry.protocol.portal.session_messages import SessionStatistics
from skerry.protocol.portal.subscriptions import PortalSubscription

__all__ = [
    "AsyncPortalConnection",
    "Connection",
    "PortalPublication",
    "PortalSubscription",
    "Scheme",
    "open",
]


async def open(  # noqa: A001 - its public name
    name: str = "",
    *,
    config: PortalClientConfig | None = None,
    on_event: OnPortalEvent | None = None,
    **fields: Any,
) -> AsyncPortalConnection:
    """Connect to a portal; use it with `async with`. Does not wait for the portal.

    `name` identifies the client to the portal, by default the name of the program. Parameters are
    those of `config`, or its defaults, replaced by `fields`, such as `platform="auv"`. Call `ready`
    once all subscriptions are made.
    """
    return AsyncPortalConnection(PortalLink(config_of(config, name, fields), on_event))


class AsyncPortalConnection:
    """A connection to a portal, on the running loop."""

    def __init__(self, link: PortalLink) -> None:
        """See `open`."""
        self._link = link

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
        self._link.publish(self._link.frame_of(group, content, scheme, type_name))

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
        return self._link.subscribe(callback, group, scheme, type_name, process, thread)

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
        return self._link.subscribe_matching(
            callback, group=group, type_name=type_name, schemes=schemes
        )

    def unsubscribe(self, subscription: PortalSubscription) -> None:
        """End a subscription."""
        self._link.unsubscribe(subscription)

    def ready(self) -> None:
        """All subscriptions are made that are needed before other programs may publish."""
        self._link.set_ready()

    async def wait_open(self, timeout: float | None = 10.0) -> None:
        """Wait until the hold is released. Raises RequestTimedOut."""
        await self._link.wait_open(timeout)

    async def settle(self, timeout: float | None = 10.0) -> None:
        """Wait until the portal knows all subscriptions made until now. Raises RequestTimedOut."""
        await self._link.settle(timeout)

    async def flush(self, timeout: float | None = 10.0) -> None:
        """Wait until all publications are handed to ZeroMQ. Raises RequestTimedOut."""
        await self._link.flush(timeout)

    def statistics(self) -> SessionStatistics:
        """Counters of this connection."""
        return self._link.statistics()

    async def close(self, timeout: float = 1.0) -> None:
        """Send what waits, for up to `timeout` seconds, and close the connection."""
        await self._link.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


# The public name in `skerry.aio.portal`, the same as in `skerry.portal`.
Connection = AsyncPortalConnection
