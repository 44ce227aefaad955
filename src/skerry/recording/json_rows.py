"""Rows as JSON objects: fields by name, the facts of the row under names that begin with `_`."""

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
from skerry.schema.model import StructType

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
