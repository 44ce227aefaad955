"""The asyncio twin of the distributor: the same names, and all callbacks on the loop.

There is no thread. The loop reads when the socket is readable. Callbacks are ordinary functions
that the loop calls, so they have to be as quick as any other callback of a loop. Publishing never
waits: when the bandwidth limit is used up, it raises WouldBlock, and `drain` waits.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Self

from skerry.client.distributor.config import Config, with_fields
from skerry.client.distributor.connection_base import (
    GroupConnectionBase,
    PublisherBase,
    SubscriberBase,
)
from skerry.client.distributor.delivery_queue import OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.client.distributor.group_session import GroupSession
from skerry.client.distributor.report import ConnectionStatistics
from skerry.errors import LocalProtocolError, WouldBlock
from skerry.protocol.distributor.receiving.link_quality import LinkReport
from skerry.protocol.sealing.seal import Seal
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.loop_turns import LoopTurns

__all__ = [
    "DISTRIBUTOR_WAITING_COUNT_MAX",
    "AsyncGroupConnection",
    "AsyncPublisher",
    "AsyncSubscriber",
    "Config",
    "Connection",
    "ConnectionStatistics",
    "Publisher",
    "Subscriber",
    "SubscriberCut",
    "UpdatesDropped",
    "open",
]

DISTRIBUTOR_WAITING_COUNT_MAX: Final = 10_000
"""Updates that wait for bandwidth where publishing cannot block. Beyond it publishing raises
WouldBlock."""

_SLEEP_NS_MAX: Final = 1_000_000_000


async def open(  # noqa: A001 - its public name
    group: str, *, config: Config | None = None, seal: Seal | None = None, **fields: Any
) -> AsyncGroupConnection:
    """Join a group, `239.192.7.1:4711` or `[ff15::7:1]:4711`; use it with `async with`.

    Parameters are those of `config`, or its defaults, replaced by `fields`.
    """
    return AsyncGroupConnection(group, with_fields(config, fields), seal=seal)


class AsyncPublisher(PublisherBase):
    """Publishes updates to the group."""

    def __init__(self, session: GroupSession, on_event: OnEvent | None) -> None:
        super().__init__(session, on_event, "inline")
        self._publishing = session.publishing

    def publish(self, subject: str, data: bytes) -> None:
        """Send an update, at once or with others in one datagram.

        Raises WouldBlock while too many wait for bandwidth; `drain` waits until they are sent.
        """
        publishing = self._publishing
        if self.is_closed:
            raise LocalProtocolError(
                f"the publisher is closed; nothing is published under {subject}"
            )
        if publishing.is_waiting and len(publishing.pending) >= 2 * DISTRIBUTOR_WAITING_COUNT_MAX:
            raise WouldBlock("the bandwidth is used up; wait for `drain`")
        publishing.publish(subject, data)

    async def drain(self) -> None:
        """Wait until no update waits for bandwidth."""
        while self._publishing.is_waiting:
            ready_ns = self._publishing.ready_ns()
            await asyncio.sleep(max((ready_ns - monotonic_ns()) / 1e9, 0.001))
            self._publishing.drain()


class AsyncSubscriber(SubscriberBase):
    """Receives the updates that its patterns select, by callbacks."""


class AsyncGroupConnection(GroupConnectionBase):
    """A connection to a multicast group, on the running loop."""

    def __init__(self, group: str, config: Config, *, seal: Seal | None = None) -> None:
        """See `open`."""
        loop = asyncio.get_running_loop()
        super().__init__(group, config, seal, False)
        self._closed = loop.create_future()
        self._turns = LoopTurns(self._turn)
        self._session.set_waker(self._wake)
        self._turns.add_reader(self._session.driver.socket.fileno(), self._turn)
        self._turn()

    def publisher(self, on_event: OnEvent | None = None) -> AsyncPublisher:
        """A new publisher, which is announced to the group."""
        return AsyncPublisher(self._session, on_event)

    def subscriber(
        self,
        on_update: OnUpdate | None = None,
        on_event: OnEvent | None = None,
        *,
        on_batch: OnBatch | None = None,
    ) -> AsyncSubscriber:
        """A new subscriber, which receives updates after it has added a subscription.

        `on_update(subject, data, tag, queue_length)` is called for each update, or `on_batch` with
        a list of (subject, data).
        """
        return AsyncSubscriber(
            self._session, on_update, on_event, on_batch, "inline", "block", None
        )

    def tap(self, taker: OnEvent) -> None:
        """Call `taker` with all events of the protocol: `Delivered` with the sender and the numbers
        of the datagrams, losses, and changes of the senders. For recorders; it has to be quick.
        """
        self._session.tap(taker)

    def take_links(self) -> list[LinkReport]:
        """The link quality of each sender since the last call, for senders with datagrams: how many
        datagrams were requested again, repaired and lost. For recorders.
        """
        return self._session.take_links()

    async def close(self, *, linger: bool = True) -> None:
        """Leave the group, after all updates are sent. A connection that has published waits for a
        moment to repair losses of receivers, unless `linger` is False.
        """
        self._session.close()
        if not linger:
            self._end()
        # Several callers may wait, and the cancellation of one must not affect the others.
        await asyncio.shield(self._closed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        await self.close(linger=error is None)

    # -- on the loop

    def _wake(self) -> None:
        if not self._closed.done():
            self._turns.wake()

    def _turn(self) -> None:
        self._turns.begin_turn()
        if self._closed.done():
            return
        session, management = self._session, self._management
        now_ns = session.receive()
        session.run_inline()
        if session.is_due(now_ns):
            session.settle()
            session.run_inline()
        if now_ns >= management.due_ns:
            management.advance(now_ns)
        if session.is_over:
            self._end()
            return
        due_ns = min(session.deadline_ns, management.due_ns, now_ns + _SLEEP_NS_MAX)
        self._turns.set_deadline(due_ns)

    def _end(self) -> None:
        if self._closed.done():
            return
        self._turns.close()
        self._session.run_inline()
        self._session.end()
        self._management.close()
        self._closed.set_result(None)


# The public names in `skerry.aio.distributor`, the same as in `skerry.distributor`.
Connection = AsyncGroupConnection
Publisher = AsyncPublisher
Subscriber = AsyncSubscriber
