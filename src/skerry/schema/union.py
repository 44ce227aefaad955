"""The union of compatible definitions of one type: what a node serves while several are in use.

Programs do not change at the same time, so a node receives several definitions of one name. Two of
them are compatible if one definition can hold what programs with either of them publish. Their
union has the fields of both, the wider type where they differ, and all elements of an enum. A node
sends a program with a narrower definition the part of each object that this program can read.

`obstacle`, `unite` and `covers` examine one level: types inside are compared by name only, and
their own definitions are united separately. `unite_deep` unites all levels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skerry.limits import TYPE_DEPTH_MAX
from skerry.schema.changes import Change, What
from skerry.schema.evolve import compare_one
from skerry.schema.model import (
    EnumType,
    Field,
    FieldType,
    Flags,
    NamedType,
    StructType,
    VectorType,
    content_of,
    dependencies,
    with_parts,
)
from skerry.schema.reading import Effect, reads

_SHIELDED: Final = frozenset(
    {
        What.BECAME_INTERNAL,
        What.BECAME_SUBSTRUCT_ONLY,
        What.ELEMENT_ADDED,
        What.ELEMENT_REMOVED,
        What.TYPE_NARROWED,
        What.TYPE_WIDENED,
    }
)
"""Changes that break readers of the narrower side. The node withholds from them the values that
they cannot read, and serves a type as its least restricted definition, so these changes do not keep
definitions apart."""


def obstacle(known: NamedType, other: NamedType) -> Change | None:
    """The first difference that keeps two definitions from being served together, or None."""
    for change in compare_one(known, other):
        effects = (change.old_reader, change.new_reader, change.stored)
        if change.what not in _SHIELDED and Effect.BREAKS in effects:
            return change
    return None


def unite(known: NamedType, other: NamedType) -> NamedType:
    """The union of two definitions without an obstacle.

    Names, order and documentation are those of `known`; what only `other` has follows. A flag that
    keeps objects is set if either has it, one that removes or restricts them only if both have it.
    """
    if isinstance(known, EnumType):
        assert isinstance(other, EnumType)
        tags = {element.tag for element in known.elements}
        elements = (*known.elements, *(e for e in other.elements if e.tag not in tags))
        # Equal parts are reused: making them takes long, and unions are computed often.
        return known if elements == known.elements else replace(known, elements=elements)
    assert isinstance(other, StructType)
    theirs = {item.tag: item for item in other.fields}
    fields = (
        *(_united_field(item, theirs.pop(item.tag, item)) for item in known.fields),
        *theirs.values(),
    )
    flags = _united_flags(known.flags, other.flags)
    documentation = known.documentation or other.documentation
    scope = max(known.effective_scope, other.effective_scope)
    is_same = fields == known.fields and flags == known.flags and not known.removed
    if is_same and documentation == known.documentation and scope == known.effective_scope:
        return known
    united = replace(known, fields=fields, flags=flags, removed=(), documentation=documentation)
    return united if united.effective_scope == scope else replace(united, scope=scope)


def unite_deep(known: StructType, other: StructType) -> StructType | Change:
    """The union of two structs and of all types inside, or the difference that prevents it."""
    theirs = {part.name: part for part in (*dependencies(other), other)}
    ours = {part.name: part for part in (*dependencies(known), known)}
    for name, part in ours.items():
        change = obstacle(part, theirs[name]) if name in theirs else None
        if change is not None:
            return change
    united: dict[str, NamedType] = {}
    # Parts come before the types that use them, in both.
    for name, part in {**theirs, **ours}.items():
        merged = unite(part, theirs[name]) if name in ours and name in theirs else part
        united[name] = merged
    fault = _nesting_fault(known.name, united)
    return _resolved(known.name, united, {}) if fault is None else fault


def covers(union: NamedType, definition: NamedType) -> bool:
    """Whether a union that was made without a definition can hold every object of it."""
    if obstacle(union, definition) is not None:
        return False
    if isinstance(union, EnumType):
        return unite(union, definition) == union
    assert isinstance(definition, StructType)
    if _united_flags(union.flags, definition.flags) != union.flags:
        return False
    if definition.effective_scope > union.effective_scope:
        return False
    ours = {item.tag: item.type for item in union.fields}
    return all(
        item.tag in ours and _reads_level(ours[item.tag], item.type) for item in definition.fields
    )


def reads_all(reader: StructType, writer: StructType) -> bool:
    """Whether a program with one definition can read every object of another.

    The program skips tags that it does not know.
    """
    return _reads_struct(reader, writer, set())


def _reads_struct(reader: StructType, writer: StructType, seen: set[tuple[bytes, bytes]]) -> bool:
    pair = (reader.identity, writer.identity)
    if reader is writer or pair in seen:
        return True
    seen.add(pair)
    ours = {item.tag: item.type for item in reader.fields}
    return all(
        _reads_value(ours[item.tag], item.type, seen) for item in writer.fields if item.tag in ours
    )


def _reads_value(reader: FieldType, writer: FieldType, seen: set[tuple[bytes, bytes]]) -> bool:
    if isinstance(reader, VectorType) and isinstance(writer, VectorType):
        return _reads_value(reader.element, writer.element, seen)
    if isinstance(reader, StructType) and isinstance(writer, StructType):
        return _reads_struct(reader, writer, seen)
    return reads(reader, writer)[0] != Effect.BREAKS


def _nesting_fault(root: str, united: dict[str, NamedType]) -> Change | None:
    """Why a union is not possible although all of its parts can be united.

    Together they may nest structs too deep, or in a cycle.
    """
    depths: dict[str, int] = {}
    # Each name with whether the depths of its parts are known.
    waiting: list[tuple[str, bool]] = [(root, False)]
    open_: set[str] = set()
    while waiting:
        name, has_parts = waiting.pop()
        used = _used_names(united[name])
        if has_parts:
            open_.discard(name)
            depths[name] = 1 + max((depths[part] for part in used), default=0)
            if depths[name] > TYPE_DEPTH_MAX:
                return _nesting_change(name, f"nested over {TYPE_DEPTH_MAX} deep")
        elif name in open_:
            return _nesting_change(name, "it would contain itself")
        elif name not in depths:
            open_.add(name)
            waiting.append((name, True))
            waiting += [(part, False) for part in used]
    return None


def _nesting_change(name: str, detail: str) -> Change:
    why = "both definitions together nest structs in a way that no type can"
    breaks = Effect.BREAKS
    return Change(What.TYPE_CHANGED, name, detail, breaks, breaks, breaks, why)


def _used_names(type_: NamedType) -> list[str]:
    """Names of the structs and enums that a type uses directly."""
    items = type_.fields if isinstance(type_, StructType) else ()
    used = [content_of(item.type) for item in items]
    return [part.name for part in used if isinstance(part, (EnumType, StructType))]


def _resolved(name: str, united: dict[str, NamedType], done: dict[str, NamedType]) -> StructType:
    """A united struct with united types inside."""
    found = done.get(name)
    if found is None:
        found = united[name]
        if isinstance(found, StructType):
            parts = {
                used.name: _resolved(used.name, united, done)
                for used in map(content_of, (item.type for item in found.fields))
                if isinstance(used, (EnumType, StructType))
            }
            found = with_parts(found, parts)
        done[name] = found
    return found  # type: ignore[return-value]


def _reads_level(reader: FieldType, writer: FieldType) -> bool:
    return reader.name == writer.name or reads(reader, writer)[0] == Effect.FINE


def _united_field(item: Field, twin: Field) -> Field:
    if _reads_level(item.type, twin.type) or not _reads_level(twin.type, item.type):
        return item
    return replace(item, type=twin.type)


def _united_flags(known: Flags, other: Flags) -> Flags:
    return replace(
        known,
        cached=known.cached or other.cached,
        persistent=known.persistent or other.persistent,
        cleanup=known.cleanup and other.cleanup,
        internal=known.internal and other.internal,
        local=known.local and other.local,
        substruct_only=known.substruct_only and other.substruct_only,
    )
