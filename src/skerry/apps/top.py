"""A node at work, as it tells itself: its clients, its types, their rates, and the ledger.

Everything comes over the space: DotsClient, DotsClientStatistics and DotsDaemonStatus, which other
hosts of DOTS have too, and SkerryLedger, which only our node tells.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skerry.client.api.sync import Space
from skerry.client.core.events import Event
from skerry.closing import Closing
from skerry.errors import RequestTimedOut

__all__ = ["ClientLine", "Counts", "NodeRates", "NodeSnapshot", "NodeWatch", "TypeLine"]

_OLD_S: Final = 3.5
"""A ledger row that was not told for so long is of somebody who is gone: it is told each second."""
_STILL_S: Final = 6.5
"""Counters that were not told for so long did not change: the slowest are told every five."""
_CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the updates that were due: one row of the ledger."""

    accepted: int = 0
    due: int = 0
    delivered: int = 0
    filtered: int = 0
    conflated: int = 0
    expired: int = 0
    refused: int = 0
    queued: int = 0
    unexplained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLine:
    """One client of the node."""

    id: int
    name: str
    state: str
    published_types: tuple[str, ...]
    subscribed_types: tuple[str, ...]
    in_per_s: float
    """Updates it published."""
    out_per_s: float
    """Updates it was told."""
    queued_bytes: int
    ledger: Counts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLine:
    """One type that the node knows."""

    name: str
    object_count: int
    member_count: int
    publishers: tuple[str, ...]
    in_per_s: float
    out_per_s: float
    ledger: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """A node at one instant. Without a ledger there are no types, and `unexplained` is None."""

    node: str
    state: str
    """Of our own connection to it."""
    uptime_s: float | None
    object_count: int | None
    received_per_s: float
    """Frames of all kinds, those of the protocol included."""
    sent_per_s: float
    memory_bytes_max: int | None
    cpu_s: float | None
    unexplained: int | None
    clients: tuple[ClientLine, ...]
    types: tuple[TypeLine, ...]


class NodeRates:
    """Changes per second of counters, from the last two times that each was told."""

    def __init__(self) -> None:
        self._told: dict[object, tuple[float, tuple[int, ...]]] = {}
        self._heard_s: dict[object, float] = {}
        self._rates: dict[object, tuple[float, ...]] = {}

    def note(self, name: object, *, sent_s: float, heard_s: float, counts: tuple[int, ...]) -> None:
        """Counters were told, at a time of the node's clock and at one of ours."""
        before = self._told.get(name)
        self._told[name] = sent_s, counts
        self._heard_s[name] = heard_s
        if before is not None and sent_s > before[0]:
            passed_s = sent_s - before[0]
            changes = zip(counts, before[1], strict=True)
            # A node that was started anew counts anew.
            self._rates[name] = tuple(max(new - old, 0) / passed_s for new, old in changes)

    def at(self, name: object, now_s: float) -> tuple[float, float]:
        """The rates of the first two; 0 of what was not told lately."""
        rates = self._rates.get(name)
        if rates is None or now_s - self._heard_s[name] > _STILL_S:
            return 0.0, 0.0
        return rates[0], rates[1]

    def forget(self, name: object) -> None:
        """It is gone."""
        self._told.pop(name, None)
        self._heard_s.pop(name, None)
        self._rates.pop(name, None)


