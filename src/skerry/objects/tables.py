"""Objects as dictionaries, as Arrow tables, as data frames of pandas and polars, and as HTML.

A table has a column for each field, in the order of the type. Elements of enums are text, times
have type timestamp in UTC, durations are seconds, UUIDs are text, and a nested object is a struct.
An unset field is null.
"""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from skerry.errors import SkerryError
from skerry.objects.base import Struct
from skerry.objects.text import value_text
from skerry.schema.model import FieldType, Kind, StructType, VectorType

if TYPE_CHECKING:
    import polars as pl

_SHOWN_ROW_COUNT: Final = 20
"""Rows of a table in a notebook."""
_PACKAGES: Final = "pip install 'skerry[frames]'"

_ARROW_NAMES: Final = {
    Kind.BOOL: "bool_",
    Kind.INT8: "int8",
    Kind.INT16: "int16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.UINT8: "uint8",
    Kind.UINT16: "uint16",
    Kind.UINT32: "uint32",
    Kind.UINT64: "uint64",
    Kind.FLOAT16: "float32",
    Kind.FLOAT32: "float32",
    Kind.FLOAT64: "float64",
    Kind.STRING: "string",
    Kind.BYTES: "binary",
    Kind.UUID: "string",
    Kind.STEADY_TIMEPOINT: "float64",
    Kind.DURATION: "float64",
    Kind.PROPERTY_SET: "uint32",
    Kind.ENUM: "string",
}


def to_dict(objects: Any) -> Any:
    """The set fields of an object by name; elements of enums as text, nested objects as
    dictionaries.

    Of a container: a dictionary of them by key. Of other objects in an iterable: a list of them.
    """
    if isinstance(objects, Struct):
        return _fields(objects, _plain)
    if isinstance(objects, Mapping):
        return {key: _fields(obj, _plain) for key, obj in objects.items()}
    return [_fields(obj, _plain) for obj in objects]


def to_arrow(objects: Any, cls: type[Struct] | None = None) -> Any:
    """An Arrow table of the objects of one type: those of a container, or of an iterable.

    `cls` is their class, which an empty iterable needs. Raises TypeError for objects of several
    types, SkerryError if pyarrow is not installed.
    """
    pa = _package("pyarrow")
    found, cls = _rows(objects, cls)
    schema = pa.schema([pa.field(f.name, _arrow_type(f.type)) for f in cls.descriptor.fields])
    names = [field.name for field in cls.descriptor.fields]
    rows = [_fields(obj, _arrow_value) for obj in found]
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pa.table(columns, schema=schema)


def to_pandas(objects: Any, cls: type[Struct] | None = None) -> Any:
    """A DataFrame of pandas; as `to_arrow`."""
    _package("pandas")
    return to_arrow(objects, cls).to_pandas()


def to_polars(objects: Any, cls: type[Struct] | None = None) -> pl.DataFrame:
    """A DataFrame of polars; as `to_arrow`."""
    frame: pl.DataFrame = _package("polars").from_arrow(to_arrow(objects, cls))
    return frame


def object_html(obj: Struct) -> str:
    """The set fields of an object as a table of HTML."""
    rows = [
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in _texts(obj).items()
    ]
    return _table(obj.descriptor.name, "", rows)


def objects_html(title: str, cls: type[Struct], objects: Iterable[Struct], count: int) -> str:
    """The first of some objects as a table of HTML."""
    names = [field.name for field in cls.descriptor.fields]
    rows = []
    for obj in islice(objects, _SHOWN_ROW_COUNT):
        texts = _texts(obj)
        cells = (f"<td>{html.escape(texts.get(name, ''))}</td>" for name in names)
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    if count > _SHOWN_ROW_COUNT:
        title += f", the first {_SHOWN_ROW_COUNT}"
    return _table(title, f"<thead><tr>{head}</tr></thead>", rows)


def _table(title: str, head: str, rows: Iterable[str]) -> str:
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}{head}<tbody>{''.join(rows)}</tbody></table>"


def _texts(obj: Struct) -> dict[str, str]:
    types = {field.name: field.type for field in obj.descriptor.fields}
    found: dict[str, str] = {}
    for name, value in _fields(obj, lambda _type, value: value).items():
        # Text without the quotes that it has inside an object.
        is_text = types[name].kind == Kind.STRING and isinstance(value, str)
        found[name] = value if is_text else value_text(types[name], value)
    return found


def _rows(objects: Any, cls: type[Struct] | None) -> tuple[list[Struct], type[Struct]]:
    if isinstance(objects, Struct):
        objects = [objects]
    found = list(objects.values() if isinstance(objects, Mapping) else objects)
    if not found and cls is None:
        raise ValueError("no objects, so there are no columns: pass their class, `cls=Vessel`")
    cls = cls or type(found[0])
    for obj in found:
        if not isinstance(obj, Struct) or obj.descriptor.name != cls.descriptor.name:
            name = obj.descriptor.name if isinstance(obj, Struct) else type(obj).__name__
            raise TypeError(f"a table has objects of one type: {cls.descriptor.name}, got {name}")
    return found, cls


def _fields(obj: Struct, convert: Any) -> dict[str, Any]:
    values = type(obj)._values(obj)
    return {
        field.name: convert(field.type, value)
        for field, value in zip(obj.descriptor.fields, values, strict=True)
        if value is not None
    }


def _plain(type_: FieldType, value: Any) -> Any:
    if isinstance(type_, VectorType):
        return [_plain(type_.element, item) for item in value]
    if isinstance(type_, StructType):
        return _fields(value, _plain)
    return value.label if type_.kind == Kind.ENUM else value


def _arrow_value(type_: FieldType, value: Any) -> Any:
    if isinstance(type_, VectorType):
        return [_arrow_value(type_.element, item) for item in value]
    if isinstance(type_, StructType):
        return _fields(value, _arrow_value)
    match type_.kind:
        case Kind.ENUM:
            return value.label
        case Kind.TIMEPOINT:
            return round(value * 1e6)
        case Kind.UUID:
            return str(value)
        case Kind.PROPERTY_SET:
            return int(value)
        case Kind.ANY:
            return {"type": value.type_name, "payload": value.payload}
        case Kind.REF:
            return {"type": value.type_name, "key": bytes(value.key)}
    return value


def _arrow_type(type_: FieldType) -> Any:
    pa = _package("pyarrow")
    if isinstance(type_, VectorType):
        return pa.list_(_arrow_type(type_.element))
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, _arrow_type(f.type)) for f in type_.fields])
    match type_.kind:
        case Kind.TIMEPOINT:
            return pa.timestamp("us", tz="UTC")
        case Kind.ANY:
            return pa.struct([("type", pa.string()), ("payload", pa.binary())])
        case Kind.REF:
            return pa.struct([("type", pa.string()), ("key", pa.binary())])
    return getattr(pa, _ARROW_NAMES[type_.kind])()


def _package(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        error = SkerryError(f"data frames need {name}, which is not installed")
        error.hint = _PACKAGES
        raise error
    return importlib.import_module(name)
