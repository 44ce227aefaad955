"""The ledger: what became of every update that was due to somebody.

For each type and for each client: due = delivered + filtered + conflated + expired + refused +
queued. What is due is counted where an update meets those who asked for it, the rest where it
happens, and what is queued is found by looking; so a loss that nobody meant shows as a rest that
is not explained. It is always 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skerry.engine.clients import Client
from skerry.engine.dispatch.client_queue import Tally
from skerry.engine.dispatch.topics import Topic
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.machine import Statistics

__all__ = [
    "ClientRow",
    "LedgerRow",
    "NodeStatistics",
    "RequestCounts",
    "TypeRow",
    "client_row",
    "ledger_object",
    "ledger_row",
    "type_rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """What became of the updates that were due to a client, or of a type to all clients."""

    due: int = 0
    delivered: int = 0
    filtered: int = 0
    conflated: int = 0
    expired: int = 0
    refused: int = 0
    queued: int = 0

    @property
    def unexplained(self) -> int:
        """What nobody can account for: 0."""
        explained = self.delivered + self.filtered + self.conflated + self.expired
        return self.due - explained - self.refused - self.queued


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """One client."""

    client_id: int
    name: str
    kind: str
    """By which kind of door it came."""
    host: str
    stage: str
    received_count: int
    received_bytes: int
    accepted: int
    """Updates it published that were accepted."""
    refused_count: int
    """What it asked for and was not given."""
    sent_count: int
    sent_bytes: int
    queued_count: int
    queued_bytes: int
    queued_bytes_peak: int
    ledger: LedgerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
    """One type."""

    name: str
    object_count: int
    accepted: int
    member_count: int
    ledger: LedgerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """What became of all requests: asked = ended + abandoned + open."""

    asked: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    """Those that were answered, by outcome."""
    abandoned: int = 0
    """Those whose asker went before."""
    open: int = 0
    late: int = 0
    """Answers to requests that were over."""

    @property
    def unexplained(self) -> int:
        """Requests that nobody can account for: 0."""
        return self.asked - sum(self.ended.values()) - self.abandoned - self.open


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatistics(Statistics):
    """A node at one instant."""

    started_ns: int
    """Wall time."""
    client_count: int
    type_count: int
    group_count: int
    object_count: int
    payload_bytes: int
    received_count: int
    received_bytes: int
    sent_count: int
    sent_bytes: int
    accepted_count: int
    conflict_count: int
    """Definitions of types that differed from the known one."""
    storage_waiting_count: int
    storage_trouble: str
    """Why the last attempt to store failed; empty when it did not."""
    held_count: int = 0
    """What is some client's alone: objects, types, and names under which requests are answered."""
    backpressure_count: int = 0
    """How often a publisher had to wait for its subscribers."""
    requests: RequestCounts = field(default_factory=RequestCounts)
    refusals: Mapping[str, int] = field(default_factory=dict)
    """What was not permitted, by what was asked for."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Connections that ended, by reason."""
    clients: tuple[ClientRow, ...] = ()
    types: tuple[TypeRow, ...] = ()

    @property
    def unexplained(self) -> int:
        """Updates and requests that nobody can account for: 0."""
        ledgers = [row.ledger for row in self.clients] + [row.ledger for row in self.types]
        rest = sum(abs(ledger.unexplained) for ledger in ledgers)
        return rest + abs(self.requests.unexplained)


def ledger_object(row: ClientRow | TypeRow) -> Struct:
    """A row as it is told to those who joined SkerryLedger."""
    ledger = row.ledger
    obj: Any = internal_class("SkerryLedger")(
        accepted=row.accepted,
        due=ledger.due,
        delivered=ledger.delivered,
        filtered=ledger.filtered,
        conflated=ledger.conflated,
        expired=ledger.expired,
        refused=ledger.refused,
        queued=ledger.queued,
        unexplained=ledger.unexplained,
    )
    if isinstance(row, TypeRow):
        obj.kind, obj.name = "type", row.name
        obj.objectCount, obj.memberCount = row.object_count, row.member_count
    else:
        obj.kind, obj.name = "client", str(row.client_id)
        obj.queuedBytes = row.queued_bytes
    made: Struct = obj
    return made


def ledger_row(tally: Tally, queued: int) -> LedgerRow:
    """What a tally says, with what still waits."""
    return LedgerRow(
        due=int(tally.due),
        delivered=int(tally.delivered),
        filtered=int(tally.filtered),
        conflated=int(tally.conflated),
        expired=int(tally.expired),
        refused=int(tally.refused),
        queued=queued,
    )


def client_row(client: Client) -> ClientRow:
    """A client as it is now."""
    queue = client.queue
    queued = sum(count for _, count in queue.runs()) + client.slots.waiting_count
    return ClientRow(
        client_id=client.client_id,
        name=client.name,
        kind=client.origin.kind,
        host=client.origin.host,
        stage=client.connection.stage.name.lower(),
        received_count=client.received_count,
        received_bytes=client.received_bytes,
        accepted=int(queue.sequence),
        refused_count=client.refused_count,
        sent_count=int(queue.sent_count),
        sent_bytes=int(queue.sent_bytes),
        queued_count=queued,
        queued_bytes=int(queue.size),
        queued_bytes_peak=int(queue.size_peak),
        ledger=ledger_row(queue.tally, queued),
    )


def type_rows(
    topics: Collection[Topic], clients: Iterable[Client], member_count: Callable[[str], int]
) -> tuple[TypeRow, ...]:
    """All types as they are now."""
    queued = _queued_by_type(topics, clients)
    return tuple(
        TypeRow(
            name=topic.name,
            object_count=len(topic.type_cache.objects),
            accepted=int(topic.accepted),
            member_count=member_count(topic.name),
            ledger=ledger_row(topic.tally, queued[topic.name]),
        )
        for topic in topics
    )


def _queued_by_type(topics: Iterable[Topic], clients: Iterable[Client]) -> Counter[str]:
    queued: Counter[str] = Counter()
    names = {id(topic.tally): topic.name for topic in topics}
    for client in clients:
        for tally, count in client.queue.runs():
            queued[names[id(tally)]] += count
        for topic, count in client.slots.counts():
            queued[topic.name] += count
    return queued
