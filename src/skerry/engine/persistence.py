"""The journal: which objects are stored, and when a publish counts as stored.

The node puts each change of a persistent object into the journal. The journal merges changes of one
object, passes all waiting changes to the runtime as one batch, and keeps the batch until the
runtime reports that it is written. So the storage always holds the state of one moment. A batch
that could not be written is merged with the changes since then and written again.

Changes are numbered. `stored` is the number up to which all changes are as durable as the sync
policy requires. The node delays the response to a flush until `stored` has reached the value that
`number` had when the flush was requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from skerry import cbor
from skerry.engine.dispatch.cache import Entry
from skerry.errors import CodecError, LimitExceeded, SchemaError, StorageError
from skerry.objects.descriptors import describe, from_description
from skerry.objects.internal import internal_class
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import Statistics
from skerry.schema.model import NamedType, StructType, dependencies

JOURNAL_CHANGE_COUNT_MAX: Final = 200_000
"""Changes of persistent objects that wait to be stored. A disk stores this many in some seconds. If
it is slower or fails, publishers of such objects are refused, so no update is lost silently."""
JOURNAL_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of these changes: a dozen of the largest objects, or all of the above if they are small."""

POSITION: Final = "position"
"""Name of the stored value that is at least the position of every stored object."""
CLIENT: Final = "client"
"""Name of the stored value that is at least every client id in a stored object."""

