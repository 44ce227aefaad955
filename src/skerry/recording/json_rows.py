"""Rows as JSON objects, and the JSON schemas of types with which viewers display them.

Fields are under their names, the facts of the row under names that begin with `_`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from skerry.codec.envelope import GAP, OPERATION_NAMES, Update
from skerry.codec.pieces import split
from skerry.codec.plans import TAG_COUNT
from skerry.errors import DecodeError, RecordingError
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.json import to_json_values
from skerry.recording.gaps import gap_of
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    FieldType,
    Kind,
    StructType,
    VectorType,
)

FACT_NAMES: Final = (
    "_operation",
    "_type",
    "_key",
    "_subject",
    "_space",
    "_time",
    "_time_ns",
    "_sent_ns",
    "_sender",
    "_node",
    "_sequence",
    "_position",
    "_source",
)
"""The facts that every row has besides its fields."""


def json_row(update: Update, type_: StructType | None) -> dict[str, Any]:
    """A row as a JSON object. Fields that the update cleared are null.

    Fields that the type does not have are under `_unknown`, by tag, as the hexadecimal digits of
    their encoded values; so is a field that contains such a field. If the type is unknown, or the
    payload does not decode as that type, the whole payload is under `_payload`.
    """
    if update.operation == GAP:
        return {**_facts(update, None), **_gap(update)}
    fields: dict[str, Any] = {}
    key: Any = update.key.hex()
    if type_ is None:
        fields["_payload"] = update.payload.hex()
    else:
        try:
            fields = _fields(update, type_)
            values = [fields.get(field.name) for field in type_.key_fields]
            key = values[0] if len(values) == 1 else values
        except DecodeError as error:
            fields = {"_payload": update.payload.hex(), "_fault": str(error)}
    return {**fields, **_facts(update, key)}


def time_text(time_ns: int) -> str:
    """An instant as ISO 8601 with nanoseconds; as a number outside the range of the calendar."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ns)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _fields(update: Update, type_: StructType) -> dict[str, Any]:
    cls = class_of(type_)
    values = to_json_values(cls.decode(update.payload))
    for field in type_.fields:
        if update.present >> field.tag & 1:
            values.setdefault(field.name, None)
    pieces = split(codec_of(cls).plan, update.payload, 0)
    if pieces.unknown:
        tags = (tag for tag in range(TAG_COUNT) if pieces.unknown >> tag & 1)
        values["_unknown"] = {str(tag): (pieces.value(tag) or b"").hex() for tag in tags}
    return values


def _facts(update: Update, key: Any) -> dict[str, Any]:
    values = (
        OPERATION_NAMES[update.operation] if 0 < update.operation <= 5 else update.operation,
        update.type_name,
        key,
        update.subject,
        update.space,
        time_text(update.time_ns),
        update.time_ns,
        update.sent_ns if update.sent_ns != -1 else None,
        update.sender,
        update.node,
        update.sequence,
        update.position,
        update.source,
    )
    return dict(zip(FACT_NAMES, values, strict=True))


def _gap(update: Update) -> dict[str, Any]:
    try:
        gap = gap_of(update.payload)
    except RecordingError as error:
        return {"_payload": update.payload.hex(), "_fault": str(error)}
    return {
        "_count": gap.count,
        "_first": gap.first,
        "_stop": gap.stop,
        "_reason": gap.reason,
        "_first_ns": gap.first_ns,
        "_last_ns": gap.last_ns,
    }


# -- schemas


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_HEX: Final = {"type": "string", "contentEncoding": "base16"}

_SCALARS: Final[dict[Kind, dict[str, Any]]] = {
    Kind.BOOL: {"type": "boolean"},
    Kind.FLOAT16: _NUMBER,
    Kind.FLOAT32: _NUMBER,
    Kind.FLOAT64: _NUMBER,
    Kind.TIMEPOINT: _NUMBER,
    Kind.STEADY_TIMEPOINT: _NUMBER,
    Kind.DURATION: _NUMBER,
    Kind.STRING: _TEXT,
    Kind.BYTES: _HEX,
    Kind.UUID: {"type": "string", "format": "uuid"},
    Kind.ANY: {"type": "object", "properties": {"type": _TEXT, "payload": _HEX}},
    Kind.REF: {"type": "object", "properties": {"type": _TEXT, "key": _HEX}},
}

_TEXT_FACTS: Final = ("_operation", "_type", "_subject", "_space", "_time", "_source")
_OPEN_FACTS: Final = ("_key",)
"""Facts of any JSON type."""


def json_schema(type_: StructType) -> dict[str, Any]:
    """The schema of rows of a type: its fields and the facts of a row. No field is required."""
    properties = _properties(type_)
    for name in FACT_NAMES:
        if name in _TEXT_FACTS:
            properties[name] = _TEXT
        elif name not in _OPEN_FACTS:
            properties[name] = {"type": "integer"}
    properties["_unknown"] = {"type": "object", "additionalProperties": _HEX}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": type_.name,
        "type": "object",
        "properties": properties,
    }


def _properties(type_: StructType) -> dict[str, Any]:
    return {field.name: _schema(field.type) for field in type_.fields}


def _schema(type_: FieldType) -> dict[str, Any]:
    if isinstance(type_, StructType):
        return {"type": "object", "properties": _properties(type_)}
    if isinstance(type_, VectorType):
        return {"type": "array", "items": _schema(type_.element)}
    if isinstance(type_, EnumType):
        return {"type": "string", "enum": [element.name for element in type_.elements]}
    if type_.kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_.kind]
        return {"type": "integer", "minimum": low, "maximum": high}
    return dict(_SCALARS[type_.kind])
