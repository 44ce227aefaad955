"""The current objects, by type and key, still encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skerry.codec.compile import Codec
from skerry.codec.envelope import CREATE, REMOVE, UPDATE, Update

__all__ = ["Cache", "Entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object as it is now, and where that came from."""

    payload: bytes
    """Merged from all updates since its creation."""
    created_ns: int
    created_from: int
    modified_ns: int
    modified_from: int


class Cache:
    """Objects of cached types. An update changes one object; nothing else does."""

    def __init__(self) -> None:
        self._types: dict[str, dict[bytes, Entry]] = {}

    def apply(self, update: Update, codec: Codec) -> tuple[int, Entry] | None:
        """Merge an update: what happened to its object, and how that is (or was last).

        None when nothing happened: something unknown was removed.
        """
        objects = self._types.setdefault(update.type_name, {})
        known = objects.get(update.key)
        if update.operation == REMOVE:
            if known is None:
                return None
            del objects[update.key]
            return REMOVE, known
        if known is None:
            entry = Entry(
                payload=update.payload,
                created_ns=update.time_ns,
                created_from=update.sender,
                modified_ns=update.time_ns,
                modified_from=update.sender,
            )
            objects[update.key] = entry
            return CREATE, entry
        entry = Entry(
            payload=codec.merge(known.payload, update.payload, update.present),
            created_ns=known.created_ns,
            created_from=known.created_from,
            modified_ns=update.time_ns,
            modified_from=update.sender,
        )
        objects[update.key] = entry
        return UPDATE, entry

    def get(self, type_name: str, key: bytes) -> Entry | None:
        """The object with that key, if there is one."""
        return self._types.get(type_name, {}).get(key)

    def objects(self, type_name: str) -> Iterator[tuple[bytes, Entry]]:
        """All objects of a type with their keys, in the order of the keys' bytes."""
        return iter(sorted(self._types.get(type_name, {}).items()))

    def count(self, type_name: str) -> int:
        """How many objects of a type there are."""
        return len(self._types.get(type_name, {}))
