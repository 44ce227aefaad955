"""What a reader with one type gets from values that were written with another type.

The rules are those of the wire: a number or float must not be wider than the type of the reader,
times are floats, enums are transmitted as tags and structs as maps of tags, unknown tags of structs
are skipped, and text is not the same as bytes.
"""

from __future__ import annotations

import enum
from typing import Final

from skerry.schema.model import EnumType, FieldType, Kind, RefType, StructType, VectorType


class Effect(enum.IntEnum):
    """The effect of a change on a reader. Higher is worse."""

    FINE = 0
    """It reads the object as the writer meant it."""
    LOSES = 1
    """It reads the object, but misses the value or misinterprets it."""
    BREAKS = 2
    """Some values make the whole object unreadable, or are read as another object or field."""


_SIGNED: Final = {Kind[f"INT{bits}"]: bits for bits in (8, 16, 32, 64)}
_UNSIGNED: Final = {Kind[f"UINT{bits}"]: bits for bits in (8, 16, 32, 64)} | {Kind.PROPERTY_SET: 32}
_FLOATS: Final = {Kind[f"FLOAT{bits}"]: bits for bits in (16, 32, 64)} | dict.fromkeys(
    (Kind.TIMEPOINT, Kind.STEADY_TIMEPOINT, Kind.DURATION), 64
)
_MEANINGS: Final = {
    Kind.TIMEPOINT: "time",
    Kind.STEADY_TIMEPOINT: "steady time",
    Kind.DURATION: "duration",
    Kind.PROPERTY_SET: "property set",
}

_Result = tuple[Effect, str]
_SAME: Final[_Result] = (Effect.FINE, "both read the same")


def reads(reader: FieldType, writer: FieldType) -> _Result:
    """The effect on a reader of type `reader` of values of type `writer`, and why."""
    return _reads(reader, writer, set())


def _reads(reader: FieldType, writer: FieldType, seen: set[tuple[str, str]]) -> _Result:
    """`seen` has the pairs of structs that were compared: a pair may occur many times."""
    if isinstance(reader, VectorType) and isinstance(writer, VectorType):
        return _reads(reader.element, writer.element, seen)
    if isinstance(reader, StructType) and isinstance(writer, StructType):
        return _reads_struct(reader, writer, seen)
    if isinstance(writer, EnumType):
        return _reads_enum(reader, writer)
    if isinstance(reader, RefType) and isinstance(writer, RefType):
        return _reads_reference(reader, writer)
    if reader.kind == writer.kind and reader.kind != Kind.ENUM:
        return _SAME
    if reader.kind == Kind.ENUM and writer.kind in _UNSIGNED:
        return (
            Effect.BREAKS,
            "a number that is not a tag of the enum makes the whole object unreadable",
        )
    return _reads_scalar(reader.kind, writer.kind)


def _reads_scalar(reader: Kind, writer: Kind) -> _Result:
    if reader in _FLOATS and writer in _FLOATS:
        return _reads_float(reader, writer)
    if reader in _UNSIGNED and writer in _UNSIGNED:
        fits = _UNSIGNED[writer] <= _UNSIGNED[reader]
        return _meant(reader, writer) if fits else _too_wide(writer)
    if reader in _SIGNED and writer in _SIGNED:
        return _SAME if _SIGNED[writer] <= _SIGNED[reader] else _too_wide(writer)
    if reader in _SIGNED and writer in _UNSIGNED:
        fits = _UNSIGNED[writer] < _SIGNED[reader]
        return _meant(reader, writer) if fits else _too_wide(writer)
    if reader in _UNSIGNED and writer in _SIGNED:
        return Effect.BREAKS, "a negative number is not an unsigned one"
    if (reader, writer) == (Kind.BYTES, Kind.UUID):
        return Effect.FINE, "a uuid is transmitted as 16 bytes"
    if (reader, writer) == (Kind.UUID, Kind.BYTES):
        return Effect.BREAKS, "bytes of another length than 16 are not a uuid"
    return Effect.BREAKS, f"{_spoken(writer)} is not {_spoken(reader)} on the wire"


def _reads_float(reader: Kind, writer: Kind) -> _Result:
    # Times are read from any float; a float type only from a float that is not wider.
    if reader not in _MEANINGS and _FLOATS[writer] > _FLOATS[reader]:
        width = f"float{_FLOATS[writer]}"
        return Effect.BREAKS, f"a reader of {reader.name.lower()} rejects every {width}"
    return _meant(reader, writer)


def _meant(reader: Kind, writer: Kind) -> _Result:
    if _MEANINGS.get(reader) == _MEANINGS.get(writer):
        return _SAME
    seen = _MEANINGS.get(reader, "plain number")
    return Effect.LOSES, f"the bytes fit, but are read as a {seen}"


def _too_wide(writer: Kind) -> _Result:
    return Effect.BREAKS, f"large numbers of {writer.name.lower()} are rejected as too wide"


def _reads_enum(reader: FieldType, writer: EnumType) -> _Result:
    if isinstance(reader, EnumType):
        known = {element.tag: element.name for element in reader.elements}
        if any(element.tag not in known for element in writer.elements):
            return (
                Effect.BREAKS,
                "a tag that the reader does not know makes the whole object unreadable",
            )
        if any(known[element.tag] != element.name for element in writer.elements):
            return Effect.LOSES, "tags have other names for the reader"
        return _SAME
    width = _UNSIGNED.get(reader.kind) or _SIGNED.get(reader.kind, 0) - 1
    if max(element.tag for element in writer.elements).bit_length() <= width:
        return Effect.LOSES, "the reader sees the tag of the element as a number"
    return Effect.BREAKS, f"the tag of an element is not {_spoken(reader.kind)} on the wire"


def _reads_struct(reader: StructType, writer: StructType, seen: set[tuple[str, str]]) -> _Result:
    # Changes inside a struct that keeps its name are reported for that struct itself.
    if reader.name == writer.name or (reader.name, writer.name) in seen:
        return _SAME
    seen.add((reader.name, writer.name))
    fields = {field.tag: field for field in reader.fields}
    worst: _Result = _SAME
    for field in writer.fields:
        if field.tag in fields:
            result = _reads(fields[field.tag].type, field.type, seen)
            worst = max(worst, result, key=lambda r: r[0])
    if worst[0] < Effect.LOSES and _shape(reader) != _shape(writer):
        return Effect.LOSES, "some fields do not exist in the other struct"
    return worst


def _shape(struct: StructType) -> set[tuple[int, str]]:
    return {(field.tag, field.name) for field in struct.fields}


def _reads_reference(reader: RefType, writer: RefType) -> _Result:
    if reader.target == writer.target:
        return _SAME
    if reader.target is None or writer.target is None:
        return Effect.BREAKS, "only one of them names its target type"
    return Effect.LOSES, f"the key is looked up among objects of {reader.target}"


def _spoken(kind: Kind) -> str:
    name = kind.name.lower()
    return f"{'an' if name[0] in 'aei' else 'a'} {name}"
