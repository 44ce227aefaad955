"""Clients, types, rates, ledger and system of a node, from the objects that it publishes.

These are DotsClient, DotsClientStatistics and DotsDaemonStatus, which foreign hosts publish, too,
and SkerryLedger, SkerryPicture and SkerryRawStatistics, which only skerry nodes publish.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from skerry.apps.system_watch import NodeLink, SystemSnapshot, SystemWatch, node_name
from skerry.client.api.picture import PictureNode
from skerry.client.api.sync import Space
from skerry.client.core.events import Event
from skerry.closing import Closing
from skerry.errors import Disconnected, RequestTimedOut
from skerry.schema.internal import RAW_STATISTICS_TYPE

_ROW_S_MAX: Final = 3.5
"""Age above which a ledger row is outdated, since rows are published each second: its client has
disconnected."""
_COUNTER_S_MAX: Final = 6.5
"""Age after which counters have not changed: the slowest are published every five seconds."""
_CLOSED: Final = "closed"
_SLOW_BYTES: Final = 64 * 1024
"""Queue above which a client counts as slow: more than one read of a fast client takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
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
    id: int
    name: str
    state: str
    published_types: tuple[str, ...]
    subscribed_types: tuple[str, ...]
    in_per_s: float
    """Updates that the client published."""
    out_per_s: float
    """Updates that the client received."""
    queued_bytes: int
    ledger: Counts | None
    in_bytes_per_s: float = 0.0
    """Bytes that the client sent, with headers and protocol messages."""
    out_bytes_per_s: float = 0.0
    delay_s: float | None = None
    """How long the last of the queued bytes will wait, at the present rate; None if the client
    receives nothing."""
    is_slow: bool = False
    """Whether much is queued for the client, or updates were conflated or expired for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLine:
    name: str
    object_count: int
    member_count: int
    publishers: tuple[str, ...]
    in_per_s: float
    out_per_s: float
    ledger: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLine:
    """Another node of the system, as this node observes it. Figures that it does not have yet, or
    not of a dead node, are None."""

    id: int
    name: str
    state: str
    """`alive`, or `dead` with the reason."""
    is_elected: bool
    in_per_s: float
    """Datagrams received from the node."""
    resent_per_s: float
    """Datagrams sent again to the node."""
    round_trip_s: float | None
    lag_s: float | None
    backlog_bytes: int | None
    clock_offset_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """The state of a node. Without a ledger there are no types, and `unexplained` is None. Without
    a system there are no peers, links and problems."""

    node: str
    state: str
    """State of the connection to the node."""
    uptime_s: float | None
    object_count: int | None
    received_per_s: float
    """Frames of all kinds, including protocol messages."""
    sent_per_s: float
    memory_bytes_max: int | None
    cpu_s: float | None
    unexplained: int | None
    clients: tuple[ClientLine, ...]
    types: tuple[TypeLine, ...]
    system: str | None = None
    peers: tuple[PeerLine, ...] = ()
    links: tuple[NodeLink, ...] = ()
    """What each node observes of each other one."""
    problems: tuple[str, ...] = ()
    """What is wrong in the system."""
    received_bytes_per_s: float = 0.0
    sent_bytes_per_s: float = 0.0
    answer_s: float | None = None
    """How long the node took for an answer; None if it was not asked or did not answer in time."""


class NodeRates:
    """Changes per second of counters, from the last two values of each."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[float, tuple[int, ...]]] = {}
        self._received_s: dict[object, float] = {}
        self._rates: dict[object, tuple[float, ...]] = {}

    def note(
        self, name: object, *, sent_s: float, received_s: float, counts: tuple[int, ...]
    ) -> None:
        """Add values of counters: `sent_s` is a time of the node, `received_s` of this computer."""
        before = self._last.get(name)
        self._last[name] = sent_s, counts
        self._received_s[name] = received_s
        if before is not None and sent_s > before[0]:
            passed_s = sent_s - before[0]
            changes = zip(counts, before[1], strict=True)
            # The counters of a restarted node begin at 0.
            self._rates[name] = tuple(max(new - old, 0) / passed_s for new, old in changes)

    def at(self, name: object, now_s: float) -> tuple[float, float]:
        """The rates of the first two counters; 0 if they have not changed lately."""
        first, second, *_ = self.all_at(name, now_s)
        return first, second

    def all_at(self, name: object, now_s: float) -> tuple[float, ...]:
        """The rates of all counters, at least four; 0 if they have not changed lately."""
        rates = self._rates.get(name, ())
        if not rates or now_s - self._received_s[name] > _COUNTER_S_MAX:
            rates = ()
        return (*rates, *(0.0,) * (4 - len(rates)))

    def forget(self, name: object) -> None:
        self._last.pop(name, None)
        self._received_s.pop(name, None)
        self._rates.pop(name, None)


