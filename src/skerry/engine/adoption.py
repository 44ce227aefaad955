"""Stored objects under a new definition of their type: whether they can stay, and as which bytes.

Objects outlive the programs that published them, so a program may come back with another
definition of a stored type. What `schema.evolve` says about stored data decides. What it lets
pass is written anew under the new definition, so that no byte of a dropped field stays behind for
a later field with the same tag to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.schema.evolve import Change, Effect, compare
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import FieldType, NamedType, StructType, VectorType, content_of

__all__ = ["Adoption", "plan_adoption", "with_part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What becomes of stored objects of `old` when their type is to be `new`."""

    old: StructType
    new: StructType
    changes: tuple[Change, ...]
    """All differences, with what each does to stored data."""
    reason: str
    """Why the objects cannot be taken over; empty when they can."""

    @property
    def is_possible(self) -> bool:
        """Whether every stored object can be read as one of the new type."""
        return not self.reason

    @property
    def losses(self) -> tuple[Change, ...]:
        """The changes by which objects stay readable, but a value is missed or misread."""
        return tuple(change for change in self.changes if change.stored == Effect.LOSES)

    def convert(self, payload: bytes) -> bytes:
        """A stored payload as an encoder of the new type writes it; its key is the same.

        DecodeError when the bytes are no object of the old type.
        """
        assert self.is_possible, self.reason
        normalize = codec_of(class_of(self.new)).normalize
        return normalize(payload)


def plan_adoption(old: StructType, new: StructType) -> Adoption:
    """Judge the way from a stored definition to one that a program brings."""
    changes = compare(old, new)
    return Adoption(old=old, new=new, changes=changes, reason=_reason(old, new, changes))


def with_part(struct: StructType, part: NamedType) -> StructType:
    """The struct made of `part` wherever it was made of the type of that name.

    A program describes the parts of a type before the type itself. With this the node can ask what
    the new definition of a part would do to every stored type that is made of it.
    """
    fields = tuple(replace(item, type=_replaced(item.type, part)) for item in struct.fields)
    return struct if fields == struct.fields else replace(struct, fields=fields)


def _replaced(type_: FieldType, part: NamedType) -> FieldType:
    if isinstance(type_, VectorType):
        return VectorType(_replaced(type_.element, part))
    if type_.name == part.name:
        return part
    return with_part(type_, part) if isinstance(type_, StructType) else type_


def _reason(old: StructType, new: StructType, changes: tuple[Change, ...]) -> str:
    for change in changes:
        if change.stored == Effect.BREAKS:
            return str(change)
    # Not a matter of reading: somebody's other opinion must not be enough to lose what is stored.
    if not (new.flags.persistent and new.flags.cached):
        return f"{new.name}: it would no longer be stored; remove its objects first"
    for used, was in _key_structs(old, new):
        # The bytes of a struct are the key. A field less in it, and two objects become one.
        if fingerprint(used) != fingerprint(was):
            return f"{new.name}: keys are made of {used.name}, which has changed"
    return ""


def _key_structs(old: StructType, new: StructType) -> Iterator[tuple[StructType, StructType]]:
    """The structs in keys, as they are and as they were. The tags of the keys are the same."""
    before = {item.tag: content_of(item.type) for item in old.key_fields}
    for item in new.key_fields:
        used, was = content_of(item.type), before[item.tag]
        if isinstance(used, StructType) and isinstance(was, StructType):
            yield used, was
