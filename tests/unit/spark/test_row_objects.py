"""Rows back to objects."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings

import skerry
from skerry.errors import PipelineError
from skerry.schema.model import StructType
from skerry.spark.decode import WHOLE, decode_payloads
from skerry.spark.row_objects import RowObjects
from skerry.spark.schema import typed_schema
from skerry.testing import strategies

TYPES = skerry.define_types("""
enum Level { 1: low, 7: high }
struct Point { 1: float64 x; }
struct Alarm {
    1: [key] uint32 id;
    2: Level level;
    3: timepoint since;
    4: vector<Point> way;
    5: uuid label;
    6: string subject;
    7: instance_ref cause;
    8: property_set fields;
    9: any load;
}
""")
Alarm: Any = TYPES.Alarm


def test_every_kind_of_value_finds_its_field() -> None:
    row = {
        "id": Decimal(5),
        "level": "high",
        "since": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC),
        "way": [{"x": 1}, {"x": None}],
        "label": str(UUID(int=3)),
        "subject_": "text",
        "cause": {"type": "Alarm", "key": b"\x81\x01"},
        "fields": 6,
        "load": {"type": "Point", "payload": b"\xa0"},
        "time_ns": 12,
        "subject": "/elsewhere",
    }
    made = RowObjects(Alarm.descriptor, row).make(row)
    assert made == Alarm(
        id=5,
        level=TYPES.Level.high,
        since=2.0,
        way=[TYPES.Point(x=1.0), TYPES.Point()],
        label=UUID(int=3),
        subject="text",
        cause=skerry.Ref("Alarm", b"\x81\x01"),
        fields=skerry.PropertySet(6),
        load=skerry.AnyObject("Point", b"\xa0"),
    )
    assert Alarm.decode(made.encode()) == made


def test_columns_may_be_in_any_case_and_fields_may_be_missing() -> None:
    made = RowObjects(Alarm.descriptor, ["ID", "Level"]).make({"ID": 1, "Level": None})
    assert made == Alarm(id=1)


def test_a_column_that_is_no_field_is_refused() -> None:
    with pytest.raises(PipelineError, match="Alarm has no field colour") as caught:
        RowObjects(Alarm.descriptor, ["id", "colour", "time_ns"])
    assert "level" in (caught.value.hint or "")


@pytest.mark.parametrize("row", [{"id": 1.5}, {"level": "middle"}])
def test_a_value_that_does_not_fit_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=r"no whole number|no element"):
        RowObjects(Alarm.descriptor, row).make(row)


@pytest.mark.slow
@settings(max_examples=40)
@given(strategies.struct_types().flatmap(strategies.objects_of))
def test_what_was_decoded_can_be_published_again(obj: skerry.Struct) -> None:
    struct: StructType = obj.descriptor
    reader = typed_schema([struct]).reader
    rows = decode_payloads(reader, pa.array([obj.encode()], pa.binary()))
    row = {name: rows.column(name)[0].as_py() for name in rows.schema.names}
    if row["unknown"] is not None or any(_is_time(field) for field in struct.fields):
        # Not all of it is in columns, or only to the microsecond.
        assert WHOLE not in dict(row["unknown"] or [])
        return
    # The reader's names are those of the columns.
    again = RowObjects(reader, row).make(row)
    assert again.encode() == obj.encode()


def _is_time(field: Any) -> bool:
    return "timepoint" in field.type.name


def test_fields_whose_names_are_taken_come_back_from_their_columns() -> None:
    types = skerry.define_types(
        "struct Odd { 1: string key; 2: string Key; 3: string lives; 4: string text; }"
    )
    obj = types.Odd(key="a", Key="b", lives="c", text="d")
    rows = decode_payloads(
        typed_schema([types.Odd.descriptor]).reader, pa.array([obj.encode()], pa.binary())
    )
    row = {name: rows.column(name)[0].as_py() for name in rows.schema.names}
    assert set(row) == {"key_", "Key__", "lives_", "text", "unknown"}
    assert RowObjects(types.Odd.descriptor, row).make(row) == obj
