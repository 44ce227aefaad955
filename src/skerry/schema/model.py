"""The immutable model of types.

Everything else (text, Python classes, encoders, descriptors, tables) is made from these values.
Two types are the same if their values are equal, regardless of their source.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Final, TypeAlias


class Kind(enum.IntEnum):
    """The kind of a value. The numbers index the codec's tables and are never transmitted."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6
    UINT16 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12
    STRING = 13
    BYTES = 14
    UUID = 15
    TIMEPOINT = 16
    STEADY_TIMEPOINT = 17
    DURATION = 18
    PROPERTY_SET = 19
    ANY = 20
    REF = 21
    ENUM = 22
    STRUCT = 23
    VECTOR = 24


SCALAR_KINDS: Final[dict[str, Kind]] = {
    kind.name.lower(): kind for kind in Kind if kind <= Kind.ANY
}
"""Kinds of the built-in types by their name in the type language (`instance_ref` has a target,
see RefType)."""

INTEGER_RANGES: Final[dict[Kind, tuple[int, int]]] = {
    **{Kind[f"INT{bits}"]: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{Kind[f"UINT{bits}"]: (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    Kind.PROPERTY_SET: (0, 2**32 - 1),
}
"""Lowest and highest number of each kind."""


class Scope(enum.IntEnum):
    """How far updates of a type are distributed. The numbers are the tags of DotsStructScope."""

    PROGRAM = 1
    SERVER = 2
    SITE = 3
    GLOBAL = 4


Option: TypeAlias = tuple[str, "str | bool"]
"""An option that the language does not know: it is kept and written, and otherwise ignored."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    kind: Kind

    @property
    def name(self) -> str:
        return self.kind.name.lower()


@dataclass(frozen=True, slots=True)
class RefType:
    """A reference to an object: of the type named `target`, or of any type if None."""

    target: str | None = None

    kind: ClassVar[Kind] = Kind.REF

    @property
    def name(self) -> str:
        return "instance_ref" if self.target is None else f"instance_ref<{self.target}>"


@dataclass(frozen=True, slots=True)
class VectorType:
    """Any number of elements of one type, which is not itself a vector."""

    element: FieldType

    kind: ClassVar[Kind] = Kind.VECTOR

    @property
    def name(self) -> str:
        return f"vector<{self.element.name}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumElement:
    """One element of an enum: its tag is transmitted, its value is for programs."""

    tag: int
    name: str
    value: int
    documentation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumType:
    """A named set of elements, in declaration order."""

    name: str
    elements: tuple[EnumElement, ...]
    documentation: str = ""
    options: tuple[Option, ...] = ()

    kind: ClassVar[Kind] = Kind.ENUM


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    tag: int
    name: str
    type: FieldType
    is_key: bool = False
    is_deprecated: bool = False
    is_ctor: bool = False
    """Whether it may be passed to the constructor by position."""
    default: str | None = None
    """JSON text of the value in a new object if none is given; None leaves the field unset."""
    documentation: str = ""
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedField:
    """A field that was removed. Its tag is reserved, so that it gets no other meaning."""

    tag: int
    name: str
    type_name: str
    documentation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """How a node treats objects of a struct, in the order in which flags are written."""

    cached: bool = True
    cleanup: bool = False
    persistent: bool = False
    internal: bool = False
    local: bool = False
    substruct_only: bool = False

    def not_default(self) -> Iterator[tuple[str, bool]]:
        """The flags that do not have their default value, and so must be written."""
        for part in fields(self):
            value = getattr(self, part.name)
            if value != part.default:
                yield part.name, value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StructType:
    """A struct: fields in declaration order, which is also their order on the wire."""

    name: str
    fields: tuple[Field, ...]
    flags: Flags = Flags()
    scope: Scope | None = None
    """As written in the definition; None if it is left out (see `effective_scope`)."""
    is_deprecated: bool = False
    removed: tuple[RemovedField, ...] = ()
    documentation: str = ""
    options: tuple[Option, ...] = ()
    _by_name: dict[str, Field] = field(init=False, repr=False)
    identity: bytes = field(init=False, repr=False)
    """Hash of everything above. Types are compared and looked up by it: comparing the fields would
    take 31 times longer with every level of structs, and descriptors are untrusted input."""
    depth: int = field(init=False, repr=False)
    """Nesting depth of structs, this one counted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {item.name: item for item in self.fields})
        object.__setattr__(self, "identity", _identity(self))
        contents = (content_of(item.type) for item in self.fields)
        depths = (used.depth for used in contents if isinstance(used, StructType))
        object.__setattr__(self, "depth", 1 + max(depths, default=0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructType):
            return NotImplemented
        return self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    kind: ClassVar[Kind] = Kind.STRUCT

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The key fields in ascending order of tags, as in the canonical key."""
        return tuple(sorted((f for f in self.fields if f.is_key), key=lambda f: f.tag))

    @property
    def effective_scope(self) -> Scope:
        """The scope, or its default: `server` for internal and local types, `site` for others."""
        if self.scope is not None:
            return self.scope
        return Scope.SERVER if self.flags.internal or self.flags.local else Scope.SITE

    @property
    def mask(self) -> int:
        """Property set of all fields: bit n is set for tag n."""
        return sum(1 << item.tag for item in self.fields)

    @property
    def key_mask(self) -> int:
        """Property set of the key fields."""
        return sum(1 << item.tag for item in self.fields if item.is_key)

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError if there is none."""
        return self._by_name[name]

    def has_field(self, name: str) -> bool:
        return name in self._by_name


NamedType: TypeAlias = StructType | EnumType
FieldType: TypeAlias = ScalarType | RefType | VectorType | EnumType | StructType


def content_of(type_: FieldType) -> FieldType:
    """The type of the elements of a vector; any other type itself."""
    return type_.element if isinstance(type_, VectorType) else type_


def dependencies(type_: NamedType) -> Iterator[NamedType]:
    """The named types inside a type, each once and after the types that it uses itself."""
    seen: set[str] = set()
    if isinstance(type_, StructType):
        yield from _dependencies(type_, seen)


def with_parts(struct: StructType, parts: Mapping[str, NamedType]) -> StructType:
    """The struct with each type that it uses directly replaced by the part of the same name."""
    items = tuple(_with_part(item, parts) for item in struct.fields)
    is_same = all(item is known for item, known in zip(items, struct.fields, strict=True))
    return struct if is_same else replace(struct, fields=items)


def _with_part(item: Field, parts: Mapping[str, NamedType]) -> Field:
    used = content_of(item.type)
    part = parts.get(used.name)
    if part is None or part is used or not isinstance(used, (StructType, EnumType)):
        return item
    return replace(item, type=VectorType(part) if isinstance(item.type, VectorType) else part)


def _dependencies(struct: StructType, seen: set[str]) -> Iterator[NamedType]:
    for item in struct.fields:
        used = content_of(item.type)
        if not isinstance(used, (StructType, EnumType)) or used.name in seen:
            continue
        seen.add(used.name)
        if isinstance(used, StructType):
            yield from _dependencies(used, seen)
        yield used


def _identity(struct: StructType) -> bytes:
    """A hash that is equal for equal structs only."""
    facts = (
        struct.name,
        struct.flags,
        struct.scope,
        struct.is_deprecated,
        struct.removed,
        struct.documentation,
        struct.options,
        [_field_facts(item) for item in struct.fields],
    )
    return hashlib.sha256(repr(facts).encode()).digest()


def _field_facts(item: Field) -> tuple[object, ...]:
    used = content_of(item.type)
    return (
        isinstance(item.type, VectorType),
        used.identity if isinstance(used, StructType) else used,
        *(getattr(item, name) for name in _FIELD_FACTS),
    )


_FIELD_FACTS: Final = tuple(part.name for part in fields(Field) if part.name != "type")
