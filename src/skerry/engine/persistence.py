"""What is stored, and when a publish counts as stored.

The node puts each change of a persistent object into the journal. The journal joins changes of one
object, hands everything that waits to the runtime as one batch, and keeps it until the runtime
says that it is written: so what is on disk is always the state of one moment, never a mixture. A
batch that could not be written comes back, joined with what happened meanwhile.

Changes are numbered. `stored` is the number up to which all is as durable as the sync policy says;
the node holds back the answer to a flush until `stored` has reached what `number` was then.
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

__all__ = [
    "CLIENT",
    "JOURNAL_BYTES_MAX",
    "JOURNAL_CHANGE_COUNT_MAX",
    "POSITION",
    "Journal",
    "JournalStatistics",
    "StoredObject",
    "StoredType",
    "WriteBatch",
    "store_type",
    "stored_type",
]

JOURNAL_CHANGE_COUNT_MAX: Final = 200_000
"""Changes of persistent objects that wait to be stored. A disk stores this many in some seconds. If
it is slower or fails, publishers of such objects are refused, so no update is lost silently."""
JOURNAL_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of these changes: a dozen of the largest objects, or all of the above if they are small."""

POSITION: Final = "position"
"""Name of the value that no position of a stored object is above."""
CLIENT: Final = "client"
"""Name of the value that no client that a stored object speaks of is above."""

