"""The parts that connections, publishers and subscribers share, blocking and asyncio alike."""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr

from skerry.client.distributor.config import Config, Delivery, OnSlow
from skerry.client.distributor.delivery_queue import DeliveryQueue, OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.group_session import GroupSession
from skerry.client.distributor.management import Management
from skerry.client.distributor.report import ConnectionStatistics
from skerry.client.distributor.router import SubscriberRoutes
from skerry.closing import Closing
from skerry.errors import LocalProtocolError
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.sealing.seal import Seal


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupConnectionBase:
    """A connection to a multicast group."""

    def __init__(self, group: str, config: Config, seal: Seal | None, may_wait: bool) -> None:
        self._session = GroupSession(group, config, seal=seal, may_wait=may_wait)
        try:
            self._management = Management(self._session)
        except BaseException:
            self._session.end()
            raise

    @property
    def group(self) -> str:
        """The address of the group."""
        return self._session.group.host

    @property
    def port(self) -> int:
        """The port of the group."""
        return self._session.group.port

    @property
    def config(self) -> Config:
        """The parameters in use, including those that were chosen for this computer."""
        return self._session.fitted_config

    @property
    def management_port(self) -> int:
        """The port of the page with statistics; 0 if there is none."""
        return self._management.page_port

    def statistics(self) -> ConnectionStatistics:
        """Counters, rates and queues."""
        return self._management.reporter.statistics()

    def senders(self) -> list[SenderInfo]:
        """The senders of the group that have announced themselves, including this one."""
        return list(self.statistics().senders)

    def flush(self) -> None:
        """Send updates that are held back."""
        self._session.publishing.flush()


@mypyc_attr(allow_interpreted_subclasses=True)
class PublisherBase(Closing):
    def __init__(self, session: GroupSession, on_event: OnEvent | None, delivery: Delivery) -> None:
        self._session = session
        self._queue = DeliveryQueue(
            name=f"{session.name} publisher", on_event=on_event, delivery=delivery
        )
        session.open_publisher(self._queue)
        self.is_closed = False

    def flush(self) -> None:
        """Send updates that are held back."""
        self._session.publishing.flush()

    def close(self) -> None:
        """Stop publishing. After the last publisher, the connection announces its departure."""
        if not self.is_closed:
            self.is_closed = True
            self._session.close_publisher(self._queue)
            self._queue.close()


@mypyc_attr(allow_interpreted_subclasses=True)
class SubscriberBase(Closing):
    def __init__(
        self,
        session: GroupSession,
        on_update: OnUpdate | None,
        on_event: OnEvent | None,
        on_batch: OnBatch | None,
        delivery: Delivery,
        on_slow: OnSlow,
        read: Callable[[], None] | None,
    ) -> None:
        if (on_update is None) == (on_batch is None):
            raise LocalProtocolError("a subscriber has either on_update or on_batch")
        self._session = session
        self._routes = SubscriberRoutes(session.router)
        self._queue = DeliveryQueue(
            name=f"{session.name} subscriber",
            on_event=on_event,
            on_update=on_update,
            on_batch=on_batch,
            routes=self._routes,
            delivery=delivery,
            on_slow=on_slow,
            count_max=session.config.delivery_queue_count_max,
            read=read,
            resume=session.wake,
        )
        session.open_subscriber(self._routes, self._queue)

    @property
    def queue_length(self) -> int:
        """The number of updates that wait to be delivered."""
        return self._queue.count

    def add(self, pattern: str, tag: object = None) -> int:
        """Subscribe to what a pattern selects, from now on. Returns a handle for `remove`.

        In a pattern, the level `*` matches any one level, and `...` at its end all remaining
        levels. The callback receives the tag with each update. An update that several
        subscriptions select is delivered for each of them, but only once in a batch.
        """
        return self._session.subscribe(self._routes, pattern, tag)

    def remove(self, handle: int) -> None:
        """Undo an `add`. Updates that wait for this subscription alone are not delivered."""
        self._session.unsubscribe(self._routes, handle)

    def close(self) -> None:
        """End the delivery. Waits for a callback that runs on another thread."""
        self._session.close_subscriber(self._routes)
        self._queue.close()
