"""How objects are projected for a client whose definition differs from the served one.

A skerry program skips unknown tags, so it receives objects unchanged, as long as it can read every
value in them. A DOTS program receives no tag that its own definition does not have: some of them
skip long values wrongly and lose the connection.
"""

from __future__ import annotations

from skerry.codec.plans import StructPlan
from skerry.codec.projection import project
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.schema.model import FieldType, NamedType, StructType, content_of, dependencies
from skerry.schema.reading import Effect, reads
from skerry.schema.union import obstacle, reads_all


class Projection:
    def __init__(self, plan: StructPlan | None, mask: int = 0) -> None:
        self._plan = plan
        self.mask = mask
        """Fields that both definitions have."""

    @property
    def is_possible(self) -> bool:
        """Whether the program can read objects at all: it cannot if its keys differ."""
        return self._plan is not None

    def project(self, payload: bytes) -> bytes | None:
        """An object as the program reads it; None if the program cannot read its key."""
        if self._plan is None:
            return None
        data, present = project(self._plan, payload, self.mask)
        return None if self._plan.key_mask & ~present else data


def reading(own: NamedType, served: StructType, *, can_skip: bool) -> Projection | None:
    """The projection for a program with its own definition; None if objects are sent unchanged.

    `can_skip` is whether the program skips tags that it does not know.
    """
    if not isinstance(own, StructType):
        return Projection(None)
    mask = _common_fields(own, served)
    if mask is None:
        return Projection(None)
    is_known = can_skip or _knows_tags(own, served, set())
    if mask == own.mask and is_known and reads_all(own, served):
        return None
    return Projection(codec_of(class_of(own)).plan, mask)


def _common_fields(own: StructType, served: StructType) -> int | None:
    """A mask of the fields that mean the same in both definitions; None if a key is missing."""
    theirs = {part.name: part for part in dependencies(served)}
    apart = {
        part.name
        for part in dependencies(own)
        if part.name in theirs and obstacle(part, theirs[part.name]) is not None
    }
    by_tag = {item.tag: item for item in served.fields}
    mask = 0
    for item in own.fields:
        twin = by_tag.get(item.tag)
        is_moved = served.has_field(item.name) and served.field(item.name).tag != item.tag
        if is_moved or _names(item.type) & apart:
            continue
        if twin is not None:
            is_other = twin.name != item.name and twin.type.name != item.type.name
            is_other = is_other or not _may_read(item.type, twin.type)
            is_moved = own.has_field(twin.name) and own.field(twin.name).tag != twin.tag
            if is_other or is_moved or twin.is_key != item.is_key:
                continue
        mask |= 1 << item.tag
    keys = own.key_mask
    return mask if keys == served.key_mask and not keys & ~mask else None


def _may_read(one: FieldType, other: FieldType) -> bool:
    """Whether some values of either type can be read as the other."""
    if one.name == other.name:
        return True
    effects = reads(one, other)[0], reads(other, one)[0]
    return Effect.FINE in effects or Effect.BREAKS not in effects


def _names(type_: FieldType) -> set[str]:
    """Names of the types that a value of a type is made of."""
    used = content_of(type_)
    if isinstance(used, StructType):
        return {used.name, *(part.name for part in dependencies(used))}
    return {used.name}


def _knows_tags(own: StructType, served: StructType, seen: set[tuple[bytes, bytes]]) -> bool:
    """Whether a definition has every tag of the served one, also in the structs inside."""
    pair = (own.identity, served.identity)
    if own is served or pair in seen:
        return True
    seen.add(pair)
    ours = {item.tag: content_of(item.type) for item in own.fields}
    for item in served.fields:
        if item.tag not in ours:
            return False
        used, other = ours[item.tag], content_of(item.type)
        if not isinstance(used, StructType) or not isinstance(other, StructType):
            continue
        if not _knows_tags(used, other, seen):
            return False
    return True