class NodeWatch(Closing):
    """Follows what a node tells about itself, over a space that it does not close."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._rates = NodeRates()
        self._lock = threading.Lock()
        self._ledger: dict[tuple[str, str], tuple[float, Any]] = {}
        self._has_ledger = threading.Event()
        self._clients = space.container("DotsClient")
        self._statistics = space.container("DotsClientStatistics")
        self._status = space.container("DotsDaemonStatus")
        self._subscriptions = [
            space.subscribe("DotsClientStatistics", self._note_statistics),
            space.subscribe("DotsDaemonStatus", self._note_status),
            space.subscribe("SkerryLedger", self._note_ledger),
        ]

    def close(self) -> None:
        """Follow it no more."""
        for subscription in self._subscriptions:
            subscription.close()
        for container in (self._clients, self._statistics, self._status):
            container.close()

    def wait_ledger(self, timeout_s: float) -> bool:
        """Wait until the ledger was told as a whole; False if the node does not tell it."""
        if not self._space.has_additions or not self._has_ledger.wait(timeout_s):
            return False
        try:
            # Its answer comes after all the rows that the first one was told with.
            self._space.flush(timeout=timeout_s)
        except RequestTimedOut:
            return False
        return True

    def snapshot(self, now_s: float) -> NodeSnapshot:
        """All of it at one instant; `now_s` is wall time."""
        clients = _current(self._clients)
        ledger = self._rows(now_s)
        names = {number: _label(client) for number, client in clients.items()}
        return NodeSnapshot(
            node=self._space.node_name,
            state=str(self._space.state),
            **self._node_facts(now_s),
            unexplained=(
                sum(abs(row.unexplained or 0) for row in ledger.values()) if ledger else None
            ),
            clients=tuple(
                self._client_line(client, ledger.get(("client", str(number))), now_s)
                for number, client in sorted(clients.items())
            ),
            types=tuple(
                self._type_line(row, _publishers(row.name, clients, names), now_s)
                for (kind, _), row in sorted(ledger.items())
                if kind == "type"
            ),
        )

    # -- what arrives, on the thread of the space

    def _note_ledger(self, event: Event[Any]) -> None:
        row = event.object
        where = (row.kind or "", row.name or "")
        with self._lock:
            self._ledger[where] = event.info.received, row
            self._note(where, event, (row.accepted or 0, row.delivered or 0))
        self._has_ledger.set()

    def _note_statistics(self, event: Event[Any]) -> None:
        told = event.object
        where = ("statistics", told.clientId)
        with self._lock:
            if event.operation == "remove":
                self._rates.forget(where)
            else:
                self._note(where, event, (_packages(told.received), _packages(told.sent)))

    def _note_status(self, event: Event[Any]) -> None:
        told = event.object
        with self._lock:
            self._note("node", event, (_packages(told.received), _packages(told.sent)))

    def _note(self, name: object, event: Event[Any], counts: tuple[int, ...]) -> None:
        sent_s, heard_s = event.header.sent_time, event.info.received
        self._rates.note(name, sent_s=sent_s, heard_s=heard_s, counts=counts)

    # -- what is shown

    def _rows(self, now_s: float) -> dict[tuple[str, str], Any]:
        with self._lock:
            for where, (at_s, _) in list(self._ledger.items()):
                if now_s - at_s > _OLD_S:
                    del self._ledger[where]
                    self._rates.forget(where)
            return {where: row for where, (_, row) in self._ledger.items()}

    def _rate(self, name: object, now_s: float) -> tuple[float, float]:
        with self._lock:
            return self._rates.at(name, now_s)

    def _node_facts(self, now_s: float) -> dict[str, Any]:
        status: Any = next(iter(_current(self._status).values()), None)
        received, sent = self._rate("node", now_s)
        usage = status.resourceUsage if status is not None else None
        return {
            "uptime_s": None if status is None else max(now_s - (status.startTime or now_s), 0.0),
            "object_count": status.cache.size if status is not None and status.cache else None,
            "received_per_s": received,
            "sent_per_s": sent,
            "memory_bytes_max": usage.maxRss * 1024 if usage and usage.maxRss else None,
            "cpu_s": (usage.userCpuTime or 0) + (usage.systemCpuTime or 0) if usage else None,
        }

    def _client_line(self, client: Any, row: Any, now_s: float) -> ClientLine:
        statistics: Any = self._statistics.get(client.id)
        if row is not None:
            rates = self._rate(("client", str(client.id)), now_s)
        else:
            rates = self._rate(("statistics", client.id), now_s)
        queued = (row.queuedBytes or 0) if row is not None else 0
        if row is None and statistics is not None:
            queued = statistics.currentQueuedBytes or 0
        return ClientLine(
            id=client.id,
            name=client.name or "",
            state=client.connectionState.label if client.connectionState else "",
            published_types=tuple(client.publishedTypes or ()),
            subscribed_types=tuple(client.subscribedTypes or ()),
            in_per_s=rates[0],
            out_per_s=rates[1],
            queued_bytes=queued,
            ledger=None if row is None else _counts(row),
        )

    def _type_line(self, row: Any, publishers: tuple[str, ...], now_s: float) -> TypeLine:
        rates = self._rate(("type", row.name), now_s)
        return TypeLine(
            name=row.name,
            object_count=row.objectCount or 0,
            member_count=row.memberCount or 0,
            publishers=publishers,
            in_per_s=rates[0],
            out_per_s=rates[1],
            ledger=_counts(row),
        )


def _current(container: Mapping[int, Any]) -> dict[int, Any]:
    """What is in a live container, which may change while it is looked at."""
    found = {key: container.get(key) for key in container}
    return {key: obj for key, obj in found.items() if obj is not None}


def _counts(row: Any) -> Counts:
    return Counts(**{name: getattr(row, name) or 0 for name in Counts.__dataclass_fields__})


def _packages(statistics: Any) -> int:
    return (statistics.packages or 0) if statistics is not None else 0


def _label(client: Any) -> str:
    return f"{client.name or ''} ({client.id})"


def _publishers(
    type_name: str, clients: Mapping[int, Any], names: Mapping[int, str]
) -> tuple[str, ...]:
    """Clients that published objects of a type, and are there."""
    return tuple(
        names[number]
        for number, client in sorted(clients.items())
        if type_name in (client.publishedTypes or ())
        if client.connectionState is None or client.connectionState.label != _CLOSED
    )
