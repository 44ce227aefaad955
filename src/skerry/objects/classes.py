"""Python classes of types.

A type that came as text or in a descriptor gets a class here. Equal types get the same class, so
a type file that is loaded twice, or a descriptor that arrives twice, does not split a program in
two. Classes that a program declares itself are made by the same hands (`objects.declare`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from skerry.codec.encoder import encode_value
from skerry.errors import CodecError, SchemaCheckError
from skerry.limits import TYPE_COUNT_MAX
from skerry.objects.base import RESERVED_NAMES, Struct, build
from skerry.objects.enums import EnumBase
from skerry.objects.json import value_from_plain
from skerry.objects.names import python_name, python_names
from skerry.schema.model import EnumType, Field, NamedType, StructType, VectorType

__all__ = ["class_of", "make_enum_class", "make_struct_class", "used_types"]

_MODULE = "skerry.types"
"""Where classes say they live that are in no module."""


@lru_cache(maxsize=TYPE_COUNT_MAX)
def class_of(type_: NamedType) -> Any:
    """The class of a type: always the same one for equal types."""
    if isinstance(type_, EnumType):
        return make_enum_class(type_, module=_MODULE)
    nested = {used.name: class_of(used) for used in used_types(type_)}
    return make_struct_class(type_, nested, module=_MODULE)


def used_types(struct: StructType) -> list[NamedType]:
    """The named types that the fields of a struct are of, each once."""
    used: dict[str, NamedType] = {}
    for field in struct.fields:
        inner = field.type.element if isinstance(field.type, VectorType) else field.type
        if isinstance(inner, (StructType, EnumType)):
            used[inner.name] = inner
    return list(used.values())


def make_enum_class(type_: EnumType, *, module: str) -> type[EnumBase]:
    """A new class for an enum."""
    taken = {*dir(EnumBase), "name", "value", "tag", "documentation", "descriptor", "mro"}
    labels = [element.name for element in type_.elements]
    taken |= {name for name in labels if name.startswith("_") and name.endswith("_")}
    names = python_names(labels, taken)
    members = [
        (names[element.name], (element.tag, element.value, element.documentation))
        for element in type_.elements
    ]
    cls: type[EnumBase] = EnumBase(python_name(type_.name), members, module=module)  # type: ignore[call-arg,arg-type,assignment]
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
) -> type[Struct]:
    """A new class for a struct, with what the namespace adds (methods a program wrote)."""
    attributes = python_names([field.name for field in struct.fields], RESERVED_NAMES)
    name = python_name(struct.name)
    body: dict[str, Any] = {
        **(namespace or {}),
        "__slots__": tuple(attributes.values()),
        "__module__": module,
        "__qualname__": qualname or name,
        "__doc__": struct.documentation or None,
        "__match_args__": tuple(attributes[field.name] for field in _positional(struct)),
        "__reduce__": _reduce_object,
        "descriptor": struct,
        "_attributes": attributes,
        "_nested": dict(nested),
    }
    cls = type(name, bases, body)
    setattr(cls, "__init__", _constructor(cls, struct, attributes))  # noqa: B010
    return cls


def _positional(struct: StructType) -> tuple[Field, ...]:
    """Fields that a pattern may name by position: those of the constructor, else all."""
    return tuple(field for field in struct.fields if field.is_ctor) or struct.fields


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
            scope[f"_default_{field.tag}"] = _default(cls, field)
            scope[f"_absent_{field.tag}"] = _ABSENT
            parameters.append(f"{attribute}=_absent_{field.tag}")
            body.append(
                f"  if {attribute} is _absent_{field.tag}: {attribute} = _default_{field.tag}()"
            )
        body.append(f"  self.{attribute} = {attribute}")
    if "__post_init__" in dir(cls):
        body.append("  self.__post_init__()")
    signature = ", ".join(["self", *parameters])
    exec("\n".join([f"def __init__({signature}):", *(body or ["  pass"])]), scope)  # noqa: S102
    function = scope["__init__"]
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    return function


class _Absent:
    """Stands for a parameter that was not given, where None would mean unset."""

    def __repr__(self) -> str:
        return "<default>"


_ABSENT = _Absent()


def _default(cls: Any, field: Field) -> Callable[[], Any]:
    """Makes the default value anew each time: it may be a list or an object."""
    plan = cls._codec.plan
    spec = plan.by_tag[field.tag]
    assert field.default is not None
    try:
        plain = json.loads(field.default)
        encode_value(plan, spec, value_from_plain(plan, spec, plain))
    except (ValueError, CodecError) as error:
        raise SchemaCheckError(f"default of {cls.descriptor.name}.{field.name}: {error}") from None
    return lambda: value_from_plain(plan, spec, plain)


# -- pickling


def _reduce_object(self: Struct) -> tuple[Any, ...]:
    return _restore_object, (_source_of(type(self)), type(self)._values(self))


def _restore_object(source: Any, values: tuple[Any, ...]) -> Struct:
    cls: type[Struct] = _class_from(source)
    return build(cls, values)


def _reduce_member(self: EnumBase, _protocol: int) -> tuple[Any, ...]:
    return _restore_member, (_source_of(type(self)), self.tag)


def _restore_member(source: Any, tag: int) -> EnumBase:
    cls: type[EnumBase] = _class_from(source)
    return cls.of_tag(tag)


def _source_of(cls: Any) -> Any:
    """The class itself where another process can import it, else the description of its type."""
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return cls if found is cls else cls.descriptor


def _class_from(source: Any) -> Any:
    return source if isinstance(source, type) else class_of(source)
