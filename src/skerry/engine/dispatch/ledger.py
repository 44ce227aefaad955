"""The ledger: what became of every update that was due to a subscriber.

For each type and for each client: due = delivered + filtered + conflated + expired + refused +
queued. Due updates are counted where the route of an update is found, the others where they are
queued, delivered or dropped. An update that was lost by a bug makes `unexplained` differ from 0.

A row is made from a few counters, whatever is queued, and is consistent in itself. So the rows of
many types can be made in slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skerry.durations import Durations
from skerry.engine.clients import Client
from skerry.engine.dispatch.client_queue import Tally
from skerry.engine.dispatch.topics import Topic
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.machine import Statistics


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
        """Updates that are not accounted for: 0 unless there is a bug."""
        explained = self.delivered + self.filtered + self.conflated + self.expired
        return self.due - explained - self.refused - self.queued


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    client_id: int
    name: str
    kind: str
    host: str
    stage: str
    received_count: int
    received_bytes: int
    accepted: int
    """Updates of the client that were accepted."""
    refused_count: int
    sent_count: int
    sent_bytes: int
    queued_count: int
    queued_bytes: int
    queued_bytes_peak: int
    ledger: LedgerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
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
    """Requests that were answered, by outcome."""
    abandoned: int = 0
    """Requests whose client disconnected before the response."""
    open: int = 0
    late: int = 0
    """Responses to requests that had already ended."""
    durations: Durations = field(default_factory=Durations)
    """From the arrival of requests at the node to the response that it sent, of any outcome."""

    @property
    def unexplained(self) -> int:
        """Requests that are not accounted for: 0 unless there is a bug."""
        return self.asked - sum(self.ended.values()) - self.abandoned - self.open


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatistics(Statistics):
    """The counters of a node at one instant."""

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
    """Definitions of clients that were incompatible with the served one."""
    storage_waiting_count: int
    storage_trouble: str
    """Why the last attempt to store failed; empty if it succeeded."""
    held_count: int = 0
    """Claims that have a holder: to objects, to types, and to answer requests."""
    backpressure_count: int = 0
    """How often a publisher had to wait for its subscribers."""
    requests: RequestCounts = field(default_factory=RequestCounts)
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Refused requests, by the verb of the request."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Connections that ended, by reason."""
    clients: tuple[ClientRow, ...] = ()
    types: tuple[TypeRow, ...] = ()

    @property
    def unexplained(self) -> int:
        """Updates and requests that are not accounted for: 0 unless there is a bug."""
        ledgers = [row.ledger for row in self.clients] + [row.ledger for row in self.types]
        rest = sum(abs(ledger.unexplained) for ledger in ledgers)
        return rest + abs(self.requests.unexplained)


def ledger_object(row: ClientRow | TypeRow) -> Struct:
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
    """A row from a tally and the number of queued updates."""
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
    """The current counters of a client."""
    queue = client.queue
    queued = queue.queued_count + client.slots.waiting_count
    return ClientRow(
        client_id=client.client_id,
        name=client.name,
        kind=client.origin.kind,
        host=client.origin.host,
        stage=client.connection.stage.name.lower(),
        received_count=client.received_count,
        received_bytes=client.received_bytes,
        accepted=int(queue.source.sequence),
        refused_count=client.refused_count,
        sent_count=int(queue.sent_count),
        sent_bytes=int(queue.sent_bytes),
        queued_count=queued,
        queued_bytes=int(queue.size),
        queued_bytes_peak=int(queue.size_peak),
        ledger=ledger_row(queue.tally, queued),
    )


def type_row(topic: Topic, member_count: int) -> TypeRow:
    """The current counters of a type, which has so many members."""
    return TypeRow(
        name=topic.name,
        object_count=len(topic.type_cache.objects),
        accepted=int(topic.accepted),
        member_count=member_count,
        ledger=ledger_row(topic.tally, int(topic.tally.queued)),
    )