_RETRY: Final = Backoff(first_ns=100_000_000, delay_ns_max=10_000_000_000)
"""A database server restarts in seconds; a full disk lasts until a person makes room."""
_CHANGE_BYTES: Final = 200
"""Approximate size of a waiting change without its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredType:
    """The definition of a stored type with all types inside."""

    name: str
    definition: bytes


class StoredObject(NamedTuple):
    # A named tuple and not a dataclass: one is made for each change, and databases use tuples as
    # rows.
    type_name: str
    key: bytes
    payload: bytes
    subject: str
    created_ns: int
    created_from: int
    modified_ns: int
    modified_from: int
    sent_ns: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatch:
    """Changes to be written in one transaction. Writing a batch twice has no further effect."""

    number: int
    """The number of the last change in it."""
    types: tuple[StoredType, ...] = ()
    puts: tuple[StoredObject, ...] = ()
    drops: tuple[tuple[str, bytes], ...] = ()
    """Type name and key of each removed object."""
    meta: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStatistics(Statistics):
    number: int
    stored: int
    waiting_count: int
    """Changes that are not yet stored; merged changes count once."""
    waiting_bytes: int
    batch_count: int
    """Batches written since the start."""
    failure_count: int
    """Attempts that failed since the start."""
    trouble: str
    """Why the last attempt failed; empty if it succeeded."""


class _Changes:
    """Changes that are not stored, the last one of each object."""

    def __init__(self) -> None:
        self.types: dict[str, StoredType] = {}
        self.objects: dict[tuple[str, bytes], StoredObject | None] = {}
        """None for a removed object."""
        self.meta: dict[str, int] = {}
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self.types or self.objects or self.meta)

    @property
    def count(self) -> int:
        return len(self.types) + len(self.objects)

    def set(self, name: str, key: bytes, obj: StoredObject | None) -> None:
        if (name, key) in self.objects:
            self.bytes -= _size(key, self.objects[name, key])
        self.objects[name, key] = obj
        self.bytes += _size(key, obj)

    def merge_older(self, older: _Changes) -> None:
        """Add older changes, except for those of objects that have changed since."""
        self.types = {**older.types, **self.types}
        self.meta = {**older.meta, **self.meta}
        newer, self.objects, self.bytes = self.objects, older.objects, older.bytes
        for (name, key), obj in newer.items():
            self.set(name, key, obj)


class Journal:
    """Changes that wait to be stored. No change is ever dropped.

    `interval_ns` is the shortest time from one batch to the next; `meta` are the values that were
    loaded from the storage at the start.
    """

    def __init__(
        self,
        *,
        rng: Random,
        interval_ns: int = 0,
        meta: Mapping[str, int] | None = None,
        change_count_max: int = JOURNAL_CHANGE_COUNT_MAX,
        bytes_max: int = JOURNAL_BYTES_MAX,
    ) -> None:
        assert interval_ns >= 0
        self.number = 0
        """The number of the last change; 0 if there was none."""
        self.stored = 0
        """All changes up to this number are stored."""
        self.trouble = ""
        """Why the last attempt to store failed; empty if it succeeded."""
        self._rng = rng
        self._interval_ns = interval_ns
        self._change_count_max = change_count_max
        self._bytes_max = bytes_max
        self._meta = dict(meta or {})
        self._described: dict[str, StructType] = {}
        self._waiting = _Changes()
        self._writing: _Changes | None = None
        """The changes in the batch that the runtime is writing."""
        self._writing_number = 0
        self._not_before_ns = 0
        self._attempt_count = 0
        self._batch_count = 0
        self._failure_count = 0

    # -- for the node

    def put(self, type_: StructType, key: bytes, entry: Entry) -> None:
        """Store an object. Its type is stored before the first of its objects."""
        if self._described.get(type_.name) is not type_:
            self.describe(type_)
        obj = StoredObject(
            type_name=type_.name,
            key=key,
            payload=entry.payload,
            subject=entry.subject,
            created_ns=int(entry.created_ns),
            created_from=int(entry.created_from),
            modified_ns=int(entry.modified_ns),
            modified_from=int(entry.modified_from),
            sent_ns=int(entry.sent_ns),
            position=int(entry.position),
        )
        self._raise(POSITION, obj.position)
        self._raise(CLIENT, max(obj.created_from, obj.modified_from))
        self.number += 1
        self._waiting.set(type_.name, key, obj)

    def drop(self, type_name: str, key: bytes, *, position: int = 0) -> None:
        """Remove an object from the storage; `position` is that of the update that removed it."""
        self._raise(POSITION, position)
        self.number += 1
        self._waiting.set(type_name, key, None)

    def describe(self, type_: StructType) -> None:
        """Store the definition of a type, by which its stored objects are read."""
        if self._described.get(type_.name) != type_:
            self.number += 1
            self._waiting.types[type_.name] = store_type(type_)
        self._described[type_.name] = type_

    @property
    def meta(self) -> Mapping[str, int]:
        """The current values of the node: POSITION, CLIENT, and others from the storage."""
        return dict(self._meta)

    @property
    def is_full(self) -> bool:
        """Whether too many changes wait, so that updates of publishers must be rejected.

        Removals by the node itself are still accepted: the number of objects bounds them.
        """
        return (
            self._waiting_count >= self._change_count_max or self._waiting_bytes >= self._bytes_max
        )

    def shortage(self) -> LimitExceeded:
        """The error for updates that are rejected while the journal is full."""
        if self._waiting_count >= self._change_count_max:
            return LimitExceeded(
                what="count of changes that wait to be stored",
                value=self._waiting_count + 1,
                limit=self._change_count_max,
            )
        return LimitExceeded(
            what="bytes of changes that wait to be stored",
            value=self._waiting_bytes,
            limit=self._bytes_max,
        )

    def statistics(self) -> JournalStatistics:
        """An immutable snapshot of the counters."""
        return JournalStatistics(
            number=self.number,
            stored=self.stored,
            waiting_count=self._waiting_count,
            waiting_bytes=self._waiting_bytes,
            batch_count=self._batch_count,
            failure_count=self._failure_count,
            trouble=self.trouble,
        )

    # -- for the runtime

    def take_batch(self, now_ns: int, *, is_urgent: bool = False) -> WriteBatch | None:
        """All waiting changes, once they are due, or at once if `is_urgent`.

        None while another batch is being written. Call `written` or `failed` with the result; until
        then the journal keeps the changes.
        """
        if self._writing is not None or not self._waiting:
            return None
        if now_ns < self._not_before_ns and not is_urgent:
            return None
        taken, self._waiting = self._waiting, _Changes()
        self._writing = taken
        self._writing_number = self.number
        self._not_before_ns = now_ns + self._interval_ns
        return WriteBatch(
            number=self.number,
            types=tuple(taken.types.values()),
            puts=tuple(obj for obj in taken.objects.values() if obj is not None),
            drops=tuple(name_and_key for name_and_key, obj in taken.objects.items() if obj is None),
            meta=taken.meta,
        )

    def written(self, batch_number: int) -> None:
        """Note that a batch is as durable as the sync policy requires."""
        self._end(batch_number)
        self.stored = batch_number
        self.trouble = ""
        self._attempt_count = 0
        self._batch_count += 1

    def failed(self, batch_number: int, why: str, now_ns: int) -> None:
        """Note that a batch was not written. It is retried after a delay that grows."""
        self._waiting.merge_older(self._end(batch_number))
        self.trouble = why
        self._attempt_count += 1
        self._failure_count += 1
        self._not_before_ns = now_ns + _RETRY.delay_ns(self._attempt_count, self._rng)

    def deadline_ns(self) -> int | None:
        """When to call `take_batch`; None if nothing waits, or while a batch is being written."""
        if self._writing is not None or not self._waiting:
            return None
        return self._not_before_ns

    @property
    def _waiting_count(self) -> int:
        return self._waiting.count + (self._writing.count if self._writing else 0)

    @property
    def _waiting_bytes(self) -> int:
        return self._waiting.bytes + (self._writing.bytes if self._writing else 0)

    def _end(self, batch_number: int) -> _Changes:
        assert self._writing is not None, "no batch is being written"
        assert batch_number == self._writing_number, "another batch is being written"
        ended, self._writing = self._writing, None
        return ended

    def _raise(self, name: str, value: int) -> None:
        if value > self._meta.get(name, 0):
            self._meta[name] = self._waiting.meta[name] = value


def store_type(type_: StructType) -> StoredType:
    """A type as it is stored: the descriptors of the types inside, then its own."""
    parts = [describe(part) for part in (*dependencies(type_), type_)]
    definition = cbor.dumps([[part.descriptor.name, part.encode()] for part in parts])
    return StoredType(name=type_.name, definition=definition)


def stored_type(stored: StoredType) -> StructType:
    """The type that was stored. Raises StorageError if its definition cannot be read."""
    known: dict[str, NamedType] = {}
    try:
        for descriptor_name, payload in cbor.loads(stored.definition):
            type_ = from_description(internal_class(descriptor_name).decode(payload), known)
            known[type_.name] = type_
        found = known[stored.name]
    except (cbor.CBORError, CodecError, KeyError, SchemaError, TypeError, ValueError) as error:
        raise _unreadable(stored.name, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, StructType):
        raise _unreadable(stored.name, "it is an enum")
    return found


def _unreadable(name: str, detail: str) -> StorageError:
    error = StorageError(f"the stored definition of {name} cannot be read: {detail}")
    error.hint = "the storage is damaged: restore a copy of it, or start with an empty one"
    return error


def _size(key: bytes, obj: StoredObject | None) -> int:
    more = 0 if obj is None else len(obj.payload) + len(obj.subject)
    return _CHANGE_BYTES + len(key) + more
