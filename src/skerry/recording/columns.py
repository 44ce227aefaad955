"""The columns of a recorded row, in order.

Every segment of every recording has exactly these columns, so any Arrow tool reads them and rows of
several recordings can be combined. Names and types never change: recordings are kept for years.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
"""For columns with few distinct values."""

SCHEMA: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("sent_ns", pa.int64()),
        pa.field("space", _NAME, nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("type", _NAME, nullable=False),
        pa.field("fingerprint", pa.int64(), nullable=False),
        pa.field("operation", pa.int8(), nullable=False),
        pa.field("present", pa.uint32(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("sender", pa.int64(), nullable=False),
        pa.field("node", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("source", _NAME, nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)

COLUMNS: Final = tuple(SCHEMA.names)

DESCRIPTOR_TYPES: Final = ("EnumDescriptorData", "StructDescriptorData")
"""Types whose rows describe types. In each segment a description precedes the rows that need it."""
