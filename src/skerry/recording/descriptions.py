"""Descriptions of types as rows, and types from such rows.

The types nested in a struct are described before it. So a reader never has to search for a part,
and two structs that use different enums of the same name do not interfere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import INTERNAL, SNAPSHOT, Update
from skerry.codec.subjects import default_subject
from skerry.errors import CodecError, SchemaError
from skerry.objects.base import codec_of, key_of
from skerry.objects.descriptors import describe, from_description
from skerry.objects.internal import internal_class
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType, dependencies


def description_updates(type_: NamedType, *, space: str, time_ns: int) -> list[Update]:
    """The rows that describe a type: the nested types first, then the type."""
    return [
        _description_update(part, space=space, time_ns=time_ns)
        for part in (*dependencies(type_), type_)
    ]


def described_types(rows: Iterable[tuple[str, int, bytes]]) -> dict[int, NamedType]:
    """Types by fingerprint, from type, fingerprint and payload of rows in order.

    An invalid description, or one with another fingerprint than its row, is left out: a recording
    keeps what was sent, including mistakes.
    """
    known: dict[str, NamedType] = {}
    found: dict[int, NamedType] = {}
    for type_name, number, payload in rows:
        type_ = _described(type_name, payload, known)
        if type_ is not None and fingerprint(type_) == number:
            known[type_.name] = type_
            found[number] = type_
    return found


def description_rows(rows: pa.RecordBatch) -> Iterator[tuple[str, int, bytes]]:
    """Type, fingerprint and payload of the rows that describe types."""
    is_one = pc.is_in(rows.column("type").cast(pa.string()), pa.array(DESCRIPTOR_TYPES))
    found = rows.filter(is_one)
    yield from zip(
        *(found.column(name).to_pylist() for name in ("type", "fingerprint", "payload")),
        strict=True,
    )


def _described(type_name: str, payload: bytes, known: dict[str, NamedType]) -> NamedType | None:
    try:
        return from_description(internal_class(type_name).decode(payload), known)
    except (CodecError, SchemaError):
        return None


def _description_update(type_: NamedType, *, space: str, time_ns: int) -> Update:
    obj: Any = describe(type_, with_documentation=True)
    codec = codec_of(type(obj))
    payload = obj.encode()
    return Update(
        type_name=obj.descriptor.name,
        subject=default_subject(codec.plan, codec.split(payload)),
        operation=SNAPSHOT,
        present=int(obj.attributes),
        key=key_of(obj),
        payload=payload,
        space=space,
        fingerprint=fingerprint(type_),
        time_ns=time_ns,
        source=INTERNAL,
    )
