"""Converts rows of Spark to objects, the reverse of `source.columnar_decoder`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from skerry.spark.lake.schema import PAYLOAD_BYTES, RAW, UNKNOWN, typed_schema

_ENVELOPE: Final = frozenset({*RAW.names, PAYLOAD_BYTES, UNKNOWN})
"""Columns of recorded rows that are not fields."""


class RowObjects:
    """Converts rows with given columns to objects of one type."""

    def __init__(self, struct: StructType, columns: Iterable[str]) -> None:
        self._cls: type[Struct] = class_of(struct)
        self._makers: list[tuple[str | None, Callable[[Any], Any]]] = []
        """For each field its column, if there is one, and the conversion of its value."""
        given = {name.lower(): name for name in columns}
        # By the column names of recordings and tables, where some names are reserved.
        reader = typed_schema([struct]).reader
        for field, column, names in _columns_of(struct, reader, str.lower):
            found = (given[name.lower()] for name in names if name.lower() in given)
            self._makers.append((next(found, None), _maker(field.type, column)))
        used = {name for name, _ in self._makers}
        unknown = [name for name in given.values() if name not in used | _ENVELOPE]
        if unknown:
            error = PipelineError(f"{struct.name} has no field {', '.join(unknown)}")
            fields = ", ".join(field.name for field in struct.fields)
            error.hint = f"select the columns to publish; the fields are {fields}"
            raise error

    def make(self, row: Mapping[str, Any]) -> Struct:
        """The object of a row; null becomes an unset field."""
        values = []
        for name, make in self._makers:
            value = None if name is None else row.get(name)
            values.append(None if value is None else make(value))
        return build(self._cls, values)


def _columns_of(
    struct: StructType, reader: StructType, fold: Callable[[str], str]
) -> Iterator[tuple[Field, FieldType, tuple[str, ...]]]:
    """The fields of a struct, the types of their columns, and the accepted column names.

    A column has another name than its field if that name is reserved. Rows that were not read from
    recordings may use the name of the field, unless another column has it. Names are compared
    after `fold`.
    """
    made = {field.tag: field for field in reader.fields}
    taken = {fold(field.name) for field in reader.fields}
    for field in struct.fields:
        # A field without a column (a struct without fields) can be given nevertheless.
        column = made.get(field.tag, field)
        own = () if fold(field.name) in taken else (field.name,)
        yield field, column.type, (column.name, *own) if column is not field else own


def _maker(type_: FieldType, column: FieldType) -> Callable[[Any], Any]:
    """The conversion of a column value to a field value."""
    if isinstance(type_, VectorType):
        assert isinstance(column, VectorType)
        return _vector_maker(_maker(type_.element, column.element))
    if isinstance(type_, StructType):
        assert isinstance(column, StructType)
        return _struct_maker(type_, column)
    if isinstance(type_, EnumType):
        return _enum_maker(type_)
    if type_.kind in INTEGER_RANGES and type_.kind != Kind.PROPERTY_SET:
        return _integer
    return _MAKERS.get(type_.kind, lambda value: value)


def _vector_maker(element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def make(items: Sequence[Any]) -> list[Any]:
        made = [element(item) for item in items if item is not None]
        if len(made) != len(items):
            # An element cannot be unset. Times outside of the calendar are null in rows, too.
            error = PipelineError("a list has a null element, and elements cannot be unset")
            error.hint = "remove nulls with array_compact(column)"
            raise error
        return made

    return make


def _struct_maker(type_: StructType, column: StructType) -> Callable[[Any], Any]:
    cls = class_of(type_)
    # Spark keeps the case of names inside of a column.
    makers = [
        (names, _maker(field.type, inner))
        for field, inner, names in _columns_of(type_, column, str)
    ]

    def make(row: Mapping[str, Any]) -> Struct:
        values = []
        for names, make_one in makers:
            value = next((row[name] for name in names if name in row), None)
            values.append(None if value is None else make_one(value))
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
    """An integer; Spark also counts and sums in floats and decimals."""
    number = int(value)
    if number != value:
        raise PipelineError(f"{value} is not an integer")
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
