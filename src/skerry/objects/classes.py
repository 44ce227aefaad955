"""Python classes of types.

A type that came as text or in a descriptor gets a class here. Equal types get the same class, so
a type file that is loaded twice, or a descriptor that arrives twice, does not split a program in
two. Classes that a program declares itself are made by the same hands (`objects.declare`).
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
from skerry.objects.json import value_from_plain
from skerry.objects.names import python_name, python_names
from skerry.schema.model import EnumType, Field, NamedType, StructType, content_of

__all__ = [
    "attribute_names",
    "class_of",
    "make_enum_class",
    "make_struct_class",
    "member_names",
    "used_types",
]

_MODULE = "skerry.types"
"""Where classes say they live that are in no module."""


_classes: dict[NamedType, Any] = {}


def class_of(type_: NamedType) -> Any:
    """The class of a type: always the same one for equal types, also in two threads at once.

    Past TYPE_COUNT_MAX classes the oldest is forgotten, and made anew if it is asked for again.
    """
    found = _classes.get(type_)
    if found is None:
        # Whoever is first here decides; a second class that was made meanwhile is dropped.
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
    """The named types that the fields of a struct are of, each once."""
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
        kept = {name for name in names.values() if _is_kept_by_python(name, private)}
        if not kept:
            return names
        taken |= kept


def _is_kept_by_python(name: str, private: str) -> bool:
    """Whether it is `_so_`, which no member may be, or looks like a private name and is none."""
    is_single = name.endswith("_") and not name.endswith("__")
    return (is_single and name.startswith("_") and len(name) > 2) or (
        name.startswith(private) and not name.endswith("__")
    )


_ENUM_NAMES = frozenset(
    {
        *(name for base in EnumBase.__mro__ for name in vars(base)),
        *EnumBase.__annotations__,
        "mro",
    }
)
"""What an element cannot be called in Python."""


def make_enum_class(type_: EnumType, *, module: str) -> type[EnumBase]:
    """A new class for an enum."""
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
    """A new class for a struct, with what the namespace adds (methods a program wrote).

    `attributes` has the Python names of the fields, where a program chose them.
    """
    attributes = attribute_names(struct) if attributes is None else attributes
    qualname = qualname or python_name(struct.name)
    name = qualname.rpartition(".")[2]
    body: dict[str, Any] = {
        **(namespace or {}),
        "__slots__": tuple(attributes.values()),
        "__module__": module,
        "__qualname__": qualname,
        # A class takes no text that is not UTF-8, and a stranger's need not be.
        "__doc__": struct.documentation.encode("utf-8", "replace").decode() or None,
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
            # No field is called so: in Python none begins with two underscores.
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
    cls = type(self)
    source = _source_of(cls)
    # A class that cannot be imported comes back as that of its type, which has only fields.
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
    """The class itself where another process can import it, else its type as bytes.

    Bytes and not the description, which would be taken apart and put together for each object.
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
    # These bytes are part of a pickle that is being read, and deserve as much trust as the rest.
    return class_of(pickle.loads(source))  # noqa: S301
