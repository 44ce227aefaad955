"""Compares definitions of a type: which changes are compatible with which readers.

Many programs and stored data use a type, and they do not change at the same time. For each change
between two definitions this module determines the effect on three readers: a program with the old
definition that receives new data, a program with the new definition that receives old data, and a
program with the new definition that reads data stored under any earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from skerry.schema.changes import Change, Verdict, What, change, verdict
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    Kind,
    NamedType,
    StructType,
    content_of,
    dependencies,
)
from skerry.schema.reading import Effect, reads
from skerry.schema.renames import renames

__all__ = [
    "Change",
    "Effect",
    "Verdict",
    "What",
    "compare",
    "compare_all",
    "compare_one",
    "verdict",
]

_Part = TypeVar("_Part", Field, EnumElement)


def compare(old: NamedType, new: NamedType) -> tuple[Change, ...]:
    """The changes from `old` to `new`, and those of the types inside both, each once."""
    used_old = {type_.name: type_ for type_ in dependencies(old)}
    used_new = {type_.name: type_ for type_ in dependencies(new)}
    keys = _key_names([old, new, *used_old.values(), *used_new.values()])
    changes = list(compare_one(old, new, keys))
    for name, type_ in used_old.items():
        if name in used_new:
            changes += compare_one(type_, used_new[name], keys)
    return tuple(changes)


def compare_all(old: Iterable[NamedType], new: Iterable[NamedType]) -> tuple[Change, ...]:
    """The changes between two sets of types, matched by name; renamed types by similarity."""
    before, after = _by_name(old), _by_name(new)
    keys = _key_names([*before.values(), *after.values()])
    renamed = renames(
        [type_ for name, type_ in before.items() if name not in after],
        [type_ for name, type_ in after.items() if name not in before],
    )
    changes: list[Change] = []
    for name, type_ in before.items():
        twin = after.get(renamed.get(name, name))
        if twin is not None:
            changes += compare_one(type_, twin, keys)
        else:
            changes.append(change(What.TYPE_REMOVED, name, _spoken(type_)))
    known = {*before, *renamed.values()}
    for name, type_ in after.items():
        if name not in known:
            changes.append(change(What.TYPE_ADDED, name, _spoken(type_)))
    return tuple(changes)


def _by_name(types: Iterable[NamedType]) -> dict[str, NamedType]:
    return {used.name: used for type_ in types for used in (*dependencies(type_), type_)}


def _key_names(types: Iterable[NamedType]) -> frozenset[str]:
    """The names of the types of key fields.

    Types inside these are left out: a struct or vector is part of a subject as its bytes.
    """
    structs = (type_ for type_ in types if isinstance(type_, StructType))
    return frozenset(field.type.name for struct in structs for field in struct.key_fields)


def _spoken(type_: NamedType) -> str:
    return f"{type_.kind.name.lower()} {type_.name}"


def compare_one(
    old: NamedType, new: NamedType, keys: frozenset[str] = frozenset()
) -> Iterator[Change]:
    """The changes of one type without those of the types inside.

    `keys` has the names of the types of key fields.
    """
    if isinstance(old, StructType) and isinstance(new, StructType):
        yield from _compare_structs(old, new)
        yield from _compare_key_structs(old, new)
    elif isinstance(old, EnumType) and isinstance(new, EnumType):
        yield from _compare_enums(old, new, is_key=new.name in keys)
    else:
        yield change(What.TYPE_REPLACED, old.name, f"{_spoken(old)} to {_spoken(new)}")


# -- structs


def _compare_structs(old: StructType, new: StructType) -> Iterator[Change]:
    if old.name != new.name:
        yield change(What.TYPE_RENAMED, old.name, f"to {new.name}")
    yield from _compare_flags(old, new)
    yield from _compare_scopes(old, new)
    yield from _compare_fields(old, new)
    yield from _compare_removed(old, new)
    if old.is_deprecated != new.is_deprecated:
        yield change(What.DEPRECATION_CHANGED, old.name, _on_off(is_on=new.is_deprecated))
    yield from _compare_notes(old.name, old, new)


_FLAG_CHANGES: Final[dict[str, tuple[What, What]]] = {
    "cached": (What.BECAME_CACHED, What.BECAME_UNCACHED),
    "internal": (What.BECAME_INTERNAL, What.NO_LONGER_INTERNAL),
    "persistent": (What.BECAME_PERSISTENT, What.NO_LONGER_PERSISTENT),
    "cleanup": (What.CLEANUP_CHANGED, What.CLEANUP_CHANGED),
    "local": (What.LOCAL_CHANGED, What.LOCAL_CHANGED),
    "substruct_only": (What.BECAME_SUBSTRUCT_ONLY, What.NO_LONGER_SUBSTRUCT_ONLY),
}
"""The kind of change if a flag is switched on, and if it is switched off."""


def _compare_flags(old: StructType, new: StructType) -> Iterator[Change]:
    for name, (on, off) in _FLAG_CHANGES.items():
        is_on = getattr(new.flags, name)
        if is_on != getattr(old.flags, name):
            yield change(on if is_on else off, old.name, f"{name} {_on_off(is_on=is_on)}")


def _compare_scopes(old: StructType, new: StructType) -> Iterator[Change]:
    before, after = old.effective_scope, new.effective_scope
    detail = f"{before.name.lower()} to {after.name.lower()}"
    if after < before:
        yield change(What.SCOPE_NARROWED, old.name, detail)
    elif after > before:
        yield change(What.SCOPE_WIDENED, old.name, detail)
    elif old.scope != new.scope:
        yield change(What.SCOPE_WRITTEN, old.name, after.name.lower())


def _compare_fields(old: StructType, new: StructType) -> Iterator[Change]:
    yield from _compare_parts(
        old.name,
        old.fields,
        new.fields,
        What.FIELD_RETAGGED,
        compare_two=_compare_field,
        gone=lambda where, item: _gone(where, item, new),
        came=lambda where, item: _came(where, item, old),
    )


def _compare_key_structs(old: StructType, new: StructType) -> Iterator[Change]:
    """Changes of structs that are key fields and have the same name in both."""
    before = {item.tag: content_of(item.type) for item in old.key_fields}
    for item in new.key_fields:
        used, was = content_of(item.type), before.get(item.tag)
        if not isinstance(used, StructType) or not isinstance(was, StructType):
            continue
        if used.name == was.name and fingerprint(used) != fingerprint(was):
            yield change(What.KEY_STRUCT_CHANGED, f"{old.name}.{item.name}", used.name)


def _gone(where: str, item: Field, new: StructType) -> Change:
    if item.is_key:
        return change(What.KEY_REMOVED, where, f"tag {item.tag}")
    is_reserved = any(item.tag == removed.tag for removed in new.removed)
    what = What.FIELD_REMOVED if is_reserved else What.FIELD_DROPPED
    return change(what, where, f"tag {item.tag}")


def _came(where: str, item: Field, old: StructType) -> Iterator[Change]:
    detail = f"{item.tag}: {item.type.name} {item.name}"
    for removed in old.removed:
        is_same = (removed.name, removed.type_name) == (item.name, item.type.name)
        if removed.tag == item.tag and not is_same:
            was = f"{removed.type_name} {removed.name}"
            yield change(What.TAG_REUSED, where, f"{detail}, removed was {was}")
    yield change(What.KEY_ADDED if item.is_key else What.FIELD_ADDED, where, detail)


def _compare_field(where: str, old: Field, new: Field) -> Iterator[Change]:
    if old.name != new.name and old.type.name != new.type.name:
        yield _replaced(where, old, new)
    elif old.name != new.name:
        yield change(What.FIELD_RENAMED, where, f"to {new.name}")
    elif old.type.name != new.type.name:
        yield _retyped(where, old, new)
    if old.is_key != new.is_key:
        what = What.BECAME_KEY if new.is_key else What.NO_LONGER_KEY
        yield change(what, where, f"key {_on_off(is_on=new.is_key)}")
    if old.default != new.default:
        yield change(What.DEFAULT_CHANGED, where, f"{old.default} to {new.default}")
    if old.is_ctor != new.is_ctor:
        yield change(What.CONSTRUCTOR_CHANGED, where, f"ctor {_on_off(is_on=new.is_ctor)}")
    if old.is_deprecated != new.is_deprecated:
        yield change(What.DEPRECATION_CHANGED, where, _on_off(is_on=new.is_deprecated))
    yield from _compare_notes(where, old, new)


def _retyped(where: str, old: Field, new: Field) -> Change:
    old_reader, old_why = reads(old.type, new.type)
    new_reader, new_why = reads(new.type, old.type)
    stored = new_reader
    what = What.TYPE_CHANGED
    if old.is_key and new.is_key and _key_form(old.type.kind) != _key_form(new.type.kind):
        stored = Effect.BREAKS
        new_why = "the bytes of the key change, so old objects are different objects"
    elif new_reader == Effect.FINE and old_reader == Effect.BREAKS:
        what = What.TYPE_WIDENED
    elif old_reader == Effect.FINE and new_reader == Effect.BREAKS:
        what = What.TYPE_NARROWED
    detail, why = f"{old.type.name} to {new.type.name}", _both_reasons(old_why, new_why)
    return Change(what, where, detail, old_reader, new_reader, stored, why)


def _replaced(where: str, old: Field, new: Field) -> Change:
    """A tag with another name and another type is another field, even if the bytes fit."""
    old_reader, old_why = reads(old.type, new.type)
    new_reader, new_why = reads(new.type, old.type)
    detail = f"{old.type.name} {old.name} to {new.type.name} {new.name}"
    old_reader, new_reader = max(old_reader, Effect.LOSES), max(new_reader, Effect.LOSES)
    why = f"a tag never changes its meaning; {_both_reasons(old_why, new_why)}"
    return Change(What.FIELD_REPLACED, where, detail, old_reader, new_reader, new_reader, why)


def _both_reasons(old_why: str, new_why: str) -> str:
    if old_why == new_why:
        return f"old and new readers: {old_why}"
    return f"old readers: {old_why}; new readers: {new_why}"


_INTEGERS: Final = frozenset({*range(Kind.INT8, Kind.UINT64 + 1), Kind.PROPERTY_SET, Kind.ENUM})
_TIMES: Final = frozenset({Kind.FLOAT64, Kind.TIMEPOINT, Kind.STEADY_TIMEPOINT, Kind.DURATION})


def _key_form(kind: Kind) -> str:
    """The encoding of a key of this kind: integers of every width have the same shortest form."""
    if kind in _INTEGERS:
        return "integer"
    return "float64" if kind in _TIMES else kind.name


def _compare_removed(old: StructType, new: StructType) -> Iterator[Change]:
    before = {item.tag: item for item in old.removed}
    after = {item.tag: item for item in new.removed}
    used_before = {item.tag for item in old.fields}
    used_after = {item.tag for item in new.fields}
    for tag, item in before.items():
        where = f"{old.name}.{item.name}"
        if tag in after:
            if after[tag] != item:
                yield change(What.RESERVATION_EDITED, where, f"tag {tag}")
        elif tag not in used_after:
            yield change(What.TAG_RELEASED, where, f"tag {tag}")
    for tag, item in after.items():
        if tag not in before and tag not in used_before:
            yield change(What.TAG_RESERVED, f"{old.name}.{item.name}", f"tag {tag}")
    yield from _compare_order(old.name, list(before), list(after))


# -- enums


def _compare_enums(old: EnumType, new: EnumType, *, is_key: bool) -> Iterator[Change]:
    if old.name != new.name:
        yield change(What.TYPE_RENAMED, old.name, f"to {new.name}")
    yield from _compare_parts(
        old.name,
        old.elements,
        new.elements,
        What.ELEMENT_RETAGGED,
        compare_two=partial(_compare_element, is_key=is_key),
        gone=lambda where, item: change(What.ELEMENT_REMOVED, where, f"tag {item.tag}"),
        came=lambda where, item: [change(What.ELEMENT_ADDED, where, f"tag {item.tag}")],
    )
    yield from _compare_notes(old.name, old, new)


def _compare_element(
    where: str, old: EnumElement, new: EnumElement, *, is_key: bool
) -> Iterator[Change]:
    if old.name != new.name:
        what = What.KEY_ELEMENT_RENAMED if is_key else What.ELEMENT_RENAMED
        yield change(what, where, f"to {new.name}")
    if old.value != new.value:
        yield change(What.VALUE_CHANGED, where, f"{old.value} to {new.value}")
    if old.documentation != new.documentation:
        yield change(What.DOCUMENTATION_CHANGED, where, "of the element")


# -- both


def _compare_parts(
    owner: str,
    old: Sequence[_Part],
    new: Sequence[_Part],
    retagged: What,
    *,
    compare_two: Callable[[str, _Part, _Part], Iterable[Change]],
    gone: Callable[[str, _Part], Change],
    came: Callable[[str, _Part], Iterable[Change]],
) -> Iterator[Change]:
    """The changes of the fields or elements of a type, which are matched by tag or by name."""
    names = {item.name: item for item in new}
    moved = {i.name for i in old if i.name in names and names[i.name].tag != i.tag}
    before, after = {item.tag for item in old}, {item.tag: item for item in new}
    for item in old:
        where = f"{owner}.{item.name}"
        heir = after.get(item.tag)
        if item.name in moved:
            twin = names[item.name]
            yield change(retagged, where, f"{item.tag} to {twin.tag}")
            yield from compare_two(where, item, twin)
        elif heir is None:
            yield gone(where, item)
        elif heir.name not in moved:
            yield from compare_two(where, item, heir)
        if heir is not None and moved & {item.name, heir.name}:
            # Its field or element got another tag: this is not a rename, even of equal types.
            yield change(What.TAG_TAKEN_OVER, where, f"tag {item.tag}, {item.name} to {heir.name}")
    for item in new:
        if item.tag not in before and item.name not in moved:
            yield from came(f"{owner}.{item.name}", item)
    yield from _compare_order(owner, [item.tag for item in old], [item.tag for item in new])


def _compare_order(where: str, old: Sequence[int], new: Sequence[int]) -> Iterator[Change]:
    common = {*old} & {*new}
    before = [tag for tag in old if tag in common]
    after = [tag for tag in new if tag in common]
    if before != after:
        yield change(What.ORDER_CHANGED, where, "tags " + ", ".join(map(str, after)))


def _compare_notes(where: str, old: Field | NamedType, new: Field | NamedType) -> Iterator[Change]:
    if old.options != new.options:
        yield change(What.OPTIONS_CHANGED, where, f"{_shown(old)} to {_shown(new)}")
    if old.documentation != new.documentation:
        yield change(What.DOCUMENTATION_CHANGED, where, "other text")


def _shown(item: Field | NamedType) -> str:
    return ", ".join(f"{name}={value}" for name, value in item.options) or "none"


def _on_off(*, is_on: bool) -> str:
    return "on" if is_on else "off"
