"""The columns of the tables.

The guide of the pipeline describes each. A table of a type has the columns below and one for each
field of the type. Columns follow tags: a column keeps the name under which its field was first
recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE
from skerry.spark.lake.schema import RECORDED, UNKNOWN, TypedSchema, payload_schema


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


_LAST: Final = ("life", "sender", "node", "position", "sequence")
STATE_FACTS: Final = ("valid_from_ns", "valid_from", *_LAST)
"""The columns of a state that queries return, besides those of the object and its fields."""

CHANGES: Final = {CREATE: "create", UPDATE: "update", REMOVE: "remove", SNAPSHOT: "snapshot"}
"""The names of operations in query results."""


def _columns(**types: pa.DataType) -> tuple[pa.Field, ...]:
    return tuple(pa.field(name, type_) for name, type_ in types.items())


_TEXT: Final = pa.string()
_WHOLE: Final = pa.int64()
_BYTES: Final = pa.binary()
_MOMENT: Final = pa.timestamp("us", tz="UTC")

_ORDER_NS: Final = _columns(order_ns=_WHOLE)
"""The latest `time_ns` that the node had stamped so far. Tables are ordered by it."""
_LAST_UPDATE: Final = _columns(sender=_WHOLE, node=_WHOLE, position=_WHOLE, sequence=_WHOLE)
_STATE: Final = (
    *_columns(space=_TEXT, key=_BYTES, subject=_TEXT),
    # The end is exclusive, and null while the state lasts.
    *_columns(valid_from_ns=_WHOLE, valid_to_ns=_WHOLE, valid_from=_MOMENT, valid_to=_MOMENT),
    # How often the object had been created; 0: before the recording began.
    *_columns(life=_WHOLE),
    *_LAST_UPDATE,
)
_KINDS: Final = {
    # One row for each update; fields outside its property set are null.
    "updates": (
        *_ORDER_NS,
        *(field for field in RECORDED if field.name != "payload"),
        *_columns(payload_bytes=_WHOLE, hour=_TEXT),
    ),
    # One row for each past state of an object, with all its fields.
    "history": (*_STATE, *_columns(bucket=_TEXT)),
    # One row for each object that exists now. The part is pmod(xxhash64(space, key), parts).
    "latest": (*_STATE, *_columns(part=pa.int32())),
    # The objects at a few instants, so that queries about the past read little. `valid_to` is
    # correct for instants from `edge_ns` up to `until_ns`.
    "snapshots": (*_STATE, *_columns(edge_ns=_WHOLE, until_ns=_WHOLE)),
    # One row for each object that was removed and not created again.
    "gone": (
        *_columns(space=_TEXT, key=_BYTES, life=_WHOLE, removed_ns=_WHOLE, removed=_MOMENT),
        *_LAST_UPDATE,
        *_columns(part=pa.int32()),
    ),
    # Gaps, and updates of types without a recorded definition.
    "raw": (*_ORDER_NS, *RECORDED, *_columns(day=_TEXT)),
}
"""The columns of each kind of table, without those of fields."""

DIVIDED_BY: Final = {
    "updates": ("hour",),
    "history": ("bucket",),
    "latest": ("part",),
    "gone": ("part",),
    "snapshots": ("edge_ns", "until_ns"),
    "raw": ("day", "type"),
}
"""Partition columns: each file has one value of them."""

_ADDED: Final = ("age_s", "change", "order_time", UNKNOWN)
"""Names of columns that query results add to those of tables."""
_TAKEN: Final = frozenset(field.name for fields in _KINDS.values() for field in fields).union(
    _ADDED
)


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


def table_schema(kind: str, schema: TypedSchema | None = None) -> pa.Schema:
    """All columns of a table, partition columns last; tables of a type need its `schema`."""
    own = _KINDS[kind]
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
