"""Rows of Spark back to objects: the way of `decode`, in the other direction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import PipelineError
from skerry.objects.base import Struct, build
from skerry.objects.classes import class_of
from skerry.objects.times import to_timepoint
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    Field,
    FieldType,
    Kind,
    StructType,
    VectorType,
)
from skerry.spark.schema import PAYLOAD_BYTES, RAW, UNKNOWN, typed_schema

__all__ = ["RowObjects"]

_ENVELOPE: Final = frozenset({*RAW.names, PAYLOAD_BYTES, UNKNOWN})
"""Columns that rows of recordings have and no object needs."""


class RowObjects:
    """Makes objects of one type from rows with these columns."""

    def __init__(self, struct: StructType, columns: Iterable[str]) -> None:
        self._cls: type[Struct] = class_of(struct)
        self._makers: list[tuple[str, Callable[[Any], Any]]] = []
        given = {name.lower(): name for name in columns}
        # As they are called in rows of recordings and of tables: some names are taken there.
        made = {field.tag: field.name for field in typed_schema([struct]).reader.fields}
        for field in struct.fields:
            name = _column_of(field, made, given)
            self._makers.append((name, _maker(field.type)))
        used = {name for name, _ in self._makers}
        strange = [name for name in given.values() if name not in used | _ENVELOPE]
        if strange:
            error = PipelineError(f"{struct.name} has no field {', '.join(strange)}")
            fields = ", ".join(field.name for field in struct.fields)
            error.hint = f"select the columns to publish; the fields are {fields}"
            raise error

    def make(self, row: Mapping[str, Any]) -> Struct:
        """The object of a row; a null is an unset field."""
        values = []
        for name, make in self._makers:
            value = row.get(name)
            values.append(None if value is None else make(value))
        return build(self._cls, values)


def _column_of(field: Field, made: Mapping[int, str], given: Mapping[str, str]) -> str:
    """The column of a field, which has an underscore where the envelope has that name."""
    column = made.get(field.tag, field.name)
    return given.get(column.lower()) or given.get(field.name.lower(), field.name)


def _maker(type_: FieldType) -> Callable[[Any], Any]:
    """How a value of a column becomes one of a field."""
    if isinstance(type_, VectorType):
        element = _maker(type_.element)
        return lambda items: [element(item) for item in items]
    if isinstance(type_, StructType):
        return _struct_maker(type_)
    if isinstance(type_, EnumType):
        return _enum_maker(type_)
    if type_.kind in INTEGER_RANGES and type_.kind != Kind.PROPERTY_SET:
        return _integer
    return _MAKERS.get(type_.kind, lambda value: value)


def _struct_maker(type_: StructType) -> Callable[[Any], Any]:
    cls = class_of(type_)
    makers = [(field.name, _maker(field.type)) for field in type_.fields]

    def make(row: Mapping[str, Any]) -> Struct:
        values = [None if row.get(n) is None else make_one(row[n]) for n, make_one in makers]
        made: Struct = build(cls, values)
        return made

    return make


def _enum_maker(type_: EnumType) -> Callable[[Any], Any]:
    cls = class_of(type_)
    by_name = {element.name: element.tag for element in type_.elements}

    def make(value: Any) -> Any:
        if isinstance(value, str) and value not in by_name:
            raise PipelineError(f"{type_.name} has no element {value!r}")
        return cls.of_tag(by_name[value] if isinstance(value, str) else value)

    return make


def _integer(value: Any) -> int:
    """Spark counts and sums in kinds of its own, decimals among them."""
    number = int(value)
    if number != value:
        raise PipelineError(f"{value} is no whole number")
    return number


def _seconds(value: Any) -> float:
    if isinstance(value, dt.datetime):
        return to_timepoint(value if value.tzinfo else value.replace(tzinfo=dt.UTC))
    return float(value)


_MAKERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.ANY: lambda row: AnyObject(row["type"], row["payload"]),
    Kind.BYTES: bytes,
    Kind.FLOAT16: float,
    Kind.FLOAT32: float,
    Kind.FLOAT64: float,
    Kind.DURATION: float,
    Kind.STEADY_TIMEPOINT: float,
    Kind.PROPERTY_SET: PropertySet,
    Kind.REF: lambda row: Ref(row["type"], row["key"]),
    Kind.TIMEPOINT: _seconds,
    Kind.UUID: UUID,
}
