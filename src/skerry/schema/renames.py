"""Finds renamed types among the removed and the added types of two sets.

Definitions do not state that. An added type is considered a renamed one if more than half of its
fields or elements are transmitted alike, or all but one of them, and at least one has kept its
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from skerry.schema.model import EnumType, FieldType, NamedType, RefType, StructType, VectorType

RENAME_WORK_MAX: Final = 2_000_000
"""Fields and elements that one comparison of two sets of types examines to find renamed ones that
also changed: enough for hundreds of renamed types, in about a second. Beyond it they are reported
as removed and added."""


def renames(gone: Sequence[NamedType], came: Sequence[NamedType]) -> dict[str, str]:
    """The new names of renamed types by their old names.

    In `gone` and `came`, a type must follow the types inside it: a field whose type was renamed
    then counts as the same field.
    """
    found: dict[str, str] = {}
    _pair_equals(gone, came, found)
    _pair_alikes(gone, came, found)
    return found


_Part: TypeAlias = tuple[int, str, bool, str]
"""Tag, type, whether it is a key, and name. Elements of enums are all of one type."""


def _pair_equals(
    gone: Sequence[NamedType], came: Sequence[NamedType], found: dict[str, str]
) -> None:
    """Match types that differ only in their name; the first of several equal ones."""
    by_parts: dict[tuple[type, frozenset[_Part]], list[str]] = {}
    for type_ in reversed(came):
        by_parts.setdefault((type(type_), _parts(type_, {})), []).append(type_.name)
    for type_ in gone:
        names = by_parts.get((type(type_), _parts(type_, found)))
        if names:
            found[type_.name] = names.pop()


def _pair_alikes(
    gone: Sequence[NamedType], came: Sequence[NamedType], found: dict[str, str]
) -> None:
    """Match each remaining type with the most similar one."""
    taken = {*found.values()}
    rest = {type_.name: (type(type_), _parts(type_, {})) for type_ in came}
    rest = {name: one for name, one in rest.items() if name not in taken}
    work = 0
    for type_ in gone:
        if type_.name in found:
            continue
        parts = _parts(type_, found)
        work += sum(len(parts) + len(others) for _, others in rest.values())
        if work > RENAME_WORK_MAX:
            return
        likeness = {
            name: _likeness(parts, others)
            for name, (kind, others) in rest.items()
            if kind is type(type_)
        }
        best = max(likeness, key=lambda name: likeness[name], default=None)
        if best is not None and likeness[best] > (0, 0):
            found[type_.name] = best
            del rest[best]


def _likeness(old: frozenset[_Part], new: frozenset[_Part]) -> tuple[int, int]:
    """How many parts have the same encoding, and how many of these the same name."""
    named_count = len(old & new)
    count = len({part[:3] for part in old} & {part[:3] for part in new})
    fewer, more = sorted((len(old), len(new)))
    is_alike = 2 * count > more or (count == fewer and more - fewer == 1)
    return (count, named_count) if is_alike and named_count else (0, 0)


def _parts(type_: NamedType, renamed: Mapping[str, str]) -> frozenset[_Part]:
    if isinstance(type_, EnumType):
        # Almost all enums have the tags 1, 2, 3, so elements are compared by tag and name.
        return frozenset((item.tag, item.name, False, item.name) for item in type_.elements)
    assert isinstance(type_, StructType)
    return frozenset(
        (field.tag, _type_name(field.type, type_.name, renamed), field.is_key, field.name)
        for field in type_.fields
    )


def _type_name(type_: FieldType, owner: str, renamed: Mapping[str, str]) -> str:
    if isinstance(type_, VectorType):
        return f"vector<{_type_name(type_.element, owner, renamed)}>"
    if isinstance(type_, RefType) and type_.target is not None:
        # A reference to its own type still is one after a rename.
        target = "" if type_.target == owner else renamed.get(type_.target, type_.target)
        return f"instance_ref<{target}>"
    return renamed.get(type_.name, type_.name)
