"""The cache: the current objects by type and key, still encoded.

The cache is called for each update of a cached type, so the module is compiled. An entry is as
small as it can be, since a node may hold millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64, mypyc_attr

from skerry.codec.pieces import merge
from skerry.codec.plans import StructPlan
from skerry.engine.dispatch.cache_quotas import CacheQuotas
from skerry.errors import LimitExceeded
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX, PAYLOAD_BYTES_MAX

SHELF_HOLE_COUNT_MAX: Final = 1024
"""Empty slots of removed objects, in addition to one for each object, before the slots are
compacted: rarely enough that it costs nothing per object, and slots take no more memory than
objects."""


# An entry refers to no object that refers to it, so the garbage collector need not visit millions
# of entries.
@mypyc_attr(acyclic=True)
class Entry:
    """The current state of one object, and where it came from."""

    def __init__(
        self,
        *,
        payload: bytes,
        present: int,
        subject: str,
        created_ns: int,
        created_from: int,
        modified_ns: int,
        modified_from: int,
        sent_ns: int,
        position: int,
    ) -> None:
        self.payload: bytes = payload
        """Merged from all updates since its creation."""
        self.present: i64 = present
        """Property set of the payload."""
        self.subject: str = subject
        """Empty in a node for the default subject, to save memory."""
        self.created_ns: i64 = created_ns
        self.created_from: i64 = created_from
        self.modified_ns: i64 = modified_ns
        self.modified_from: i64 = modified_from
        self.sent_ns: i64 = sent_ns
        """When the publisher sent the last update."""
        self.position: i64 = position
        self.order_index: i64 = -1
        """Index in the order of its `TypeCache`; kept when the object is removed."""

    def with_payload(self, payload: bytes, present: int) -> Entry:
        """A copy with another state of the object."""
        made = Entry(
            payload=payload,
            present=present,
            subject=self.subject,
            created_ns=int(self.created_ns),
            created_from=int(self.created_from),
            modified_ns=int(self.modified_ns),
            modified_from=int(self.modified_from),
            sent_ns=int(self.sent_ns),
            position=int(self.position),
        )
        made.order_index = self.order_index
        return made


class TypeCache:
    """The cached objects of one type. It remains when they are removed, so it may be shared."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.objects: dict[bytes, Entry] = {}
        self.order: list[Entry | None] = []
        """The objects in the order of their creation, so that they can be iterated while they
        change; None for removed ones."""
        self.reader_count: i64 = 0
        """Iterations over `order` in progress: as long as there are any, no index changes."""
        self.own_keys: set[bytes] = set()
        """Keys of the objects that are not under their default subject, which are few."""
        self.unknown_keys: set[bytes] = set()
        """Keys of the objects that had tags unknown to their type when they were received."""
        self.by_writer: dict[int, dict[bytes, None]] | None = None
        """Keys by the client that changed the object last, if objects of the type are removed with
        that client; else None."""

    def add(self, key: bytes, entry: Entry) -> None:
        entry.order_index = len(self.order)
        self.order.append(entry)
        self.objects[key] = entry
        if entry.subject:
            self.own_keys.add(key)
        if self.by_writer is not None:
            self.by_writer.setdefault(int(entry.modified_from), {})[key] = None

    def index_writers(self, is_wanted: bool) -> None:
        """Keep an index of the objects by their last writer, or drop it."""
        if not is_wanted:
            self.by_writer = None
        elif self.by_writer is None:
            self.by_writer = {}
            for key, entry in self.objects.items():
                self.by_writer.setdefault(int(entry.modified_from), {})[key] = None

    def take_written(self, writer: int) -> dict[bytes, None]:
        """Keys of the objects that a client changed last; removes them from the index."""
        by_writer = self.by_writer
        return {} if by_writer is None else by_writer.pop(writer, {})

    def unindex(self, key: bytes, writer: i64) -> None:
        """Remove an object from the index of writers."""
        by_writer = self.by_writer
        if by_writer is not None:
            keys = by_writer.get(int(writer))
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del by_writer[int(writer)]

    def move(self, key: bytes, entry: Entry, subject: str) -> None:
        """Put an object under another subject."""
        if subject:
            self.own_keys.add(key)
        else:
            self.own_keys.discard(key)
        entry.subject = subject

    def take(self, key: bytes) -> Entry | None:
        """Remove an object; returns its last state, or None if there is no such object."""
        entry = self.objects.pop(key, None)
        if entry is not None:
            if entry.subject:
                self.own_keys.discard(key)
            if self.unknown_keys:
                self.unknown_keys.discard(key)
            if self.by_writer is not None:
                self.unindex(key, entry.modified_from)
            self.order[entry.order_index] = None
            hole_count = len(self.order) - len(self.objects)
            if hole_count > len(self.objects) + SHELF_HOLE_COUNT_MAX and self.reader_count == 0:
                self._compact()
        return entry

    def _compact(self) -> None:
        """Remove the holes from `order`."""
        left: list[Entry | None] = []
        for entry in self.order:
            if entry is not None:
                entry.order_index = len(left)
                left.append(entry)
        self.order = left


