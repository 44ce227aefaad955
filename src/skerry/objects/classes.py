"""Creates the Python classes of types.

A type from text or from a descriptor gets a class here. Equal types get the same class, so objects
stay compatible when a type file is loaded twice or a descriptor is received twice. Classes that a
program declares (`objects.declare`) are created by the same functions.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from skerry.codec.encoder import encode_value
from skerry.errors import CodecError, SchemaCheckError
from skerry.limits import TYPE_COUNT_MAX
from skerry.objects.base import RESERVED_NAMES, Struct, build, extras_of
from skerry.objects.enums import DescribedEnum, EnumBase
from skerry.objects.json import value_from_json_values
from skerry.objects.names import python_name, python_names
from skerry.schema.model import EnumType, Field, NamedType, StructType, content_of

_MODULE = "skerry.types"
"""The `__module__` of classes that are not defined in a module."""

_classes: dict[NamedType, Any] = {}


def class_of(type_: NamedType) -> Any:
    """The class of a type: the same class for equal types, also with concurrent calls.

    Above TYPE_COUNT_MAX classes the oldest is forgotten, and created again on demand.
    """
    found = _classes.get(type_)
    if found is None:
        # The first class that is stored counts; one that another thread created is dropped.
        found = _classes.setdefault(type_, _make_class(type_))
        if len(_classes) > TYPE_COUNT_MAX:
            _classes.pop(next(iter(_classes)), None)
    return found


def _make_class(type_: NamedType) -> Any:
    if isinstance(type_, EnumType):
        return make_enum_class(type_, module=_MODULE)
    nested = {used.name: class_of(used) for used in used_types(type_)}
    return make_struct_class(type_, nested, module=_MODULE)


def used_types(struct: StructType) -> list[NamedType]:
    """The named types of the fields of a struct, without duplicates."""
    used: dict[str, NamedType] = {}
    for field in struct.fields:
        inner = content_of(field.type)
        if isinstance(inner, (StructType, EnumType)):
            used[inner.name] = inner
    return list(used.values())


def attribute_names(struct: StructType) -> dict[str, str]:
    """The Python names of the fields by their names in the type."""
    return python_names([field.name for field in struct.fields], RESERVED_NAMES)


def member_names(type_: EnumType) -> dict[str, str]:
    """The Python names of the elements by their names in the type."""
    labels = [element.name for element in type_.elements]
    private = f"_{python_name(type_.name)}__"
    taken = set(_ENUM_NAMES)
    while True:
        names = python_names(labels, taken)
        reserved = {name for name in names.values() if _is_reserved(name, private)}
        if not reserved:
            return names
        taken |= reserved


def _is_reserved(name: str, private: str) -> bool:
    """Whether Python reserves a name of a member: `_sunder_`, or a mangled private name."""
    is_single = name.endswith("_") and not name.endswith("__")
    return (is_single and name.startswith("_") and len(name) > 2) or (
        name.startswith(private) and not name.endswith("__")
    )


_ENUM_NAMES = frozenset(
    {*(name for base in EnumBase.__mro__ for name in vars(base)), *EnumBase.__annotations__, "mro"}
)
"""Names that an element cannot have in Python."""


def make_enum_class(type_: EnumType, *, module: str) -> type[EnumBase]:
    names = member_names(type_)
    members = [
        (names[element.name], (element.tag, element.value, element.documentation, element.name))
        for element in type_.elements
    ]
    cls: type[EnumBase] = DescribedEnum(python_name(type_.name), members, module=module)  # type: ignore[call-arg,arg-type,assignment]
    cls.__doc__ = type_.documentation or None
    cls.descriptor = type_
    cls.__reduce_ex__ = _reduce_member  # type: ignore[method-assign,assignment]
    return cls


def make_struct_class(
    struct: StructType,
    nested: Mapping[str, Any],
    *,
    module: str,
    qualname: str | None = None,
    namespace: Mapping[str, Any] | None = None,
    bases: tuple[type, ...] = (Struct,),
    attributes: Mapping[str, str] | None = None,
) -> type[Struct]:
    """Create a class for a struct, with the methods and attributes of a namespace.

    `attributes` are the Python names of the fields, if the program chose them.
    """
    attributes = attribute_names(struct) if attributes is None else attributes
    qualname = qualname or python_name(struct.name)
    name = qualname.rpartition(".")[2]
    # The positional fields of a match pattern are those with `ctor`, else all.
    positional = [field for field in struct.fields if field.is_ctor] or struct.fields
    body: dict[str, Any] = {
        **(namespace or {}),
        "__slots__": tuple(attributes.values()),
        "__module__": module,
        "__qualname__": qualname,
        # A docstring must be valid UTF-8, and received documentation need not be.
        "__doc__": struct.documentation.encode("utf-8", "replace").decode() or None,
        "__match_args__": tuple(attributes[field.name] for field in positional),
        "__reduce__": _reduce_object,
        "descriptor": struct,
        "_attributes": attributes,
        "_nested": dict(nested),
    }
    cls = type(name, bases, body)
    setattr(cls, "__init__", _constructor(cls, struct, attributes))  # noqa: B010
    return cls


# -- constructors


def _constructor(cls: Any, struct: StructType, attributes: Mapping[str, str]) -> Any:
    """`__init__` with the fields as parameters: `ctor` fields by position too, the rest by name."""
    scope: dict[str, Any] = {"__name__": cls.__module__}
    parameters = []
    body = []
    ordered = sorted(struct.fields, key=lambda field: not field.is_ctor)
    for field in ordered:
        attribute = attributes[field.name]
        if not field.is_ctor and "*" not in parameters:
            parameters.append("*")
        if field.default is None:
            parameters.append(f"{attribute}=None")
        else:
            # No conflict with a field: no Python name of a field begins with two underscores.
            scope["__absent"] = _ABSENT
            scope[f"__default_{field.tag}"] = _default(cls, field)
            parameters.append(f"{attribute}=__absent")
            body.append(f"  if {attribute} is __absent: {attribute} = __default_{field.tag}()")
        body.append(f"  self.{attribute} = {attribute}")
    if "__post_init__" in dir(cls):
        body.append("  self.__post_init__()")
    signature = ", ".join(["self", *parameters])
    exec("\n".join([f"def __init__({signature}):", *(body or ["  pass"])]), scope)  # noqa: S102
    function = scope["__init__"]
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    return function


class _Absent:
    """The default of a parameter for which None means unset."""

    def __repr__(self) -> str:
        return "<default>"


_ABSENT = _Absent()


def _default(cls: Any, field: Field) -> Callable[[], Any]:
    """A function that creates the default value, which may be a mutable list or object."""
    plan = cls._codec.plan
    spec = plan.by_tag[field.tag]
    assert field.default is not None
    try:
        plain = json.loads(field.default)
        encode_value(plan, spec, value_from_json_values(plan, spec, plain))
    except (ValueError, CodecError) as error:
        raise SchemaCheckError(f"default of {cls.descriptor.name}.{field.name}: {error}") from None
    return lambda: value_from_json_values(plan, spec, plain)


# -- pickling


def _reduce_object(self: Struct) -> tuple[Any, ...]:
    cls = type(self)
    source = _source_of(cls)
    # A class that cannot be imported is restored as the class of its type, with fields only.
    extras = extras_of(self) if source is cls else {}
    return _restore_object, (source, cls._values(self)), extras or None


def _restore_object(source: Any, values: tuple[Any, ...]) -> Struct:
    cls: type[Struct] = _class_from(source)
    return build(cls, values)


def _reduce_member(self: EnumBase, _protocol: int) -> tuple[Any, ...]:
    return _restore_member, (_source_of(type(self)), self.tag)


def _restore_member(source: Any, tag: int) -> EnumBase:
    cls: type[EnumBase] = _class_from(source)
    return cls.of_tag(tag)


def _source_of(cls: Any) -> Any:
    """The class itself if another process can import it, else its pickled type.

    Pickled once, since a type in each pickle would be encoded and decoded for each object.
    """
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return cls if found is cls else _type_bytes(cls)


@lru_cache(maxsize=TYPE_COUNT_MAX)
def _type_bytes(cls: Any) -> bytes:
    return pickle.dumps(cls.descriptor)


def _class_from(source: Any) -> Any:
    return source if isinstance(source, type) else _class_of_bytes(source)


@lru_cache(maxsize=TYPE_COUNT_MAX)
def _class_of_bytes(source: bytes) -> Any:
    # These bytes are part of the pickle that is being read, and are trusted as much.
    return class_of(pickle.loads(source))  # noqa: S301
