"""Publishers and subscribers as the application has them, in threads and in asyncio alike."""

from __future__ import annotations

from collections.abc import Callable

from skerry.client.distributor.config import Delivery, OnSlow
from skerry.client.distributor.delivery_queue import DeliveryQueue, OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.group_driver import GroupDriver
from skerry.client.distributor.router import SubscriberRoutes
from skerry.closing import Closing
from skerry.errors import LocalProtocolError

__all__ = ["PublisherEnd", "SubscriberEnd"]


class PublisherEnd(Closing):
    """What publishers have in common."""

    def __init__(self, junction: GroupDriver, on_event: OnEvent | None, delivery: Delivery) -> None:
        self._junction = junction
        self._outlet = DeliveryQueue(
            name=f"{junction.name} publisher", on_event=on_event, delivery=delivery
        )
        junction.open_publisher(self._outlet)
        self.is_closed = False

    def close(self) -> None:
        """Publish nothing more. After the last publisher the group is told goodbye."""
        if not self.is_closed:
            self.is_closed = True
            self._junction.close_publisher(self._outlet)
            self._outlet.close()


class SubscriberEnd(Closing):
    """What subscribers have in common."""

    def __init__(
        self,
        junction: GroupDriver,
        *,
        on_update: OnUpdate | None,
        on_event: OnEvent | None,
        on_batch: OnBatch | None,
        delivery: Delivery,
        on_slow: OnSlow,
        read: Callable[[], None] | None,
    ) -> None:
        if (on_update is None) == (on_batch is None):
            raise LocalProtocolError("a subscriber has either on_update or on_batch")
        self._junction = junction
        self._routes = SubscriberRoutes(junction.router)
        self._outlet = DeliveryQueue(
            name=f"{junction.name} subscriber",
            on_event=on_event,
            on_update=on_update,
            on_batch=on_batch,
            routes=self._routes,
            delivery=delivery,
            on_slow=on_slow,
            count_max=junction.config.delivery_queue_count_max,
            read=read,
            resume=junction.wake_up,
        )
        junction.open_subscriber(self._routes, self._outlet)

    @property
    def queue_length(self) -> int:
        """Updates that wait to be delivered."""
        return self._outlet.count

    def add(self, pattern: str, tag: object = None) -> int:
        """Subscribe to what a pattern selects, from now on; gives a handle for `remove`.

        In a pattern, the level `*` stands for any one level, and `...` at its end for all the rest.
        The callback gets the tag with each update. An update that several subscriptions select is
        delivered for each of them; in a batch it stands once.
        """
        return self._junction.subscribe(self._routes, pattern, tag)

    def remove(self, handle: int) -> None:
        """Undo an `add`. Updates that wait for this subscription alone are not delivered."""
        self._junction.unsubscribe(self._routes, handle)

    def close(self) -> None:
        """Be told nothing more; waits for a callback that runs on another thread."""
        self._junction.close_subscriber(self._routes)
        self._outlet.close()
