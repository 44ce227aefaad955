"""The limits of how many types a node keeps, and the unused types that are removed for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from skerry.engine.types.served_types import ServedType, ServedTypes
from skerry.errors import LimitExceeded
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType

_FREE_TRIES: Final = 500
"""Unused types that are examined when room is needed for a new one."""


class UnusedTypes:
    """Adds types to those that are served, and removes the ones that have been unused longest.

    `is_needed` returns whether a type is in use though no client sent it, `removed` is called with
    the name of each type that was removed.
    """

    def __init__(
        self,
        types: ServedTypes,
        *,
        is_needed: Callable[[str], bool],
        removed: Callable[[str], None],
    ) -> None:
        self._types = types
        self._is_needed = is_needed
        self._removed = removed
        self._names: dict[str, None] = {}
        """Types that no client uses, the longest unused first."""
        self._names_of: dict[str, dict[str, None]] = {}
        """The same by the address whose quota they count for."""
        self._count_of: Counter[str] = Counter()
        """All types, used or not, by address."""

    def add(self, name: str, address: str) -> ServedType:
        """Add a type that counts for the quota of an address."""
        type_ = self._types[name] = ServedType(name, address)
        self._count_of[address] += 1
        return type_

    def note_unused(self, type_: ServedType) -> None:
        """No client uses a type any more."""
        self._names[type_.name] = None
        self._names_of.setdefault(type_.address, {})[type_.name] = None

    def note_used(self, type_: ServedType) -> None:
        """A client uses a type."""
        self._names.pop(type_.name, None)
        names = self._names_of.get(type_.address, {})
        names.pop(type_.name, None)
        if not names:
            self._names_of.pop(type_.address, None)

    def make_room(
        self, parts: list[NamedType], address: str, *, count_max: int, address_count_max: int
    ) -> None:
        """Remove unused types until the new ones among `parts` fit.

        `count_max` limits the types of all addresses with the internal ones. Raises LimitExceeded
        if the new types do not fit.
        """
        fresh_count = sum(part.name not in self._types for part in parts)
        if not fresh_count:
            return
        wanted = {part.name for part in parts}
        self._free(self._count + fresh_count - count_max, self._names, wanted)
        if address:
            excess = self._count_of[address] + fresh_count - address_count_max
            self._free(excess, self._names_of.get(address, ()), wanted)
        count = self._count + fresh_count
        if count > count_max:
            raise LimitExceeded(what="count of types", value=count, limit=count_max)
        count = self._count_of[address] + fresh_count
        if address and count > address_count_max:
            what = "count of types of one address"
            raise LimitExceeded(what=what, value=count, limit=address_count_max)

    @property
    def _count(self) -> int:
        return len(internal_types()) + len(self._types)

    def _free(self, count: int, unused: Iterable[str], wanted: set[str]) -> None:
        """Remove as many unused types as are needed, if there are so many.

        Types in `wanted` stay.
        """
        for name in list(islice(unused, _FREE_TRIES)) if count > 0 else ():
            type_ = self._types.get(name)
            if type_ is None:
                continue
            self.note_used(type_)
            if name in wanted or type_.used_by or self._is_needed(name):
                # It is examined again after all others.
                self.note_unused(type_)
                continue
            self._remove(type_)
            count -= 1
            if count <= 0:
                return

    def _remove(self, type_: ServedType) -> None:
        for name in type_.needs:
            part = self._types[name]
            part.used_by.discard(type_.name)
            part.fresh_users.discard(type_.name)
            if not part.has_clients:
                self.note_unused(part)
        del self._types[type_.name]
        self._count_of[type_.address] -= 1
        if not self._count_of[type_.address]:
            del self._count_of[type_.address]
        self._removed(type_.name)