_RETRY: Final = Backoff(first_ns=100_000_000, delay_ns_max=10_000_000_000)
"""A full disk is emptied by a person, a database server is back in seconds."""
_CHANGE_BYTES: Final = 200
"""What a waiting change takes besides its payload, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredType:
    """The definition of a stored type, whole: with all the types that it is made of."""

    name: str
    definition: bytes


class StoredObject(NamedTuple):
    """One object as it is stored."""

    # A named tuple and not a dataclass: one is made for each change, and databases take and give
    # rows as tuples.
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
    """Changes to be written as one transaction: all of them or none. A second time does no harm."""

    number: int
    """Of the last change in it."""
    types: tuple[StoredType, ...] = ()
    puts: tuple[StoredObject, ...] = ()
    drops: tuple[tuple[str, bytes], ...] = ()
    """Name of the type, and key."""
    meta: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStatistics(Statistics):
    """How storing goes."""

    number: int
    stored: int
    waiting_count: int
    """Changes that are not yet stored, joined ones counted once."""
    waiting_bytes: int
    batch_count: int
    """Batches written since the start."""
    failure_count: int
    """Attempts that failed since the start."""
    trouble: str
    """Why the last attempt failed; empty when it did not."""


class _Waiting:
    """Changes that are not stored, the last one of each object."""

    def __init__(self) -> None:
        self.types: dict[str, StoredType] = {}
        self.objects: dict[tuple[str, bytes], StoredObject | None] = {}
        """None for one that is gone."""
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

    def overtake(self, older: _Waiting) -> None:
        """Take in what waited before; where both speak of the same thing, this one is newer."""
        self.types = {**older.types, **self.types}
        self.meta = {**older.meta, **self.meta}
        newer, self.objects, self.bytes = self.objects, older.objects, older.bytes
        for (name, key), obj in newer.items():
            self.set(name, key, obj)


class Journal:
    """Changes on their way to the disk. Nothing in it is ever dropped.

    `interval_ns` is the least time from one batch to the next; `meta` are the values that the
    storage gave back at the start.
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
        """Of the last change; 0 when there was none."""
        self.stored = 0
        """Everything up to this number is stored."""
        self.trouble = ""
        """Why the last attempt to store failed; empty when it did not."""
        self._rng = rng
        self._interval_ns = interval_ns
        self._change_count_max = change_count_max
        self._bytes_max = bytes_max
        self._meta = dict(meta or {})
        self._described: dict[str, StructType] = {}
        self._waiting = _Waiting()
        self._under_way: _Waiting | None = None
        self._under_way_number = 0
        self._not_before_ns = 0
        self._attempt_count = 0
        self._batch_count = 0
        self._failure_count = 0

    # -- for the node

    def put(self, type_: StructType, key: bytes, entry: Entry) -> None:
        """An object is as the entry says. Its type is stored before the first of its objects."""
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
        """An object is gone, by the update with that position."""
        self._raise(POSITION, position)
        self.number += 1
        self._waiting.set(type_name, key, None)

    def describe(self, type_: StructType) -> None:
        """This definition is the one that the stored objects of the type follow."""
        if self._described.get(type_.name) != type_:
            self.number += 1
            self._waiting.types[type_.name] = store_type(type_)
        self._described[type_.name] = type_

    def note(self, name: str, value: int) -> None:
        """Keep a small value of the node's own, to be found in `meta` after a restart."""
        self.number += 1
        self._set_meta(name, value)

    @property
    def meta(self) -> Mapping[str, int]:
        """The small values as they are now: POSITION, CLIENT, and what was noted."""
        return dict(self._meta)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more may be accepted from publishers.

        Removals by the node itself are still taken: there are no more of them than objects.
        """
        return (
            self._waiting_count >= self._change_count_max or self._waiting_bytes >= self._bytes_max
        )

    def shortage(self) -> LimitExceeded:
        """Why no more may be accepted, when it is full."""
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
        """All that waits, once it is due, or at once if urgent. One batch is under way at a time.

        It is kept here until `written` or `failed` tells what became of it.
        """
        if self._under_way is not None or not self._waiting:
            return None
        if now_ns < self._not_before_ns and not is_urgent:
            return None
        taken, self._waiting = self._waiting, _Waiting()
        self._under_way = taken
        self._under_way_number = self.number
        self._not_before_ns = now_ns + self._interval_ns
        return WriteBatch(
            number=self.number,
            types=tuple(taken.types.values()),
            puts=tuple(obj for obj in taken.objects.values() if obj is not None),
            drops=tuple(place for place, obj in taken.objects.items() if obj is None),
            meta=taken.meta,
        )

    def written(self, batch_number: int) -> None:
        """The batch is as durable as the sync policy says."""
        self._end(batch_number)
        self.stored = batch_number
        self.trouble = ""
        self._attempt_count = 0
        self._batch_count += 1

    def failed(self, batch_number: int, why: str, now_ns: int) -> None:
        """Nothing of the batch was written; it waits again, and longer with each failure."""
        self._waiting.overtake(self._end(batch_number))
        self.trouble = why
        self._attempt_count += 1
        self._failure_count += 1
        self._not_before_ns = now_ns + _RETRY.delay_ns(self._attempt_count, self._rng)

    def deadline_ns(self) -> int | None:
        """When to ask for the next batch; None while there is none, or one is under way."""
        if self._under_way is not None or not self._waiting:
            return None
        return self._not_before_ns

    @property
    def _waiting_count(self) -> int:
        return self._waiting.count + (self._under_way.count if self._under_way else 0)

    @property
    def _waiting_bytes(self) -> int:
        return self._waiting.bytes + (self._under_way.bytes if self._under_way else 0)

    def _end(self, batch_number: int) -> _Waiting:
        assert self._under_way is not None, "no batch is under way"
        assert batch_number == self._under_way_number, "another batch is under way"
        ended, self._under_way = self._under_way, None
        return ended

    def _raise(self, name: str, value: int) -> None:
        if value > self._meta.get(name, 0):
            self._set_meta(name, value)

    def _set_meta(self, name: str, value: int) -> None:
        self._meta[name] = value
        self._waiting.meta[name] = value


def store_type(type_: StructType) -> StoredType:
    """A type as it is stored: the descriptors of what it is made of, then its own."""
    parts = [describe(part) for part in (*dependencies(type_), type_)]
    definition = cbor.dumps([[part.descriptor.name, part.encode()] for part in parts])
    return StoredType(name=type_.name, definition=definition)


def stored_type(stored: StoredType) -> StructType:
    """The type that was stored; StorageError when its definition cannot be read."""
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
    error.hint = "the storage is damaged: go back to a copy of it, or begin with an empty one"
    return error


def _size(key: bytes, obj: StoredObject | None) -> int:
    more = 0 if obj is None else len(obj.payload) + len(obj.subject)
    return _CHANGE_BYTES + len(key) + more
