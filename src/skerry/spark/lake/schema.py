"""Types of a space as columns, over all definitions that a type has had.

Columns follow tags, not names: a renamed field keeps its column (and the column its first name, so
that old queries still work), a new field adds a column, a removed field keeps its column, and a
wider number widens the column. Two definitions with incompatible fields under one tag do not fit
into one table; PipelineError names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skerry.errors import PipelineError
from skerry.recording.columns import COLUMNS
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import (
    SCALAR_KINDS,
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Kind,
    RefType,
    ScalarType,
    StructType,
    VectorType,
    content_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as spark_types


UNKNOWN: Final = "unknown"
"""Column with the encoded fields that have no column of their own, by tag."""

_ENVELOPE_TYPES: Final = {
    "operation": pa.int8(),
    "key": pa.binary(),
    "payload": pa.binary(),
    **dict.fromkeys(("space", "subject", "type", "source"), pa.string()),
}
ROW_ORIGIN: Final = (
    pa.field("recording", pa.string()),
    pa.field("segment", pa.string()),
    pa.field("batch", pa.int32()),
)
"""Columns that name the recording, segment and batch of a row."""

RECORDED: Final = tuple(pa.field(name, _ENVELOPE_TYPES.get(name, pa.int64())) for name in COLUMNS)

RAW: Final = pa.schema([*RECORDED, *ROW_ORIGIN])
"""Rows as recorded, in column types that Spark has."""

PAYLOAD_BYTES: Final = "payload_bytes"
"""Column with the size of the payload; its content is in the field columns."""

ENVELOPE: Final = pa.schema(
    [*(field for field in RAW if field.name != "payload"), pa.field(PAYLOAD_BYTES, pa.int64())]
)
"""The columns that rows of every type have."""

_TEMPORARY: Final = (
    *("id_kind", "id_node", "id_sender", "id_block", "id_number", "number_before"),
    *("is_placed", "block_number", "before_ns", "first_position", "order_before_ns"),
    *("order_now_ns", "since_ns", "file_path", "lives", "standing"),
)
"""Names of columns with which earlier versions merged late rows. A field with such a name keeps the
column that existing tables have for it."""
_RESERVED: Final = frozenset(
    name.lower() for name in (*RAW.names, PAYLOAD_BYTES, UNKNOWN, *_TEMPORARY)
)
_BAD_CHARS: Final = str.maketrans(dict.fromkeys(" ,;{}()\n\t=.`", "_"))
"""Characters that column names of tables or queries may not have."""

_SCALARS: Final = {
    Kind.BOOL: pa.bool_(),
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.UINT8: pa.int16(),
    Kind.UINT16: pa.int32(),
    Kind.UINT32: pa.int64(),
    Kind.UINT64: pa.decimal128(20, 0),
    Kind.FLOAT16: pa.float32(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.UUID: pa.string(),
    Kind.TIMEPOINT: pa.timestamp("us", tz="UTC"),
    Kind.STEADY_TIMEPOINT: pa.float64(),
    Kind.DURATION: pa.float64(),
    Kind.PROPERTY_SET: pa.int64(),
    Kind.ANY: pa.struct([("type", pa.string()), ("payload", pa.binary())]),
    Kind.REF: pa.struct([("type", pa.string()), ("key", pa.binary())]),
    Kind.ENUM: pa.string(),
}
"""Spark has no unsigned integers: each becomes the next wider signed type."""

_SIGNED: Final = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)
_UNSIGNED: Final = (Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64)
_FLOATS: Final = (Kind.FLOAT16, Kind.FLOAT32, Kind.FLOAT64)
_ALIKE: Final = (
    (Kind.FLOAT64, Kind.TIMEPOINT, Kind.STEADY_TIMEPOINT, Kind.DURATION),
    (Kind.UINT32, Kind.PROPERTY_SET),
)
"""Kinds with equal encodings: a column reads all of them as the kind that was recorded first."""
_BYTES_READ: Final = (Kind.BYTES, Kind.UUID)
"""A column of bytes can also hold UUIDs; a column of UUIDs cannot hold arbitrary bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSchema:
    """The columns of one type over all of its definitions."""

    reader: StructType
    """Decodes payloads of every definition. Its field names are the column names."""
    fingerprints: tuple[int, ...]
    """Of the definitions, in the order they were recorded."""

    @property
    def type_name(self) -> str:
        return self.reader.name

    @property
    def columns(self) -> pa.Schema:
        return pa.schema([*ENVELOPE, *payload_schema(self.reader)])

    def extended(self, struct_types: Iterable[StructType]) -> TypedSchema:
        """The schema that also reads these definitions; PipelineError if one does not fit."""
        schema = self
        for struct in struct_types:
            schema = _with_definition(schema, struct)
        return schema


