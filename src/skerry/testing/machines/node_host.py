"""A node with a simulated disk: written data survives a crash, other data is lost.

The disk takes some time for each batch, and sometimes fails to write it. A crash during a write
leaves all of the batch or none. A node that was not notified of the end of a write must be correct
in both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from skerry import cbor
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.dispatch.ledger import NodeStatistics
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal, StoredObject, StoredType, WriteBatch
from skerry.protocol.access.wire import OldWire
from skerry.protocol.machine import Address, CloseReason, MachineEvent, Transmit
from skerry.testing.node import Setting

OLD_PREFIX: Final = "old-"
"""Prefix of the names of programs that use version 1 of the protocol."""

WRITE_NS_MAX: Final = 100_000_000

_FAILURE_RATE: Final = 0.05


class Disk:
    """The written data: definitions of types, objects, and small values."""

    def __init__(self, data: bytes | None) -> None:
        types, objects, meta = ({}, [], {}) if data is None else cbor.loads(data)
        self.types: dict[str, bytes] = types
        self.objects: dict[tuple[str, bytes], StoredObject] = {}
        self.meta: dict[str, int] = meta
        for row in objects:
            stored = StoredObject(*row)
            self.objects[stored.type_name, stored.key] = stored

    def apply(self, batch: WriteBatch) -> None:
        self.types.update((stored.name, stored.definition) for stored in batch.types)
        self.objects.update(((stored.type_name, stored.key), stored) for stored in batch.puts)
        for key in batch.drops:
            self.objects.pop(key, None)
        self.meta.update(batch.meta)

    def dump(self) -> bytes:
        """The content of the disk, for the next life."""
        return cbor.dumps([self.types, [list(row) for row in self.objects.values()], self.meta])

    def rows(self) -> Sequence[StoredType | StoredObject]:
        """The stored rows for a starting node: types before their objects."""
        types = [StoredType(name=name, definition=data) for name, data in self.types.items()]
        return [*types, *self.objects.values()]


_BATCH_DELAY_NS: Final = 1_000_000
"""As a node has it by default."""


class NodeHost:
    """A node on streams, and what its driver and its storage do for it."""

    core_class: type[NodeCore] = NodeCore
    """Tests replace it by a broken one."""

    def __init__(self, setting: Setting, *, limits: ClientLimits | None = None) -> None:
        self._rng = setting.rng
        self.disk = Disk(setting.disk)
        self.journal = Journal(rng=Random(self._rng.getrandbits(64)), meta=self.disk.meta)
        config = AdmissionConfig(limits=limits or ClientLimits())
        self.core = self.core_class(
            name=setting.name,
            wall_offset_ns=setting.wall_offset_ns,
            node_id=1,
            admission=Admission(config, rng=Random(self._rng.getrandbits(64))),
            journal=self.journal,
            batch_delay_ns=_BATCH_DELAY_NS,
        )
        for row in self.disk.rows():
            self.core.restored(row)
        self.core.restored_meta(self.disk.meta)
        self._batch: WriteBatch | None = None
        self._written_ns = 0

    # -- the machine's contract

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """Accept a program, whose name determines its version of the protocol."""
        if peer.host.startswith(OLD_PREFIX):
            self.core.open(peer, OldWire(), now_ns, extensions=False)
        else:
            self.core.stream_opened(peer, now_ns)

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        self.core.stream_closed(peer, reason, now_ns)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.core.receive(data, source, now_ns)

    def pause(self, peer: Address) -> None:
        self.core.pause(peer)

    def resume(self, peer: Address, now_ns: int) -> None:
        self.core.resume(peer, now_ns)

    def advance(self, now_ns: int) -> None:
        """Advance the node, and complete or start writes of the disk."""
        if self._batch is not None and now_ns >= self._written_ns:
            self._end_batch(self._batch, now_ns)
        self.core.advance(now_ns)
        if self._batch is None:
            self._batch = self.journal.take_batch(now_ns)
            self._written_ns = now_ns + 1 + int(self._rng.random() * WRITE_NS_MAX)

    def deadline_ns(self) -> int | None:
        disk_ns = self.journal.deadline_ns() if self._batch is None else self._written_ns
        due = (self.core.deadline_ns(), disk_ns)
        return min((ns for ns in due if ns is not None), default=None)

    def take_events(self) -> list[MachineEvent]:
        return self.core.take_events()

    def take_transmits(self) -> list[Transmit]:
        return self.core.take_transmits()

    def statistics(self) -> NodeStatistics:
        return self.core.statistics()

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        self.core.set_wall_offset(wall_offset_ns, now_ns)

    def durable(self) -> bytes:
        """The disk of the next life. A write in progress is completed with probability 0.5."""
        if self._batch is not None and self._rng.random() < 0.5:
            self.disk.apply(self._batch)
        return self.disk.dump()

    def _end_batch(self, batch: WriteBatch, now_ns: int) -> None:
        self._batch = None
        if self._rng.random() < _FAILURE_RATE:
            self.journal.failed(batch.number, "the disk is full", now_ns)
            return
        self.disk.apply(batch)
        self.journal.written(batch.number)
