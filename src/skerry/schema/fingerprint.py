"""The fingerprint of a type: one number for everything that affects transmission.

Two programs whose definitions have the same fingerprint write and read the same bytes and treat
objects alike. Comments, documentation, defaults and the values of elements are not part of it.
"""

from __future__ import annotations

from functools import lru_cache

from skerry import cbor
from skerry.ids import hash64
from skerry.limits import TYPE_COUNT_MAX
from skerry.schema.model import EnumType, Flags, NamedType, StructType, content_of


@lru_cache(maxsize=TYPE_COUNT_MAX)
def fingerprint(type_: NamedType) -> int:
    """The fingerprint of a type, a signed 64-bit number."""
    if isinstance(type_, EnumType):
        return hash64(cbor.dumps([type_.name, [[e.tag, e.name] for e in type_.elements]]))
    used: dict[str, int] = {}
    fields = []
    for item in type_.fields:
        fields.append([item.tag, item.name, item.type.name, item.is_key])
        inner = content_of(item.type)
        if isinstance(inner, (StructType, EnumType)):
            used[inner.name] = fingerprint(inner)
    scope = int(type_.effective_scope)
    return hash64(cbor.dumps([type_.name, _flags(type_.flags), scope, fields, [*used.values()]]))


def _flags(flags: Flags) -> list[bool]:
    """In the order of the tags of DotsStructFlags."""
    return [
        flags.cached,
        flags.internal,
        flags.persistent,
        flags.cleanup,
        flags.local,
        flags.substruct_only,
    ]