def typed_schema(struct_types: Sequence[StructType]) -> TypedSchema:
    """The columns of one type over several definitions, in the order they were recorded."""
    assert struct_types
    first, *others = struct_types
    empty = StructType(name=first.name, fields=(), flags=first.flags, scope=first.scope)
    fields = _merged_fields(empty, first, _RESERVED)
    start = TypedSchema(reader=replace(empty, fields=fields), fingerprints=(fingerprint(first),))
    return start.extended(others)


@lru_cache(maxsize=256)
def payload_schema(reader: StructType) -> pa.Schema:
    """The columns of a payload: one per field, and `unknown`."""
    fields = [pa.field(field.name, arrow_type(field.type)) for field in reader.fields]
    return pa.schema([*fields, pa.field(UNKNOWN, _UNKNOWN_TYPE)])


def arrow_type(type_: FieldType) -> pa.DataType:
    """The type of a column that holds values of a field."""
    if isinstance(type_, VectorType):
        return pa.list_(pa.field("element", arrow_type(type_.element)))
    if isinstance(type_, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in type_.fields])
    return _SCALARS[type_.kind]


_UNKNOWN_TYPE: Final = pa.map_(
    pa.field("key", pa.int32(), nullable=False), pa.field("value", pa.binary())
)


def quoted(name: str) -> str:
    """A column name, quoted for Spark SQL; field names are untrusted."""
    return "`" + name.replace("`", "``") + "`"


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """The same columns as a Spark schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def no_rows(spark: SparkSession, columns: spark_types.StructType) -> DataFrame:
    """A frame that Spark knows to be empty, so that it plans neither reads nor joins for it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    empty = to_arrow_schema(columns, timezone="UTC").empty_table()
    return spark.createDataFrame(empty, columns)


# -- several definitions


def _with_definition(schema: TypedSchema, struct: StructType) -> TypedSchema:
    number = fingerprint(struct)
    if number in schema.fingerprints:
        return schema
    known = schema.reader
    try:
        _check_keys(known, struct)
        fields = _merged_fields(known, struct, _RESERVED)
    except _Misfit as misfit:
        raise _incompatible(schema, number, str(misfit)) from None
    return TypedSchema(
        reader=replace(known, fields=fields), fingerprints=(*schema.fingerprints, number)
    )


class _Misfit(Exception):
    """Two definitions have incompatible fields under one tag."""


def _incompatible(schema: TypedSchema, number: int, detail: str) -> PipelineError:
    known = ", ".join(map(str, schema.fingerprints))
    error = PipelineError(
        f"two definitions of {schema.type_name} do not fit into one table: "
        f"{number} and {known}: {detail}"
    )
    error.hint = f"read them separately: .option('fingerprints', '{number}')"
    return error


def _check_keys(known: StructType, struct: StructType) -> None:
    ours = sorted(field.tag for field in known.fields if field.is_key)
    theirs = sorted(field.tag for field in struct.fields if field.is_key)
    if ours != theirs:
        raise _Misfit(f"tags {ours or 'none'} are the key of one, {theirs or 'none'} of the other")


def _merged_fields(
    known: StructType, struct: StructType, reserved: frozenset[str]
) -> tuple[Field, ...]:
    merged = {field.tag: field for field in known.fields}
    taken = {*reserved, *(field.name.lower() for field in known.fields)}
    for field in struct.fields:
        if _is_hollow(field.type):
            # Parquet cannot store it. Its content, if any, stays in `unknown`.
            continue
        before = merged.get(field.tag)
        if before is None:
            name = _free_name(field, taken)
            taken.add(name.lower())
            type_ = _column_form(field.type)
            merged[field.tag] = Field(tag=field.tag, name=name, type=type_, is_key=field.is_key)
        else:
            type_ = _merged_type(before.type, _column_form(field.type), _conflict(before, field))
            merged[field.tag] = replace(before, type=type_)
    return tuple(merged.values())


def _is_hollow(type_: FieldType) -> bool:
    """Whether it is a struct without any field that can be a column."""
    inner = content_of(type_)
    return isinstance(inner, StructType) and all(_is_hollow(field.type) for field in inner.fields)


def _free_name(field: Field, taken: set[str]) -> str:
    """An unused column name: Spark ignores case and reserves some characters."""
    name = field.name.translate(_BAD_CHARS)
    while name.lower() in taken:
        name += "_"
    return name


