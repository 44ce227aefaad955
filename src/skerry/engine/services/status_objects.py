"""What a node publishes about itself and its clients.

DotsClient is told on every change of a client's state, and forgotten some time after the client is
gone and nothing of it is left. The rest is about how things go, and leaves out nothing that a
monitor wants: what each client publishes and joins, counters of the node and of each client. With
many clients that takes long, so it is done in slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from skerry.engine.clients import Client
from skerry.engine.dispatch.cache import Cache
from skerry.engine.types.node_types import SPECIAL_TYPES
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.deadlines import earliest

__all__ = ["StatusObjects"]

_REAP_GAP_NS: Final = 10_000_000_000
"""How often clients that are gone, and of which nothing is left, are forgotten."""
_STATUS_GAP_NS: Final = 1_000_000_000
_LEDGER_GAP_NS: Final = 1_000_000_000
_STATISTICS_GAP_NS: Final = 5_000_000_000
_CLOSED_TAG: Final = 5
_LOOKS_PER_OBJECT: Final = 15
"""Looks for publishing an object of the node."""
_NAMES_PER_LOOK: Final = 5

_Say = Callable[[Struct, int, bool], None]
"""Publish an object as the node, at a time; or its removal."""


class StatusObjects:
    """Keeps the node's own objects up to date; with `is_plain` no more than the real hosts do."""

    def __init__(self, cache: Cache, say: _Say, *, name: str, is_plain: bool) -> None:
        self._cache = cache
        self._say = say
        self._name = name
        self._is_plain = is_plain
        self._closed: dict[int, Struct] = {}
        """DotsClient of those that are gone, until nothing of them is left."""
        self._counted: dict[int, tuple[int, ...]] = {}
        """What was last told of each client's counters."""
        self._reap_due_ns: int | None = None
        self._status_due_ns: int | None = None
        self._statistics_due_ns: int | None = None
        self._ledger_due_ns: int | None = None
        self._now_ns = 0
        self._work: deque[Iterator[int]] = deque()
        """What is due and not done yet, in steps; each returns the looks that it took."""
        self.usage: Mapping[str, float] = {}
        """What the node uses of its computer, if somebody told: fields of DotsResourceUsage."""

    def tell_state(self, client: Client, now_ns: int) -> None:
        """A client's state changed."""
        states = internal_class("DotsConnectionState")
        obj = internal_class("DotsClient")(
            id=client.client_id,
            name=client.name,
            connectionState=states.of_tag(client.connection.stage.value),
        )
        self._say(obj, now_ns, False)
        if client.connection.stage.value == _CLOSED_TAG:
            self._closed[client.client_id] = obj
            if self._reap_due_ns is None:
                self._reap_due_ns = now_ns + _REAP_GAP_NS

    def note_activity(self, now_ns: int) -> None:
        """Something happened that the counters show."""
        if self._is_plain:
            return
        if self._status_due_ns is None:
            self._status_due_ns = now_ns + _STATUS_GAP_NS
        if self._statistics_due_ns is None:
            self._statistics_due_ns = now_ns + _STATISTICS_GAP_NS

    def watch_ledger(self, now_ns: int) -> None:
        """Somebody wants to see the ledger."""
        if not self._is_plain and self._ledger_due_ns is None:
            self._ledger_due_ns = now_ns + _LEDGER_GAP_NS

    def deadline_ns(self) -> int | None:
        """When there is something to do; at once while some of it is left."""
        if self._work:
            return self._now_ns
        return earliest(
            earliest(self._reap_due_ns, self._status_due_ns),
            earliest(self._statistics_due_ns, self._ledger_due_ns),
        )

    def advance(
        self,
        now_ns: int,
        clients: Iterable[Client],
        status: Callable[[], Mapping[str, Any]],
        ledger: Callable[[], Sequence[Struct]],
    ) -> None:
        """Do what is due, or a slice of it.

        `status` gives the fields of the node's own status, and `ledger` the rows of the ledger,
        none when nobody looks any more.
        """
        self._now_ns = now_ns
        if not self._work:
            self._begin_due(now_ns, clients, status, ledger)
        looks = SELECT_SLICE_COUNT
        while self._work and looks > 0:
            cost = next(self._work[0], None)
            if cost is None:
                self._work.popleft()
            else:
                looks -= cost

    def _begin_due(
        self,
        now_ns: int,
        clients: Iterable[Client],
        status: Callable[[], Mapping[str, Any]],
        ledger: Callable[[], Sequence[Struct]],
    ) -> None:
        if self._reap_due_ns is not None and now_ns >= self._reap_due_ns:
            self._reap_due_ns = None
            self._work.append(self._reap(now_ns))
        if self._status_due_ns is not None and now_ns >= self._status_due_ns:
            self._status_due_ns = None
            self._tell_status(now_ns, status())
            self._work.append(self._tell_all_types(list(clients), now_ns))
        if self._statistics_due_ns is not None and now_ns >= self._statistics_due_ns:
            self._statistics_due_ns = None
            self._work.append(self._tell_all_counters(list(clients), now_ns))
        if self._ledger_due_ns is not None and now_ns >= self._ledger_due_ns:
            rows = ledger()
            self._ledger_due_ns = now_ns + _LEDGER_GAP_NS if rows else None
            self._work.append(self._tell_rows(rows, now_ns))

    def _tell_all_types(self, clients: list[Client], now_ns: int) -> Iterator[int]:
        for client in clients:
            if self._tell_types(client, now_ns):
                name_count = (
                    len(client.queue.published)
                    + len(client.groups)
                    + len(client.filtered_subscriptions)
                )
                yield _LOOKS_PER_OBJECT + name_count // _NAMES_PER_LOOK
            else:
                yield 1

    def _tell_all_counters(self, clients: list[Client], now_ns: int) -> Iterator[int]:
        for client in clients:
            yield _LOOKS_PER_OBJECT if self._tell_counters(client, now_ns) else 1

    def _tell_rows(self, rows: Sequence[Struct], now_ns: int) -> Iterator[int]:
        for row in rows:
            self._say(row, now_ns, False)
            yield _LOOKS_PER_OBJECT

    def _reap(self, now_ns: int) -> Iterator[int]:
        """Remove closed clients that no object mentions; the others stay for later."""
        for client_id, obj in list(self._closed.items()):
            yield 2
            if not self._cache.mentions(client_id):
                yield 2 * _LOOKS_PER_OBJECT
                del self._closed[client_id]
                self._say(obj, now_ns, True)
                if self._counted.pop(client_id, None) is not None:
                    gone = internal_class("DotsClientStatistics")(clientId=client_id)
                    self._say(gone, now_ns, True)
        if self._closed:
            self._reap_due_ns = now_ns + _REAP_GAP_NS

    def _tell_status(self, now_ns: int, fields: Mapping[str, Any]) -> None:
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
        self._say(obj, now_ns, False)

    def _tell_types(self, client: Client, now_ns: int) -> bool:
        """Publish what a client publishes and subscribes to, if that changed."""
        told = (len(client.queue.published), client.interest_count)
        if told == client.told or not client.is_in:
            return False
        client.told = told
        obj = internal_class("DotsClient")(
            id=client.client_id,
            publishedTypes=sorted(set(client.queue.published) - SPECIAL_TYPES),
            subscribedTypes=sorted(
                {*client.groups, *(name for name, _ in client.filtered_subscriptions)}
            ),
        )
        self._say(obj, now_ns, False)
        return True

    def _tell_counters(self, client: Client, now_ns: int) -> bool:
        """Publish the counters of a client, if they changed."""
        lane = client.queue
        # What it hears about counters is no reason to tell of them again.
        counted = (client.received_count, client.received_bytes, int(lane.sequence))
        if not client.is_in or self._counted.get(client.client_id) == counted:
            return False
        self._counted[client.client_id] = counted
        statistics = internal_class("DotsStatistics")
        obj = internal_class("DotsClientStatistics")(
            clientId=client.client_id,
            sent=statistics(bytes=int(lane.sent_bytes), packages=int(lane.sent_count)),
            received=statistics(bytes=client.received_bytes, packages=client.received_count),
            peakQueuedBytes=int(lane.size_peak),
            currentQueuedBytes=int(lane.size),
            overflowDisconnected=False,
        )
        self._say(obj, now_ns, False)
        return True
