"""Annotations of fields for kinds that Python's own types do not distinguish.

`int`, `float`, `str`, `bytes`, `bool`, `UUID`, `list[...]`, classes of structs and of enums can be
used as well; `int` is an int64 and `float` a float64.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Hashable
from typing import Annotated, Any, TypeAlias, Union
from uuid import UUID

from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.schema.model import (
    EnumType,
    FieldType,
    Kind,
    RefType,
    ScalarType,
    StructType,
    VectorType,
)

int8: TypeAlias = Annotated[int, ScalarType(Kind.INT8)]
int16: TypeAlias = Annotated[int, ScalarType(Kind.INT16)]
int32: TypeAlias = Annotated[int, ScalarType(Kind.INT32)]
int64: TypeAlias = Annotated[int, ScalarType(Kind.INT64)]
uint8: TypeAlias = Annotated[int, ScalarType(Kind.UINT8)]
uint16: TypeAlias = Annotated[int, ScalarType(Kind.UINT16)]
uint32: TypeAlias = Annotated[int, ScalarType(Kind.UINT32)]
uint64: TypeAlias = Annotated[int, ScalarType(Kind.UINT64)]
float16: TypeAlias = Annotated[float, ScalarType(Kind.FLOAT16)]
float32: TypeAlias = Annotated[float, ScalarType(Kind.FLOAT32)]
float64: TypeAlias = Annotated[float, ScalarType(Kind.FLOAT64)]
timepoint: TypeAlias = Annotated[float, ScalarType(Kind.TIMEPOINT)]
"""Seconds since the epoch; `skerry.to_timepoint` and `skerry.to_datetime` convert datetimes."""
steady_timepoint: TypeAlias = Annotated[float, ScalarType(Kind.STEADY_TIMEPOINT)]
duration: TypeAlias = Annotated[float, ScalarType(Kind.DURATION)]
property_set: TypeAlias = Annotated[PropertySet, ScalarType(Kind.PROPERTY_SET)]
any_object: TypeAlias = Annotated[AnyObject, ScalarType(Kind.ANY)]
instance_ref: TypeAlias = Annotated[Ref, RefType()]
"""A reference to an object of any type; `Annotated[Ref, "Vessel"]` is one to a Vessel."""

_PYTHON_TYPES: dict[Any, FieldType] = {
    bool: ScalarType(Kind.BOOL),
    int: ScalarType(Kind.INT64),
    float: ScalarType(Kind.FLOAT64),
    str: ScalarType(Kind.STRING),
    bytes: ScalarType(Kind.BYTES),
    UUID: ScalarType(Kind.UUID),
    PropertySet: ScalarType(Kind.PROPERTY_SET),
    AnyObject: ScalarType(Kind.ANY),
    Ref: RefType(),
}


def field_type(annotation: Any, classes: dict[str, Any]) -> FieldType:
    """The type of a field with an annotation; classes that it names are added to `classes`.

    Raises TypeError if the annotation cannot be used for a field.
    """
    annotation = _without_none(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _annotated_type(arguments) or field_type(arguments[0], classes)
    if origin is list and arguments:
        return VectorType(field_type(arguments[0], classes))
    if isinstance(annotation, Hashable) and annotation in _PYTHON_TYPES:
        return _PYTHON_TYPES[annotation]
    descriptor = getattr(annotation, "descriptor", None)
    if isinstance(descriptor, (StructType, EnumType)):
        if classes.setdefault(descriptor.name, annotation) is not annotation:
            raise TypeError(f"two different types have the name {descriptor.name}")
        return descriptor
    raise TypeError(_refusal(annotation))


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (Union, types.UnionType):
        others = [item for item in typing.get_args(annotation) if item is not type(None)]
        if len(others) == 1:
            return others[0]
    return annotation


def _annotated_type(arguments: tuple[Any, ...]) -> FieldType | None:
    for fact in arguments[1:]:
        if isinstance(fact, (ScalarType, RefType)):
            return fact
        if arguments[0] is Ref and isinstance(fact, str):
            return RefType(fact)
    return None


def _refusal(annotation: Any) -> str:
    if annotation in (dt.datetime, dt.timedelta):
        name = "timepoint" if annotation is dt.datetime else "duration"
        return f"a field cannot be a {annotation.__name__}; use skerry.{name}, which is in seconds"
    if annotation in (list, typing.List):  # noqa: UP006
        return "a list has no element type; write list[...]"
    if typing.get_origin(annotation) in (tuple, dict, set):
        return f"a field cannot be {annotation}; use list[...] or a struct"
    return f"a field cannot be {annotation}; use a skerry type, a struct or an enum class"
