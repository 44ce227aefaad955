"""Status objects: what a node publishes about itself and its clients.

DotsClient is published on every change of a client's state. It is removed some time after the
client disconnected, when no cached object refers to the client any more. The other objects are for
monitors: which types each client publishes and joins, the counters of the node and of each client,
the ledger. With many clients that takes long, so it is done in slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from skerry.engine.clients import Client
from skerry.engine.dispatch.cache import Cache
from skerry.engine.types.type_table import SPECIAL_TYPES
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.deadlines import earliest
from skerry.protocol.patterns import overlaps

_REMOVAL_INTERVAL_NS: Final = 10_000_000_000
"""The interval at which DotsClient of disconnected clients is removed."""
_STATUS_INTERVAL_NS: Final = 1_000_000_000
_LEDGER_INTERVAL_NS: Final = 1_000_000_000
_STATISTICS_INTERVAL_NS: Final = 5_000_000_000
_CLOSED_TAG: Final = 5
_WORK_PER_OBJECT: Final = 15
"""Work units for publishing an object of the node."""
_NAMES_PER_WORK_UNIT: Final = 5

_COUNTERS: Final = "DotsClientStatistics"

_Publish = Callable[[Struct, int, bool], None]
"""Publishes an object as the node at a time, or removes it."""


class StatusObjects:
    """Publishes the node's own objects; with `is_plain` only those that DOTS hosts publish."""

    def __init__(self, cache: Cache, publish: _Publish, *, name: str, is_plain: bool) -> None:
        self._cache = cache
        self._publish = publish
        self._name = name
        self._is_plain = is_plain
        self._closed: dict[int, Struct] = {}
        """DotsClient of disconnected clients that cached objects still refer to."""
        self._counted: dict[int, tuple[int, ...]] = {}
        """The last published counters of each client."""
        self._removal_due_ns: int | None = None
        self._status_due_ns: int | None = None
        self._statistics_due_ns: int | None = None
        self._ledger_due_ns: int | None = None
        self._now_ns = 0
        self._work: deque[Iterator[int]] = deque()
        """Due work, in steps; each returns the work units that it took."""
        self.usage: Mapping[str, float] = {}
        """Fields of DotsResourceUsage; empty if they are not known."""

    def publish_state(self, client: Client, now_ns: int) -> None:
        """Publish the state of a client after it changed."""
        states = internal_class("DotsConnectionState")
        obj = internal_class("DotsClient")(
            id=client.client_id,
            name=client.name,
            connectionState=states.of_tag(client.connection.stage.value),
        )
        self._publish(obj, now_ns, False)
        if client.connection.stage.value == _CLOSED_TAG:
            self._closed[client.client_id] = obj
            if self._removal_due_ns is None:
                self._removal_due_ns = now_ns + _REMOVAL_INTERVAL_NS

    def note_activity(self, now_ns: int) -> None:
        """Note that counters changed, so that they are published when they are due."""
        if self._is_plain:
            return
        if self._status_due_ns is None:
            self._status_due_ns = now_ns + _STATUS_INTERVAL_NS
        if self._statistics_due_ns is None:
            self._statistics_due_ns = now_ns + _STATISTICS_INTERVAL_NS

    def watch_ledger(self, now_ns: int) -> None:
        """Publish the ledger from now on, as long as it has subscribers."""
        if not self._is_plain and self._ledger_due_ns is None:
            self._ledger_due_ns = now_ns + _LEDGER_INTERVAL_NS

    def deadline_ns(self) -> int | None:
        """When to call `advance`; at once while due work is left."""
        if self._work:
            return self._now_ns
        return earliest(
            earliest(self._removal_due_ns, self._status_due_ns),
            earliest(self._statistics_due_ns, self._ledger_due_ns),
        )

    def advance(
        self,
        now_ns: int,
        clients: Iterable[Client],
        status: Callable[[], Mapping[str, Any]],
        ledger: Callable[[], Iterator[Struct] | None],
    ) -> None:
        """Do one slice of the due work.

        `status` returns the fields of the node's own status, and `ledger` the rows of the ledger,
        each made when it is published, or None if the ledger has no subscribers.
        """
        self._now_ns = now_ns
        if not self._work:
            self._begin_due(now_ns, clients, status, ledger)
        work_left = SELECT_SLICE_COUNT
        while self._work and work_left > 0:
            cost = next(self._work[0], None)
            if cost is None:
                self._work.popleft()
            else:
                work_left -= cost

    def _begin_due(
        self,
        now_ns: int,
        clients: Iterable[Client],
        status: Callable[[], Mapping[str, Any]],
        ledger: Callable[[], Iterator[Struct] | None],
    ) -> None:
        if self._removal_due_ns is not None and now_ns >= self._removal_due_ns:
            self._removal_due_ns = None
            self._work.append(self._remove_closed(now_ns))
        if self._status_due_ns is not None and now_ns >= self._status_due_ns:
            self._status_due_ns = None
            self._publish_status(now_ns, status())
            self._work.append(self._publish_all_types(list(clients), now_ns))
        if self._statistics_due_ns is not None and now_ns >= self._statistics_due_ns:
            self._statistics_due_ns = None
            self._work.append(self._publish_all_counters(list(clients), now_ns))
        if self._ledger_due_ns is not None and now_ns >= self._ledger_due_ns:
            rows = ledger()
            self._ledger_due_ns = None if rows is None else now_ns + _LEDGER_INTERVAL_NS
            if rows is not None:
                self._work.append(self._publish_rows(rows, now_ns))

    def _publish_all_types(self, clients: list[Client], now_ns: int) -> Iterator[int]:
        for client in clients:
            if self._publish_types(client, now_ns):
                name_count = (
                    len(client.queue.source.published)
                    + len(client.groups)
                    + len(client.filtered_subscriptions)
                )
                yield _WORK_PER_OBJECT + name_count // _NAMES_PER_WORK_UNIT
            else:
                yield 1

    def _publish_all_counters(self, clients: list[Client], now_ns: int) -> Iterator[int]:
        for client in clients:
            yield _WORK_PER_OBJECT if self._publish_counters(client, now_ns) else 1

    def _publish_rows(self, rows: Iterator[Struct], now_ns: int) -> Iterator[int]:
        for row in rows:
            self._publish(row, now_ns, False)
            yield _WORK_PER_OBJECT

    def _remove_closed(self, now_ns: int) -> Iterator[int]:
        """Remove DotsClient of closed clients that no cached object refers to."""
        for client_id, obj in list(self._closed.items()):
            yield 2
            if not self._cache.mentions(client_id):
                yield 2 * _WORK_PER_OBJECT
                del self._closed[client_id]
                self._publish(obj, now_ns, True)
                if self._counted.pop(client_id, None) is not None:
                    counters = internal_class(_COUNTERS)(clientId=client_id)
                    self._publish(counters, now_ns, True)
        if self._closed:
            self._removal_due_ns = now_ns + _REMOVAL_INTERVAL_NS

    def _publish_status(self, now_ns: int, fields: Mapping[str, Any]) -> None:
        statistics = internal_class("DotsStatistics")
        obj = internal_class("DotsDaemonStatus")(
            serverName=self._name,
            startTime=fields["started_s"],
            received=statistics(bytes=fields["received"][1], packages=fields["received"][0]),
            sent=statistics(bytes=fields["sent"][1], packages=fields["sent"][0]),
            cache=internal_class("DotsCacheStatus")(
                nrTypes=len(self._cache.type_names()), size=int(self._cache.object_count)
            ),
        )
        if self.usage:
            obj.resourceUsage = internal_class("DotsResourceUsage")(**self.usage)
        self._publish(obj, now_ns, False)

    def _publish_types(self, client: Client, now_ns: int) -> bool:
        """Publish which types a client publishes and joined, if that changed."""
        counts = (len(client.queue.source.published), client.subscription_change_count)
        if counts == client.published_counts or not client.is_in:
            return False
        client.published_counts = counts
        obj = internal_class("DotsClient")(
            id=client.client_id,
            publishedTypes=sorted(set(client.queue.source.published) - SPECIAL_TYPES),
            subscribedTypes=sorted(
                {*client.groups, *(name for name, _ in client.filtered_subscriptions)}
            ),
        )
        self._publish(obj, now_ns, False)
        return True

    def _publish_counters(self, client: Client, now_ns: int) -> bool:
        """Publish the counters of a client, if they changed."""
        queue = client.queue
        # What was sent to a client that receives counters is not compared: sending them would
        # change it each time.
        is_watcher = any(_selects_counters(group) for group in client.subscribed_groups())
        sent_count = 0 if is_watcher else int(queue.sent_count)
        sequence = int(queue.source.sequence)
        counted = (client.received_count, client.received_bytes, sequence, sent_count)
        if not client.is_in or self._counted.get(client.client_id) == counted:
            return False
        self._counted[client.client_id] = counted
        statistics = internal_class("DotsStatistics")
        obj = internal_class(_COUNTERS)(
            clientId=client.client_id,
            sent=statistics(bytes=int(queue.sent_bytes), packages=int(queue.sent_count)),
            received=statistics(bytes=client.received_bytes, packages=client.received_count),
            peakQueuedBytes=int(queue.size_peak),
            currentQueuedBytes=int(queue.size),
            overflowDisconnected=False,
        )
        self._publish(obj, now_ns, False)
        return True


def _selects_counters(group: str) -> bool:
    """Whether members of a group receive the counters of clients."""
    return group == _COUNTERS or (group.startswith("/") and overlaps(group, f"/{_COUNTERS}/*"))