class Cache:
    """The objects of all cached types."""

    def __init__(
        self,
        *,
        object_count_max: int = CACHE_OBJECT_COUNT_MAX,
        bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self.quotas: CacheQuotas = CacheQuotas(object_count_max, bytes_max)
        self.payload_bytes_max: i64 = PAYLOAD_BYTES_MAX
        """The limit for one object, after any number of updates were merged."""
        self._by_type: dict[str, TypeCache] = {}
        self._mentions: dict[int, int] = {}
        """For each client, in how many entries it is the creator or the last writer."""

    @property
    def object_count(self) -> int:
        """Objects of all types."""
        return int(self.quotas.object_count)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the objects of all types."""
        return int(self.quotas.payload_bytes)

    def type_cache(self, type_name: str) -> TypeCache:
        """The objects of a type."""
        type_cache = self._by_type.get(type_name)
        if type_cache is None:
            type_cache = self._by_type[type_name] = TypeCache(type_name)
        return type_cache

    def forget_type(self, type_name: str) -> None:
        """Drop the empty `TypeCache` of a type that is no longer in use."""
        type_cache = self._by_type.pop(type_name, None)
        assert type_cache is None or not type_cache.objects

    def put(
        self,
        type_cache: TypeCache,
        plan: StructPlan,
        key: bytes,
        update: bytes,
        present: i64,
        attributes: i64,
        subject: str,
        sender: i64,
        sent_ns: i64,
        time_ns: i64,
        position: i64,
        count_max: i64 = CACHE_OBJECT_COUNT_MAX,
        bytes_max: i64 = CACHE_BYTES_MAX,
    ) -> Entry:
        """Create an object, or merge an update into it; returns its entry.

        `present` is the property set of the update. `count_max` and `bytes_max` limit what the
        objects of one client may use: those of the sender, and those of other clients that the
        sender makes larger.

        Raises LimitExceeded, without effect, if there is no room.
        """
        known = type_cache.objects.get(key)
        quotas = self.quotas
        if known is None:
            quotas.check(sender, 1, len(update), count_max, bytes_max)
            quotas.make_room(1, len(update), sender)
            entry = Entry(
                payload=update,
                present=present,
                subject=subject,
                created_ns=time_ns,
                created_from=sender,
                modified_ns=time_ns,
                modified_from=sender,
                sent_ns=sent_ns,
                position=position,
            )
            type_cache.add(key, entry)
            self._mention(sender, 2)
            quotas.change(sender, 1, len(entry.payload))
            return entry
        if (known.present | present) & ~attributes & ~plan.key_mask == 0:
            # The update names all fields that are or were set, so it replaces the whole object.
            payload = update
        else:
            payload = merge(plan, known.payload, update, attributes)
            if len(payload) > self.payload_bytes_max:
                raise LimitExceeded(
                    what=f"size of a merged object of {plan.name} in bytes (update_bytes_max)",
                    value=len(payload),
                    limit=int(self.payload_bytes_max),
                )
            named = attributes & ~plan.key_mask
            present = (known.present & ~named) | (present & (named | plan.key_mask))
        change = len(payload) - len(known.payload)
        if change:
            creator = known.created_from
            exempt = quotas.exempt_client
            if change > 0 and sender != exempt and creator != exempt:
                # The object counts for its creator, so the creator's limit applies.
                quotas.check(creator, 0, change, count_max, bytes_max)
            quotas.make_room(0, change, sender)
            quotas.change(creator, 0, change)
        known.payload = payload
        known.present = present
        if known.subject != subject:
            type_cache.move(key, known, subject)
        known.modified_ns = time_ns
        known.sent_ns = sent_ns
        known.position = position
        if known.modified_from != sender:
            self._mention(known.modified_from, -1)
            self._mention(sender, 1)
            if type_cache.by_writer is not None:
                type_cache.unindex(key, known.modified_from)
                type_cache.by_writer.setdefault(int(sender), {})[key] = None
            known.modified_from = sender
        return known

    def drop(self, type_cache: TypeCache, key: bytes) -> Entry | None:
        """Remove an object; returns its last state, or None if there is no such object."""
        entry = type_cache.take(key)
        if entry is None:
            return None
        quotas = self.quotas
        quotas.object_count -= 1
        quotas.payload_bytes -= len(entry.payload)
        self._mention(entry.created_from, -1)
        self._mention(entry.modified_from, -1)
        quotas.change(entry.created_from, -1, -len(entry.payload))
        return entry

    def restore(self, type_cache: TypeCache, key: bytes, entry: Entry) -> None:
        """Add an object from the storage."""
        assert key not in type_cache.objects
        quotas = self.quotas
        quotas.object_count += 1
        quotas.payload_bytes += len(entry.payload)
        type_cache.add(key, entry)
        self._mention(entry.created_from, 1)
        self._mention(entry.modified_from, 1)
        quotas.change(entry.created_from, 1, len(entry.payload))

    def mentions(self, client: int) -> bool:
        """Whether a client is the creator or the last writer of any object."""
        return client in self._mentions

    def get(self, type_name: str, key: bytes) -> Entry | None:
        """The object with a key, or None."""
        type_cache = self._by_type.get(type_name)
        return None if type_cache is None else type_cache.objects.get(key)

    def objects(self, type_name: str) -> Iterator[tuple[bytes, Entry]]:
        """All objects of a type with their keys, in the order of the keys' bytes."""
        type_cache = self._by_type.get(type_name)
        objects: dict[bytes, Entry] = {} if type_cache is None else type_cache.objects
        return iter([(key, objects[key]) for key in sorted(objects)])

    def type_names(self) -> tuple[str, ...]:
        """The types that have objects."""
        return tuple(
            [type_cache.name for type_cache in self._by_type.values() if type_cache.objects]
        )

    def count(self, type_name: str) -> int:
        """The number of objects of a type."""
        type_cache = self._by_type.get(type_name)
        return 0 if type_cache is None else len(type_cache.objects)

    def _mention(self, client: i64, change: i64) -> None:
        number = int(client)
        count = self._mentions.get(number, 0) + int(change)
        if count:
            self._mentions[number] = count
        else:
            del self._mentions[number]
