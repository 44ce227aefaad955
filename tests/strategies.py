"""Hypothesis strategies for valid types and objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from skerry import cbor, limits
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.objects.base import Struct, build
from skerry.objects.classes import class_of
from skerry.schema.language.syntax import join_documentation
from skerry.schema.model import (
    INTEGER_RANGES,
    SCALAR_KINDS,
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Flags,
    Kind,
    NamedType,
    Option,
    RefType,
    RemovedField,
    ScalarType,
    Scope,
    StructType,
    VectorType,
)
from skerry.schema.rules.options import FIELD_OPTIONS, STRUCT_OPTIONS
from skerry.schema.rules.typenames import BUILT_IN_NAMES

_WORDS = ("struct", "enum", "import", "package", "vector", "string", "id", "lat", "_", "Vessel")


def names() -> st.SearchStrategy[str]:
    """Names of the type language, including keywords."""
    made = st.text("abcxyzABCXYZ_019", min_size=1, max_size=8).map(_begun_rightly)
    longest = st.just("n" * limits.NAME_BYTES_MAX)
    return st.sampled_from(_WORDS) | made | longest


def documentation() -> st.SearchStrategy[str]:
    """Documentation that the language preserves: without trailing blanks and empty end lines."""
    line = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
    return st.just("") | st.lists(line, max_size=3).map(join_documentation)


def scalar_types() -> st.SearchStrategy[ScalarType]:
    """The built-in types."""
    return st.sampled_from(sorted(SCALAR_KINDS.values())).map(ScalarType)


def field_types(known: Sequence[NamedType] = ()) -> st.SearchStrategy[FieldType]:
    """Types of fields: built in, one of `known`, a reference, or a vector of these."""
    targets = [t.name for t in known if isinstance(t, StructType) and _is_target(t)]
    plain: st.SearchStrategy[FieldType] = scalar_types() | st.sampled_from(
        [RefType(), *(RefType(name) for name in targets)]
    )
    if known:
        plain = st.sampled_from(list(known)) | plain
    return plain | plain.map(VectorType)


@st.composite
def enum_types(draw: st.DrawFn, name: str | None = None) -> EnumType:
    """Enums with any tags and values."""
    tags = draw(st.lists(st.integers(1, limits.ENUM_TAG_MAX), min_size=1, max_size=6, unique=True))
    element_names = draw(_unique_names(len(tags)))
    elements = []
    for tag, element_name in zip(tags, element_names, strict=True):
        explicit = st.integers(-(2**31), 2**31 - 1)
        value = draw(st.just(tag - 1) | explicit)
        text = draw(documentation())
        elements.append(EnumElement(tag=tag, name=element_name, value=value, documentation=text))
    return EnumType(
        name=name or draw(_type_names()),
        elements=tuple(elements),
        documentation=draw(documentation()),
        options=draw(_options(set())),
    )


@st.composite
def struct_types(
    draw: st.DrawFn, name: str | None = None, known: Sequence[NamedType] = ()
) -> StructType:
    """Structs with any options, whose fields may be of the types in `known`."""
    tag = st.integers(limits.TAG_MIN, limits.TAG_MAX)
    tags = draw(st.lists(tag, min_size=1, max_size=8, unique=True))
    field_count = draw(st.integers(1, len(tags)))
    field_names = draw(_unique_names(field_count))
    fields = [
        draw(_fields(tag, field_name, known))
        for tag, field_name in zip(tags[:field_count], field_names, strict=True)
    ]
    removed = [draw(_removed_fields(tag)) for tag in tags[field_count:]]
    return StructType(
        name=name or draw(_type_names()),
        fields=tuple(fields),
        flags=draw(_flags()),
        scope=draw(st.none() | st.sampled_from(Scope)),
        is_deprecated=draw(st.booleans()),
        removed=tuple(removed),
        documentation=draw(documentation()),
        options=draw(_options(set(STRUCT_OPTIONS))),
    )


@st.composite
def type_sets(draw: st.DrawFn, *, count_max: int = 5) -> tuple[NamedType, ...]:
    """Types that use each other, each after those that it uses."""
    type_names = draw(st.lists(_type_names(), min_size=1, max_size=count_max, unique=True))
    types: list[NamedType] = []
    for name in type_names:
        if draw(st.booleans()):
            types.append(draw(enum_types(name)))
        else:
            types.append(draw(struct_types(name, tuple(types))))
    return tuple(types)


# -- objects


def objects_of(struct: StructType) -> st.SearchStrategy[Struct]:
    """Objects of a type with any of its fields set."""
    cls: type[Struct] = class_of(struct)
    values = [st.none() | values_of(field.type) for field in struct.fields]
    return st.tuples(*values).map(lambda drawn: build(cls, drawn))


def values_of(type_: FieldType) -> st.SearchStrategy[Any]:
    """Values of a field, including those at the limits of forms and ranges."""
    if isinstance(type_, StructType):
        return objects_of(type_)
    if isinstance(type_, EnumType):
        return st.sampled_from(list(class_of(type_)))
    if isinstance(type_, VectorType):
        few = st.lists(values_of(type_.element), max_size=3)
        # From 24 elements on the head is longer. One value is repeated.
        many = st.integers(23, 25).flatmap(
            lambda count: values_of(_element(type_)).map(lambda value: [value] * count)
        )
        return few | many
    if isinstance(type_, RefType):
        target = _wire_texts() if type_.target is None else st.just(type_.target)
        return st.builds(Ref, target, _keys())
    if type_.kind in _scalars():
        return _scalars()[type_.kind]
    return _integers(*INTEGER_RANGES[type_.kind])


@lru_cache(maxsize=1)
def _scalars() -> dict[Kind, st.SearchStrategy[Any]]:
    seconds = st.floats()
    return {
        Kind.BOOL: st.booleans(),
        Kind.FLOAT16: st.floats(width=16),
        Kind.FLOAT32: st.floats(width=32),
        Kind.FLOAT64: st.floats(),
        Kind.STRING: _wire_texts(),
        Kind.BYTES: _blobs(),
        Kind.UUID: st.uuids(),
        Kind.TIMEPOINT: seconds,
        Kind.STEADY_TIMEPOINT: seconds,
        Kind.DURATION: seconds,
        Kind.PROPERTY_SET: _integers(0, 2**32 - 1).map(PropertySet),
        Kind.ANY: st.builds(AnyObject, _wire_texts(), _blobs()),
    }


def _element(vector: VectorType) -> FieldType:
    return vector.element


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    borders = [0, *(2**bits for bits in (3, 4, 5, 7, 8, 15, 16, 31, 32, 62, 63, 64))]
    near = {sign * border + step for border in borders for sign in (1, -1) for step in (-1, 0, 1)}
    edges = sorted(number for number in {*near, 23, 24, -24, -25} if low <= number <= high)
    return st.sampled_from(edges) | st.integers(low, high)


def _blobs() -> st.SearchStrategy[bytes]:
    return st.binary(max_size=6) | st.sampled_from([22, 23, 24, 255, 256]).map(bytes)


def _wire_texts() -> st.SearchStrategy[str]:
    """Text as decoded from the wire: bytes that are not UTF-8 become surrogates."""
    return _texts() | _blobs().map(lambda data: data.decode("utf-8", "surrogateescape"))


def _keys() -> st.SearchStrategy[bytes]:
    parts = st.booleans() | _integers(-(2**63), 2**64 - 1) | _texts() | st.binary(max_size=30)
    return st.lists(parts, max_size=3).map(cbor.dumps)


# -- parts


def _begun_rightly(text: str) -> str:
    return f"_{text}" if text[0].isdigit() else text


def _texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=8)


def _type_names() -> st.SearchStrategy[str]:
    return names().filter(lambda name: name not in BUILT_IN_NAMES)


def _unique_names(count: int) -> st.SearchStrategy[list[str]]:
    return st.lists(names(), min_size=count, max_size=count, unique=True)


def _is_target(struct: StructType) -> bool:
    return not struct.flags.substruct_only


@st.composite
def _flags(draw: st.DrawFn) -> Flags:
    on = st.booleans()
    return Flags(
        cached=draw(on),
        internal=draw(on),
        persistent=draw(on),
        cleanup=draw(on),
        local=draw(on),
        substruct_only=draw(on),
    )


def _options(taken: set[str]) -> st.SearchStrategy[tuple[Option, ...]]:
    """Options that have no meaning in the language."""
    value = st.booleans() | _texts()
    name = names().filter(lambda name: name not in taken)
    pairs = st.lists(st.tuples(name, value), max_size=2, unique_by=lambda pair: pair[0])
    return st.just(()) | pairs.map(tuple)


@st.composite
def _fields(draw: st.DrawFn, tag: int, name: str, known: Sequence[NamedType]) -> Field:
    type_ = draw(field_types(known))
    return Field(
        tag=tag,
        name=name,
        type=type_,
        is_key=draw(st.booleans()),
        is_deprecated=draw(st.booleans()),
        is_ctor=draw(st.booleans()),
        default=draw(_defaults(type_)),
        documentation=draw(documentation()),
        options=draw(_options(set(FIELD_OPTIONS))),
    )


@st.composite
def _removed_fields(draw: st.DrawFn, tag: int) -> RemovedField:
    used = draw(scalar_types().map(lambda type_: type_.name) | names())
    is_plain = used not in {"vector", "instance_ref", "time_point"}
    return RemovedField(
        tag=tag,
        name=draw(names()),
        type_name=used if is_plain else f"instance_ref<{used}>",
        documentation=draw(documentation()),
    )


def _defaults(type_: FieldType) -> st.SearchStrategy[str | None]:
    values = _default_values(type_)
    return st.none() if values is None else st.none() | values


def _default_values(type_: FieldType) -> st.SearchStrategy[str] | None:
    if isinstance(type_, EnumType):
        return st.sampled_from([element.name for element in type_.elements]).map(json.dumps)
    if isinstance(type_, VectorType):
        return st.just("[]")
    if isinstance(type_, StructType):
        return st.just("{}")
    if type_.kind in INTEGER_RANGES:
        return st.integers(*INTEGER_RANGES[type_.kind]).map(json.dumps)
    return {
        Kind.BOOL: st.sampled_from(["true", "false"]),
        Kind.FLOAT32: st.floats(width=32, allow_nan=False, allow_infinity=False).map(json.dumps),
        Kind.FLOAT64: st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
        Kind.STRING: _texts().map(json.dumps),
        Kind.BYTES: st.binary(max_size=4).map(lambda data: json.dumps(data.hex())),
        Kind.UUID: st.uuids().map(lambda value: json.dumps(str(value))),
        Kind.TIMEPOINT: st.sampled_from(["0", "1700000000.5", '"2026-11-15T14:03:07Z"']),
        Kind.DURATION: st.floats(-1e6, 1e6).map(json.dumps),
    }.get(type_.kind)