def _column_form(type_: FieldType) -> FieldType:
    """The type with the names of its inner fields as column names."""
    if isinstance(type_, VectorType):
        return VectorType(_column_form(type_.element))
    if isinstance(type_, StructType):
        empty = StructType(name=type_.name, fields=())
        return replace(empty, fields=_merged_fields(empty, type_, frozenset()))
    return type_


def _merged_type(known: FieldType, new: FieldType, conflict: str) -> FieldType:
    """The type that reads the values of both; raises _Misfit with the text of the conflict."""
    if isinstance(known, VectorType) and isinstance(new, VectorType):
        return VectorType(_merged_type(known.element, new.element, conflict))
    if isinstance(known, StructType) and isinstance(new, StructType):
        return replace(known, fields=_merged_fields(known, new, frozenset()))
    if isinstance(known, EnumType) and isinstance(new, EnumType):
        return _merged_enum(known, new)
    if isinstance(known, RefType) or isinstance(new, RefType):
        if known == new:
            return known
        raise _Misfit(conflict)
    kind = _merged_kind(known.kind, new.kind)
    if kind is None:
        raise _Misfit(conflict)
    return ScalarType(kind)


def _merged_enum(known: EnumType, new: EnumType) -> EnumType:
    """All elements of both, each with its newest name."""
    elements: dict[int, EnumElement] = {}
    for element in (*known.elements, *new.elements):
        elements[element.tag] = EnumElement(tag=element.tag, name=element.name, value=element.tag)
    return EnumType(name=known.name, elements=tuple(elements.values()))


def _merged_kind(known: Kind, new: Kind) -> Kind | None:
    """The narrowest kind that holds the values of both, or None."""
    if known == new:
        return None if known in (Kind.VECTOR, Kind.STRUCT, Kind.ENUM) else known
    if any(known in alike and new in alike for alike in _ALIKE) or (known, new) == _BYTES_READ:
        return known
    for family in (_SIGNED, _UNSIGNED, _FLOATS):
        if known in family and new in family:
            return max(known, new)
    unsigned, signed = (known, new) if known in _UNSIGNED else (new, known)
    if unsigned in _UNSIGNED[:-1] and signed in _SIGNED:
        # An unsigned number needs one more bit as a signed one.
        return max(signed, _SIGNED[_UNSIGNED.index(unsigned) + 1])
    return None


def _conflict(known: Field, new: Field) -> str:
    return (
        f"tag {new.tag} is {known.type.name} {known.name} in one, "
        f"{new.type.name} {new.name} in the other"
    )


# -- schemas as JSON, for plans and for options of the data source


def schema_to_text(schema: TypedSchema) -> str:
    """The schema as one line of JSON."""
    values = {"fingerprints": list(schema.fingerprints), "type": _json(schema.reader)}
    return json.dumps(values, ensure_ascii=False)


def schema_from_text(text: str) -> TypedSchema:
    """The schema that `schema_to_text` wrote; PipelineError for any other text."""
    try:
        values = json.loads(text)
        reader = _type(values["type"])
        fingerprints = tuple(int(number) for number in values["fingerprints"])
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"not the schema of a type: {text[:80]!r}") from error
    if not isinstance(reader, StructType):
        raise PipelineError(f"not the schema of a struct: {text[:80]!r}")
    return TypedSchema(reader=reader, fingerprints=fingerprints)


def _json(type_: FieldType) -> Any:
    if isinstance(type_, ScalarType):
        return type_.name
    if isinstance(type_, VectorType):
        return {"vector": _json(type_.element)}
    if isinstance(type_, RefType):
        return {"ref": type_.target}
    if isinstance(type_, EnumType):
        return {"enum": type_.name, "elements": [[e.tag, e.name] for e in type_.elements]}
    return {
        "struct": type_.name,
        "fields": [[f.tag, f.name, f.is_key, _json(f.type)] for f in type_.fields],
    }


def _type(value: Any) -> FieldType:
    if isinstance(value, str):
        return ScalarType(SCALAR_KINDS[value])
    if "vector" in value:
        return VectorType(_type(value["vector"]))
    if "ref" in value:
        return RefType(value["ref"])
    if "enum" in value:
        return EnumType(
            name=value["enum"],
            elements=tuple(
                EnumElement(tag=tag, name=name, value=tag) for tag, name in value["elements"]
            ),
        )
    return StructType(
        name=value["struct"],
        fields=tuple(
            Field(tag=tag, name=name, type=_type(inner), is_key=is_key)
            for tag, name, is_key, inner in value["fields"]
        ),
    )