class NodeWatch(Closing):
    """Subscribes to the status objects of a node, over a space that it does not close."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._rates = NodeRates()
        self._lock = threading.Lock()
        self._ledger: dict[tuple[str, str], tuple[float, Any]] = {}
        self._has_ledger = threading.Event()
        self._clients = space.container("DotsClient")
        self._statistics = space.container("DotsClientStatistics")
        self._status = space.container("DotsDaemonStatus")
        self._system: SystemWatch | None = None
        """Follows the system, once the node has joined one."""
        self._pictures = space.container("SkerryPicture") if space.has_additions else None
        self._subscriptions = [
            space.subscribe("DotsClientStatistics", self._note_statistics),
            space.subscribe("DotsDaemonStatus", self._note_status),
            space.subscribe("SkerryLedger", self._note_ledger),
        ]
        if self._pictures is not None:
            self._subscriptions.append(space.subscribe(RAW_STATISTICS_TYPE, self._note_link))

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        if self._system is not None:
            self._system.close()
        for container in (self._clients, self._statistics, self._status, self._pictures):
            if container is not None:
                container.close()

    def wait_ledger(self, timeout_s: float) -> bool:
        """Wait for a complete ledger, and for the links in a system; False after the timeout, or if
        the node publishes no ledger."""
        if not self._space.has_additions or not self._has_ledger.wait(timeout_s):
            return False
        try:
            # The answer follows all rows that were sent together with the first one.
            self._space.flush(timeout=timeout_s)
            self._follow_system()
            if self._system is not None:
                self._system.wait_links(timeout_s)
        except RequestTimedOut:
            return False
        return True

    def answer_time(self, timeout_s: float) -> float | None:
        """Ask the node, and return how long the answer took; None if it did not come in time."""
        begun_s = monotonic()
        try:
            self._space.flush(timeout=timeout_s)
        except (RequestTimedOut, Disconnected):
            return None
        return monotonic() - begun_s

    def snapshot(self, now_s: float, *, answer_s: float | None = None) -> NodeSnapshot:
        """The current state; `now_s` is wall time."""
        clients = _current(self._clients)
        ledger = self._rows(now_s)
        names = {number: f"{client.name or ''} ({number})" for number, client in clients.items()}
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
            **self._system_facts(now_s),
            answer_s=answer_s,
        )

    # -- callbacks, on the thread of the space

    def _note_ledger(self, event: Event[Any]) -> None:
        row = event.object
        where = (row.kind or "", row.name or "")
        with self._lock:
            self._ledger[where] = event.info.received, row
            left_out = (row.conflated or 0) + (row.expired or 0)
            self._note(where, event, (row.accepted or 0, row.delivered or 0, left_out))
        self._has_ledger.set()

    def _note_statistics(self, event: Event[Any]) -> None:
        status = event.object
        where = ("statistics", status.clientId)
        with self._lock:
            if event.operation == "remove":
                self._rates.forget(where)
            else:
                self._note(where, event, _traffic(status))

    def _note_status(self, event: Event[Any]) -> None:
        status = event.object
        with self._lock:
            self._note("node", event, _traffic(status))

    def _note_link(self, event: Event[Any]) -> None:
        row = event.object
        received = (row.controlReceived or 0) + (row.dataReceived or 0)
        resent = (row.controlRetransmissions or 0) + (row.dataRetransmissions or 0)
        with self._lock:
            self._note(("link", row.observer, row.node), event, (received, resent))

    def _note(self, name: object, event: Event[Any], counts: tuple[int, ...]) -> None:
        sent_s, received_s = event.header.sent_time, event.info.received
        self._rates.note(name, sent_s=sent_s, received_s=received_s, counts=counts)

    # -- the snapshot

    def _rows(self, now_s: float) -> dict[tuple[str, str], Any]:
        with self._lock:
            for where, (at_s, _) in list(self._ledger.items()):
                if now_s - at_s > _ROW_S_MAX:
                    del self._ledger[where]
                    self._rates.forget(where)
            return {where: row for where, (_, row) in self._ledger.items()}

    def _rate(self, name: object, now_s: float) -> tuple[float, float]:
        with self._lock:
            return self._rates.at(name, now_s)

    def _all_rates(self, name: object, now_s: float) -> tuple[float, ...]:
        with self._lock:
            return self._rates.all_at(name, now_s)

    def _node_facts(self, now_s: float) -> dict[str, Any]:
        status: Any = next(iter(_current(self._status).values()), None)
        received, sent, received_bytes, sent_bytes, *_ = self._all_rates("node", now_s)
        usage = status.resourceUsage if status is not None else None
        return {
            "uptime_s": None if status is None else max(now_s - (status.startTime or now_s), 0.0),
            "object_count": status.cache.size if status is not None and status.cache else None,
            "received_per_s": received,
            "sent_per_s": sent,
            "received_bytes_per_s": received_bytes,
            "sent_bytes_per_s": sent_bytes,
            "memory_bytes_max": usage.maxRss * 1024 if usage and usage.maxRss else None,
            "cpu_s": (usage.userCpuTime or 0) + (usage.systemCpuTime or 0) if usage else None,
        }

    def _follow_system(self) -> None:
        """Follow the system as soon as the node has joined it."""
        if self._system is None and self._pictures:
            self._system = SystemWatch(self._space)

    def _system_facts(self, now_s: float) -> dict[str, Any]:
        self._follow_system()
        if self._system is None:
            return {}
        seen = self._system.snapshot(now_s)
        if not any(one.control for one in seen.nodes):
            return {}  # The node belongs to no system.
        own = {one.node: one for one in seen.links if one.observer == seen.node}
        return {
            "system": seen.system,
            "peers": tuple(
                self._peer_line(one, own.get(one.id), seen, now_s)
                for one in seen.nodes
                if one.id != seen.node
            ),
            "links": seen.links,
            "problems": tuple(seen.problems()),
        }

    def _peer_line(
        self, node: PictureNode, link: NodeLink | None, seen: SystemSnapshot, now_s: float
    ) -> PeerLine:
        rates = self._rate(("link", seen.node, node.id), now_s)
        if node.is_dead:
            link, rates = None, (0.0, 0.0)
        return PeerLine(
            id=node.id,
            name=node_name(node),
            state=f"dead ({node.reason})" if node.is_dead else "alive",
            is_elected=node.id == seen.elected,
            in_per_s=rates[0],
            resent_per_s=rates[1],
            # Unknown until something was acknowledged.
            round_trip_s=None if link is None else link.round_trip_s,
            lag_s=None if link is None else link.lag_s,
            backlog_bytes=None if link is None else link.backlog_bytes,
            clock_offset_s=None if link is None else link.clock_offset_s,
        )

    def _client_line(self, client: Any, row: Any, now_s: float) -> ClientLine:
        statistics: Any = self._statistics.get(client.id)
        traffic = self._all_rates(("statistics", client.id), now_s)
        rates = traffic if row is None else self._all_rates(("client", str(client.id)), now_s)
        queued = (row.queuedBytes or 0) if row is not None else 0
        if row is None and statistics is not None:
            queued = statistics.currentQueuedBytes or 0
        out_bytes = traffic[3]
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
            in_bytes_per_s=traffic[2],
            out_bytes_per_s=out_bytes,
            delay_s=queued / out_bytes if out_bytes else None if queued else 0.0,
            is_slow=queued >= _SLOW_BYTES or (row is not None and rates[2] > 0),
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
    """A copy of a live container, which may change during the iteration."""
    found = {key: container.get(key) for key in container}
    return {key: obj for key, obj in found.items() if obj is not None}


def _counts(row: Any) -> Counts:
    return Counts(**{name: getattr(row, name) or 0 for name in Counts.__dataclass_fields__})


def _traffic(status: Any) -> tuple[int, int, int, int]:
    """Frames received and sent, and bytes received and sent."""
    ways = (status.received, status.sent)
    frames, others = ((way.packages or 0 if way is not None else 0) for way in ways)
    bytes_in, bytes_out = ((way.bytes or 0 if way is not None else 0) for way in ways)
    return frames, others, bytes_in, bytes_out


def _publishers(
    type_name: str, clients: Mapping[int, Any], names: Mapping[int, str]
) -> tuple[str, ...]:
    """Connected clients that have published objects of a type."""
    return tuple(
        names[number]
        for number, client in sorted(clients.items())
        if type_name in (client.publishedTypes or ())
        if client.connectionState is None or client.connectionState.label != _CLOSED
    )
