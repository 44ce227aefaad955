"""The current objects, by type and key, still encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skerry.codec.compile import Codec
from skerry.codec.envelope import CREATE, REMOVE, UPDATE, Update
from skerry.errors import LimitExceeded
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX

__all__ = ["Cache", "Entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object as it is now, and where that came from."""

    payload: bytes
    """Merged from all updates since its creation."""
    subject: str
    created_ns: int
    created_from: int
    modified_ns: int
    modified_from: int
    sent_ns: int
    """When the publisher of the last update sent it."""
    position: int
    """Of the last update."""


class Cache:
    """Objects of cached types. An update changes one object; nothing else does."""

    def __init__(
        self,
        *,
        object_count_max: int = CACHE_OBJECT_COUNT_MAX,
        bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self._object_count_max = object_count_max
        self._bytes_max = bytes_max
        self._types: dict[str, dict[bytes, Entry]] = {}
        self.object_count = 0
        self.payload_bytes = 0

    def apply(self, update: Update, codec: Codec) -> tuple[int, Entry] | None:
        """Merge an update: what happened to its object, and how that is (or was last).

        None when nothing happened: something unknown was removed. LimitExceeded when there is no
        room, and then nothing is changed.
        """
        known = self.get(update.type_name, update.key)
        if update.operation == REMOVE:
            return None if known is None else (REMOVE, self._remove(update, known, codec))
        entry = _merged(known, update, codec)
        self._make_room(entry, known)
        self._types.setdefault(update.type_name, {})[update.key] = entry
        return (CREATE if known is None else UPDATE), entry

    def get(self, type_name: str, key: bytes) -> Entry | None:
        """The object with that key, if there is one."""
        return self._types.get(type_name, {}).get(key)

    def objects(self, type_name: str) -> Iterator[tuple[bytes, Entry]]:
        """All objects of a type with their keys, in the order of the keys' bytes."""
        return iter(sorted(self._types.get(type_name, {}).items(), key=lambda item: item[0]))

    def type_names(self) -> tuple[str, ...]:
        """Types that have objects."""
        return tuple(self._types)

    def count(self, type_name: str) -> int:
        """How many objects of a type there are."""
        return len(self._types.get(type_name, {}))

    def _remove(self, update: Update, known: Entry, codec: Codec) -> Entry:
        """The last state, with what the remove itself carried."""
        entry = _merged(known, update, codec)
        objects = self._types[update.type_name]
        del objects[update.key]
        if not objects:
            del self._types[update.type_name]
        self.object_count -= 1
        self.payload_bytes -= len(known.payload)
        return entry

    def _make_room(self, entry: Entry, known: Entry | None) -> None:
        count = self.object_count + (known is None)
        if count > self._object_count_max:
            raise LimitExceeded(
                what="count of cached objects", value=count, limit=self._object_count_max
            )
        size = self.payload_bytes + len(entry.payload) - (len(known.payload) if known else 0)
        if size > self._bytes_max:
            raise LimitExceeded(what="bytes of cached objects", value=size, limit=self._bytes_max)
        self.object_count = count
        self.payload_bytes = size


def _merged(known: Entry | None, update: Update, codec: Codec) -> Entry:
    if known is None:
        payload, created_ns, created_from = update.payload, update.time_ns, update.sender
    else:
        payload = codec.merge(known.payload, update.payload, update.present)
        created_ns, created_from = known.created_ns, known.created_from
    return Entry(
        payload=payload,
        subject=update.subject,
        created_ns=created_ns,
        created_from=created_from,
        modified_ns=update.time_ns,
        modified_from=update.sender,
        sent_ns=update.sent_ns,
        position=update.position,
    )
