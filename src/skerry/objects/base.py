"""The base of all classes of structs.

An object keeps its fields in slots, and an unset field is None: the wire has no null, so None has
no other meaning. `objects.classes` creates the classes. There must not be a `__getattr__`,
`__setattr__` or `__delattr__` here: each of them would make every access to a field slower.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from skerry.codec.codec import Codec
from skerry.codec.compile import make_plan, values_getter
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import SchemaCheckError
from skerry.ids import ObjectKey
from skerry.objects import json, text
from skerry.objects.spec import FieldSpec
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType

S = TypeVar("S", bound="Struct")

NOT_EXTENDED = (
    "a struct cannot extend another struct; use a field of that type instead,"
    " or derive without fields to add methods"
)


class Struct:
    """An object of a struct type. Fields that are not passed are unset and read as None."""

    __slots__ = ()

    descriptor: ClassVar[StructType]

    _codec: ClassVar[Codec]
    _attributes: ClassVar[Mapping[str, str]]
    """Python names of the fields by their names in the type."""
    _nested: ClassVar[Mapping[str, Any]]
    """Classes of the named types of the fields."""
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    _key_values: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{type(self).__name__} has no type; declare it with @skerry.struct")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "descriptor"):
            return
        for name, value in cls.__dict__.items():
            if isinstance(value, FieldSpec):
                raise SchemaCheckError(f"{cls.__qualname__}.{name}: {NOT_EXTENDED}")
        _bind(cls)

    def encode(self, only: Iterable[str] | None = None) -> bytes:
        """The CBOR map of all set fields, or of the key and those named in `only`."""
        if only is None:
            return self._codec.encode(self)
        return self._codec.encode_only(self, selection(type(self), only))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The object that the bytes encode; raises DecodeError if they are invalid."""
        return cls._codec.decode(data)  # type: ignore[no-any-return]

    @property
    def attributes(self) -> PropertySet:
        """Property set of the fields that are set."""
        mask = 0
        for field, value in zip(self.descriptor.fields, type(self)._values(self), strict=True):
            if value is not None:
                mask |= 1 << field.tag
        return PropertySet(mask)

    def is_set(self, name: str) -> bool:
        """Whether the field has a value."""
        return getattr(self, _attribute(type(self), name)) is not None

    def clear(self, name: str) -> None:
        """Unset the field."""
        setattr(self, _attribute(type(self), name), None)

    def to_json(self) -> str:
        """The set fields by name, as JSON text."""
        return json.dump(self)

    @classmethod
    def from_json(cls, data: str | bytes) -> Self:
        """The object in JSON text; raises DecodeError if the text is invalid."""
        return json.load(cls, data)  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The set fields by name; elements of enums as text, nested objects as dictionaries."""
        # Imported here, since that module imports this one.
        from skerry.objects.tables import to_dict

        found: dict[str, Any] = to_dict(self)
        return found

    def _repr_html_(self) -> str:
        from skerry.objects.tables import object_html

        return object_html(self)

    def __eq__(self, other: object) -> bool:
        if type(self) is type(other):
            return type(self)._values(self) == type(self)._values(other)
        if isinstance(other, Struct) and _is_same_type(type(self), type(other)):
            return type(self)._values(self) == type(other)._values(other)
        return NotImplemented

    def __hash__(self) -> int:
        values = type(self)._key_values(self)
        return hash((self.descriptor.name, *map(hashable, values)))

    def __repr__(self) -> str:
        return text.object_text(self)

    def __copy__(self) -> Self:
        return _with_extras(build(type(self), type(self)._values(self)), extras_of(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        values, extras = copy.deepcopy((type(self)._values(self), extras_of(self)), memo)
        return _with_extras(build(type(self), values), extras)


RESERVED_NAMES = frozenset({*dir(Struct), *Struct.__annotations__, "self"})
"""Names that a field cannot have in Python."""


def selection(cls: type[Struct], names: Iterable[str]) -> PropertySet:
    """The property set of an update of these fields: the fields and the key."""
    if isinstance(names, str):
        raise TypeError(f"expected names of fields, got the str {names!r}")
    mask = cls.descriptor.key_mask
    for name in names:
        mask |= 1 << cls.descriptor.field(_field_name(cls, name)).tag
    return PropertySet(mask)


def codec_of(cls: type[Struct]) -> Codec:
    """The codec of a class, which encodes and decodes its objects."""
    return cls._codec


def key_of(obj: Struct) -> ObjectKey:
    """The canonical key: equal for two objects of a type if and only if they have the same key."""
    return ObjectKey(obj._codec.encode_key(obj))


def ref_to(obj: Struct) -> Ref:
    """A reference to the object, for an `instance_ref` field."""
    for field in obj.descriptor.key_fields:
        if not obj.is_set(field.name):
            raise ValueError(f"{obj!r} has no {field.name}, so there can be no reference to it")
    return Ref(obj.descriptor.name, key_of(obj))


def pack(obj: Struct) -> AnyObject:
    """The object as the value of an `any` field."""
    return AnyObject(obj.descriptor.name, obj.encode())


def unpack(packed: AnyObject, cls: type[S]) -> S:
    """The object in an `any` field; raises TypeError unless it is of this class's type."""
    if cls.descriptor.name != packed.type_name:
        raise TypeError(f"this is a {packed.type_name}, not a {cls.descriptor.name}")
    return cls.decode(packed.payload)


