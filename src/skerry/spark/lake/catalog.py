"""The columns of the tables, each with its meaning.

A table of a type has the columns below and one for each field of the type. Columns follow tags: a
column keeps the name under which its field was first recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from skerry.spark.lake.schema import UNKNOWN, TypedSchema, payload_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldColumn:
    tag: int
    name: str
    source: str
    """Its name in typed rows, where fewer names are reserved."""


OBJECT: Final = ("space", "key")
"""The columns that identify an object of a type."""

ORDER: Final = ("order_ns", "node", "position", "sender", "sequence")
"""The order of updates. The first three decide; the others order updates without a position."""


def _column(name: str, type_: pa.DataType, meaning: str) -> Column:
    return Column(name=name, type=type_, meaning=meaning)


_TEXT: Final = pa.string()
_WHOLE: Final = pa.int64()
_MOMENT: Final = pa.timestamp("us", tz="UTC")

_ENVELOPE: Final = (
    _column("time_ns", _WHOLE, "wall time of the node where it entered, ns since 1970"),
    _column("sent_ns", _WHOLE, "wall time of the publisher; null where the wire has none"),
    _column("space", _TEXT, "space it was published in"),
    _column("subject", _TEXT, "subject, the default one included"),
    _column("type", _TEXT, "name of the type"),
    _column("fingerprint", _WHOLE, "definition of the type that was meant"),
    _column("operation", pa.int8(), "1 create, 2 update, 3 remove, 4 gap, 5 snapshot"),
    _column("present", _WHOLE, "property set: bit n is set if the update is about tag n"),
    _column("key", pa.binary(), "canonical key"),
    _column("sender", _WHOLE, "client on the node; in multicast a hash of the sender"),
    _column("node", _WHOLE, "node where it entered"),
    _column("sequence", _WHOLE, "count of the sender"),
    _column("position", _WHOLE, "count of the node: the order in which its cache merged"),
    _column("source", _TEXT, "access, distributor, portal, link or internal"),
)
_ORDER_NS: Final = _column(
    "order_ns", _WHOLE, "latest time_ns that the node had stamped so far; tables are ordered by it"
)
_PAYLOAD_BYTES: Final = _column("payload_bytes", _WHOLE, "size of the encoded object")

UPDATES: Final = (
    _ORDER_NS,
    *_ENVELOPE,
    _PAYLOAD_BYTES,
    _column("hour", _TEXT, "hour of order_ns in UTC, as 2026-11-15T14"),
)
"""Of `updates/T`: one row for each update; fields outside its property set are null."""

_OBJECT: Final = (
    _column("space", _TEXT, "space of the object"),
    _column("key", pa.binary(), "canonical key"),
)
_LIFE: Final = _column(
    "life", _WHOLE, "how often it had been created; 0: before the recording began"
)
_ENTRY: Final = (
    _column("node", _WHOLE, "node where that update entered"),
    _column("position", _WHOLE, "count of the node"),
    _column("sequence", _WHOLE, "count of the sender"),
)
_PART: Final = _column("part", pa.int32(), "pmod(xxhash64(space, key), number of parts)")

_STATE: Final = (
    *_OBJECT,
    _column("subject", _TEXT, "subject of its last update"),
    _column("valid_from_ns", _WHOLE, "start of the state, ns since 1970"),
    _column("valid_to_ns", _WHOLE, "end of the state, exclusive; null while it lasts"),
    _column("valid_from", _MOMENT, "the same as a timestamp"),
    _column("valid_to", _MOMENT, "the same as a timestamp"),
    _LIFE,
    _column("sender", _WHOLE, "sender of the last update"),
    *_ENTRY,
)

HISTORY: Final = (
    *_STATE,
    _column("bucket", _TEXT, "bucket of valid_from in UTC by its start, as 2026-11-15T1400"),
)
"""Of `history/T`: one row for each past state of an object, with all its fields."""

LATEST: Final = (*_STATE, _PART)
"""Of `latest/T`: one row for each object that exists now."""

SNAPSHOTS: Final = (
    *_STATE,
    _column("edge_ns", _WHOLE, "the instant of the snapshot"),
    _column("until_ns", _WHOLE, "valid_to is correct for instants from edge_ns up to this one"),
)
"""Of `snapshots/T`: the objects at a few instants, so that queries about the past read little."""

GONE: Final = (
    *_OBJECT,
    _LIFE,
    _column("removed_ns", _WHOLE, "when it was removed, ns since 1970"),
    _column("removed", _MOMENT, "the same as a timestamp"),
    _column("sender", _WHOLE, "sender of the remove"),
    *_ENTRY,
    _PART,
)
"""Of `gone/T`: one row for each object that was removed and not created again."""

RAW_TABLE: Final = (
    _ORDER_NS,
    *_ENVELOPE,
    _column("payload", pa.binary(), "the encoded object; of a gap, a description of the gap"),
    _column("day", _TEXT, "day of order_ns in UTC, as 2026-11-15"),
)
"""Of `raw`: gaps, and updates of types without a recorded definition."""

DIVIDED_BY: Final = {
    "updates": ("hour",),
    "history": ("bucket",),
    "latest": ("part",),
    "gone": ("part",),
    "snapshots": ("edge_ns", "until_ns"),
    "raw": ("day", "type"),
}
"""Partition columns: each file has one value of them."""

_KINDS: Final = {
    "updates": UPDATES,
    "history": HISTORY,
    "latest": LATEST,
    "snapshots": SNAPSHOTS,
    "gone": GONE,
    "raw": RAW_TABLE,
}
_ADDED: Final = ("age_s", "change", "order_time", UNKNOWN)
"""Names of columns that query results add to those of tables."""
_TAKEN: Final = frozenset(
    name for columns in _KINDS.values() for name in (column.name for column in columns)
).union(_ADDED)


@lru_cache(maxsize=256)
def field_columns(schema: TypedSchema) -> tuple[FieldColumn, ...]:
    """The columns of the fields of a type, in the order the fields were first recorded."""
    taken = {name.lower() for name in _TAKEN}
    columns = []
    for field in schema.reader.fields:
        name = field.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        columns.append(FieldColumn(tag=field.tag, name=name, source=field.name))
    return tuple(columns)


def arrow_columns(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def table_schema(kind: str, schema: TypedSchema | None = None) -> pa.Schema:
    """All columns of a table, partition columns last; tables of a type need its `schema`."""
    own = [pa.field(column.name, column.type) for column in _KINDS[kind]]
    divided = DIVIDED_BY[kind]
    fields: list[pa.Field] = []
    if schema is not None and kind != "gone":
        types = payload_schema(schema.reader)
        fields = [pa.field(c.name, types.field(c.source).type) for c in field_columns(schema)]
        if kind == "updates":
            fields.append(types.field(UNKNOWN))
    undivided = [field for field in own if field.name not in divided]
    last = [field for name in divided for field in own if field.name == name]
    return pa.schema([*undivided, *fields, *last])
