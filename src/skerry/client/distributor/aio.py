"""The asyncio twin of the distributor: the same names, and all callbacks on the loop.

There is no thread. The loop reads when there is something to read, and callbacks are plain
functions that it calls, so they have to be as quick as any other callback of a loop. Publishing
never waits: where the bandwidth limit is used up, it raises WouldBlock, and `drain` waits.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Self

from skerry.client.distributor.config import Config, with_fields
from skerry.client.distributor.delivery_queue import OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.endpoints import PublisherEnd, SubscriberEnd
from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.client.distributor.group_driver import GroupDriver
from skerry.client.distributor.management import Management
from skerry.client.distributor.plain_outgoing import publish_for_this_build
from skerry.client.distributor.report import ConnectionStatistics
from skerry.errors import LocalProtocolError, WouldBlock
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.distributor.receiving.link_quality import Link
from skerry.protocol.distributor.sealing.seal import Seal
from skerry.runtime.clock import monotonic_ns

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

_SLEEP_S_MAX: Final = 1.0


async def open(  # noqa: A001 - its public name
    group: str, *, config: Config | None = None, seal: Seal | None = None, **fields: Any
) -> AsyncGroupConnection:
    """Join a group, `239.192.7.1:4711` or `[ff15::7:1]:4711`; use it with `async with`.

    Parameters are those of `config`, or its defaults, replaced by what is given by name.
    """
    return AsyncGroupConnection(group, with_fields(config, fields), seal=seal)


class AsyncPublisher(PublisherEnd):
    """Publishes updates to the group."""

    def __init__(self, junction: GroupDriver, on_event: OnEvent | None) -> None:
        super().__init__(junction, on_event, "inline")
        self._publish = publish_for_this_build(junction)

    def publish(self, subject: str, data: bytes) -> None:
        """Send an update, at once or with others in one datagram.

        WouldBlock while too many wait for bandwidth; `drain` waits until they are sent.
        """
        junction = self._junction
        if self.is_closed:
            raise LocalProtocolError(
                f"the publisher is closed; nothing is published under {subject}"
            )
        if junction.is_waiting and len(junction.pending) >= 2 * DISTRIBUTOR_WAITING_COUNT_MAX:
            raise WouldBlock("the bandwidth is used up; wait for `drain`")
        self._publish(subject, data)

    async def drain(self) -> None:
        """Wait until nothing waits for bandwidth."""
        while self._junction.is_waiting:
            ready_ns = self._junction.ready_ns()
            await asyncio.sleep(max((ready_ns - monotonic_ns()) / 1e9, 0.001))
            self._junction.drain()

    def flush(self) -> None:
        """Send what is held back."""
        self._junction.flush()


class AsyncSubscriber(SubscriberEnd):
    """Is told of updates that its patterns select, by its callbacks."""


class AsyncGroupConnection:
    """A group that was joined, on the loop that is running."""

    def __init__(self, group: str, config: Config, *, seal: Seal | None = None) -> None:
        """See `open`."""
        self._loop = asyncio.get_running_loop()
        self._junction = junction = GroupDriver(group, config, seal=seal, may_wait=False)
        try:
            self._management = Management(junction)
        except BaseException:
            junction.end()
            raise
        self._timer: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()
        self._is_turn_coming = False
        junction.wake = self._wake
        self._loop.add_reader(junction.socket.fileno(), self._turn)
        self._turn()

    @property
    def group(self) -> str:
        """The address of the group."""
        return self._junction.group.host

    @property
    def port(self) -> int:
        """Its port."""
        return self._junction.group.port

    @property
    def config(self) -> Config:
        """The parameters in use, with what was fitted to this computer."""
        return self._junction.fitted_config

    @property
    def management_port(self) -> int:
        """The port of the page with statistics; 0 if there is none."""
        return self._management.page_port

    def publisher(self, on_event: OnEvent | None = None) -> AsyncPublisher:
        """One who publishes; the group is told of it."""
        return AsyncPublisher(self._junction, on_event)

    def subscriber(
        self,
        on_update: OnUpdate | None = None,
        on_event: OnEvent | None = None,
        *,
        on_batch: OnBatch | None = None,
    ) -> AsyncSubscriber:
        """One who is told of updates, once it has added a subscription.

        `on_update(subject, data, tag, queue_length)` is called for each update, or `on_batch` with
        a list of (subject, data).
        """
        return AsyncSubscriber(
            self._junction,
            on_update=on_update,
            on_event=on_event,
            on_batch=on_batch,
            delivery="inline",
            on_slow="block",
            read=None,
        )

    def tap(self, taker: OnEvent) -> None:
        """Take all there is as the protocol tells it: `Delivered` with the sender and the numbers
        of the datagrams, losses, and who comes and goes. For recorders; it has to be quick.
        """
        self._junction.tap(taker)

    def take_links(self) -> list[Link]:
        """What became of the datagrams of each sender since the last call, where any came: how many
        were asked for, came then, and were lost. For recorders.
        """
        return self._junction.take_links()

    def statistics(self) -> ConnectionStatistics:
        """Counters, rates and queues."""
        return self._management.reporter.statistics()

    def senders(self) -> list[SenderInfo]:
        """The senders of the group that announced themselves, this one included."""
        return list(self.statistics().senders)

    def flush(self) -> None:
        """Send what is held back."""
        self._junction.flush()

    async def close(self, *, linger: bool = True) -> None:
        """Leave the group. What was published is sent, and one who published stays for a moment to
        send again what others lost; without `linger` it does not.
        """
        self._junction.close()
        if not linger:
            self._end()
        # Several may wait for it, and one that is cancelled must not cancel it for the others.
        await asyncio.shield(self._closed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(linger=error is None)

    # -- on the loop

    def _wake(self) -> None:
        # Not at once: whoever wakes is in the middle of something.
        if not self._is_turn_coming and not self._closed.done():
            self._is_turn_coming = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_coming = False
        if self._closed.done():
            return
        junction, management = self._junction, self._management
        now_ns = junction.hear()
        junction.run_inline()
        if junction.is_due(now_ns):
            junction.settle()
            junction.run_inline()
        if now_ns >= management.due_ns:
            management.advance(now_ns)
        if junction.is_over:
            self._end()
            return
        if self._timer is not None:
            self._timer.cancel()
        due_ns = min(junction.deadline_ns, management.due_ns)
        sleep_s = min(max((due_ns - now_ns) / 1e9, 0.0), _SLEEP_S_MAX)
        self._timer = self._loop.call_later(sleep_s, self._turn)

    def _end(self) -> None:
        if self._closed.done():
            return
        self._loop.remove_reader(self._junction.socket.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._junction.run_inline()
        self._junction.end()
        self._management.close()
        self._closed.set_result(None)


# The names under which `skerry.aio.distributor` exports them, as `skerry.distributor` does.
Connection = AsyncGroupConnection
Publisher = AsyncPublisher
Subscriber = AsyncSubscriber