def merge(stored: S, update: S, only: Iterable[str] | PropertySet | None = None) -> S:
    """A new object: `stored` after a partial update of the fields in `only`.

    A named field that is unset in the update becomes unset. Without `only`, the fields that are set
    in the update are used. The key never changes; raises ValueError if the update has another key.
    Lists and nested objects are shared, as by `copy.copy`.
    """
    if not _is_same_type(type(stored), type(update)):
        raise TypeError(f"a {update.descriptor.name} cannot update a {stored.descriptor.name}")
    if key_of(stored) != key_of(update):
        raise ValueError(f"{update!r} is an update of another object than {stored!r}")
    if only is None:
        named = update.attributes
    else:
        named = only if isinstance(only, PropertySet) else selection(type(stored), only)
    old, new = type(stored)._values(stored), type(update)._values(update)
    return build(
        type(stored),
        tuple(
            after if not field.is_key and named >> field.tag & 1 else before
            for field, before, after in zip(stored.descriptor.fields, old, new, strict=True)
        ),
    )


def build(cls: type[S], values: Iterable[Any]) -> S:
    """Create an object with these field values, in declaration order, without its constructor."""
    obj = object.__new__(cls)
    for attribute, value in zip(cls._attributes.values(), values, strict=True):
        setattr(obj, attribute, value)
    return obj


def extras_of(obj: Struct) -> dict[str, Any]:
    """The attributes of an object besides its fields; only derived classes have any."""
    return getattr(obj, "__dict__", {})


def _with_extras(obj: S, extras: dict[str, Any]) -> S:
    for name, value in extras.items():
        setattr(obj, name, value)
    return obj


def _bind(cls: type[Struct]) -> None:
    """Give a class the codec of its own objects; also a class that a program derived."""
    struct = cls.descriptor
    plan = make_plan(struct, cls, cls._attributes, lambda type_: cls._nested[type_.name])
    cls._codec = Codec(plan)
    cls._values = staticmethod(plan.values_of)
    keys = [cls._attributes[field.name] for field in struct.key_fields]
    cls._key_values = staticmethod(values_getter(keys))
    if "decode" not in vars(cls):
        # Directly the codec's function, which decodes every received object.
        cls.decode = staticmethod(cls._codec.decode)  # type: ignore[method-assign,assignment]


def _attribute(cls: type[Struct], name: str) -> str:
    return cls._attributes[_field_name(cls, name)]


def _field_name(cls: type[Struct], name: str) -> str:
    """The name of a field in the type; `name` may be its Python name too."""
    if name in cls._attributes:
        return name
    for field, attribute in cls._attributes.items():
        if attribute == name:
            return field
    known = ", ".join(cls._attributes)
    raise AttributeError(f"{cls.descriptor.name} has no field {name}; it has {known}")


def _is_same_type(first: type[Struct], second: type[Struct]) -> bool:
    return fingerprint(first.descriptor) == fingerprint(second.descriptor)


def hashable(value: Any) -> Any:
    """The value of a field, as a tuple if it is a list."""
    return tuple(value) if isinstance(value, list) else value
