"""The columns of a recorded row, which never change."""

from __future__ import annotations

from skerry.objects.internal import internal_class
from skerry.recording.columns import COLUMNS, DESCRIPTOR_TYPES, SCHEMA


def test_columns_are_the_documented_ones() -> None:
    name = "dictionary<values=string, indices=int32, ordered=0>"
    assert [(field.name, str(field.type), field.nullable) for field in SCHEMA] == [
        ("time_ns", "int64", False),
        ("sent_ns", "int64", True),
        ("space", name, False),
        ("subject", "string", False),
        ("type", name, False),
        ("fingerprint", "int64", False),
        ("operation", "int8", False),
        ("present", "uint32", False),
        ("key", "binary", False),
        ("sender", "int64", False),
        ("node", "int64", False),
        ("sequence", "int64", False),
        ("position", "int64", False),
        ("source", name, False),
        ("payload", "binary", False),
    ]
    assert tuple(SCHEMA.names) == COLUMNS


def test_descriptions_are_objects_of_internal_types() -> None:
    assert [internal_class(name).descriptor.name for name in DESCRIPTOR_TYPES] == list(
        DESCRIPTOR_TYPES
    )
