from __future__ import annotations

import pyarrow as pa
import pytest

import skerry
from skerry.spark.lake.catalog import (
    DIVIDED_BY,
    OBJECT,
    ORDER,
    FieldColumn,
    field_columns,
    table_schema,
)
from skerry.spark.lake.schema import typed_schema

SCHEMA = typed_schema(
    [
        skerry.define_types(
            "struct T { 1: [key] uint32 key; 2: string life; 3: string Life_; 4: uint8 hour; }"
        ).T.descriptor
    ]
)


def test_field_whose_name_a_table_uses_gets_another() -> None:
    columns = field_columns(SCHEMA)
    assert [column.name for column in columns] == ["key_", "life_", "Life__", "hour_"]
    assert [column.tag for column in columns] == [1, 2, 3, 4]
    assert isinstance(columns[0], FieldColumn)


@pytest.mark.parametrize("kind", sorted(DIVIDED_BY))
def test_columns_that_divide_a_table_are_its_last(kind: str) -> None:
    names = table_schema(kind, None if kind == "raw" else SCHEMA).names
    divided = DIVIDED_BY[kind]
    assert tuple(names[-len(divided) :]) == divided
    assert len(set(names)) == len(names)


def test_only_updates_have_the_column_unknown() -> None:
    kinds = [kind for kind in DIVIDED_BY if "unknown" in table_schema(kind, SCHEMA).names]
    assert kinds == ["updates"]
    assert "life_" not in table_schema("gone", SCHEMA).names


@pytest.mark.parametrize("kind", ["updates", "history", "latest", "snapshots", "gone"])
def test_rows_of_types_name_their_object(kind: str) -> None:
    columns = table_schema(kind, SCHEMA)
    assert columns.field("key").type == pa.binary()
    assert set(OBJECT) <= set(columns.names)


def test_updates_have_all_they_are_ordered_by() -> None:
    assert set(ORDER) <= set(table_schema("updates", SCHEMA).names)
