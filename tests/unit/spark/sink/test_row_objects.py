"""Rows back to objects."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.errors import PipelineError
from skerry.schema.model import (
    Field,
    FieldType,
    Kind,
    NamedType,
    StructType,
    VectorType,
    content_of,
)
from skerry.spark.lake.schema import typed_schema
from skerry.spark.sink.row_objects import RowObjects
from skerry.spark.source.columnar_decoder import decode_payloads
from skerry.spark.source.payload_decoder import WHOLE_TAG
from tests import strategies

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


def test_a_column_that_is_not_a_field_is_rejected() -> None:
    with pytest.raises(PipelineError, match="Alarm has no field colour") as caught:
        RowObjects(Alarm.descriptor, ["id", "colour", "time_ns"])
    assert "level" in (caught.value.hint or "")


@pytest.mark.parametrize("row", [{"id": 1.5}, {"level": "middle"}])
def test_a_value_that_does_not_fit_is_rejected(row: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=r"not an integer|no element"):
        RowObjects(Alarm.descriptor, row).make(row)


@pytest.mark.parametrize("way", [[None], [{"x": 1.0}, None]])
def test_a_list_with_a_null_is_rejected(way: list[Any]) -> None:
    with pytest.raises(PipelineError, match="a list has a null") as caught:
        RowObjects(Alarm.descriptor, ["way"]).make({"way": way})
    assert "array_compact" in str(caught.value.hint)


NAMES = ("a", "A", "a_", "A_", "key", "Key", "key_", "subject", "type", "unknown", "element", "lat")
"""Names that differ in case only, that become each other's columns, and that rows have."""


@st.composite
def odd_structs(draw: st.DrawFn, name: str, known: tuple[NamedType, ...]) -> StructType:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    types = strategies.field_types(known)
    inner = st.sampled_from([*known, *map(VectorType, known)])
    fields = [
        Field(tag=tag, name=name, type=draw(inner | types)) for tag, name in enumerate(names, 3)
    ]
    return StructType(name=name, fields=tuple(fields))


@st.composite
def odd_objects(draw: st.DrawFn) -> skerry.Struct:
    """An object of structs within structs, with vectors of those, and enums."""
    known: tuple[NamedType, ...] = (draw(strategies.enum_types("Level")),)
    for name in ("Inner", "Middle", "Outer"):
        known = (*known, draw(odd_structs(name, known)))
    struct = known[-1]
    assert isinstance(struct, StructType)
    return draw(strategies.objects_of(struct))


@pytest.mark.slow
@settings(max_examples=80)
@given(odd_objects() | strategies.struct_types().flatmap(strategies.objects_of))
def test_decoded_rows_can_be_published_again(obj: skerry.Struct) -> None:
    struct: StructType = obj.descriptor
    row = row_of(obj)
    # Not all of it may be in columns: text that is no UTF-8, and times that no calendar has.
    notified = dict(row.pop("unknown") or [])
    assert WHOLE_TAG not in notified
    try:
        again = RowObjects(struct, row).make(row)
    except PipelineError as error:
        assert notified, "only what is not in columns may be missing"
        assert "a list has a null" in str(error)
        return
    for field, value, came in zip(struct.fields, values(obj), values(again), strict=True):
        if field.tag not in notified and not _has_time(field.type):
            assert plain(came) == plain(value)
    # Times are rounded to microseconds; what a column has goes back into it in any case.
    if not notified:
        assert plain(row_of(again)) == plain({**row, "unknown": None})


def row_of(obj: skerry.Struct) -> dict[str, Any]:
    rows = decode_payloads(
        typed_schema([obj.descriptor]).reader, pa.array([obj.encode()], pa.binary())
    )
    return {name: rows.column(name)[0].as_py() for name in rows.schema.names}


def values(obj: skerry.Struct) -> list[Any]:
    return [getattr(obj, attribute) for attribute in type(obj)._attributes.values()]


def plain(value: Any) -> str:
    """Something that is equal where the values are, those that are no number among them."""
    return repr(value)


def _has_time(type_: FieldType) -> bool:
    inner = content_of(type_)
    if isinstance(inner, StructType):
        return any(_has_time(field.type) for field in inner.fields)
    return inner.kind == Kind.TIMEPOINT


def test_inner_fields_are_restored_from_their_columns() -> None:
    types = skerry.define_types("""
    struct Place { 1: float64 lat; 2: float64 Lat; 3: string Lat_; }
    struct Way { 1: [key] uint8 id; 2: Place first; 3: vector<Place> rest; }
    """)
    place = types.Place(lat=1.0, Lat=2.0, Lat_="three")
    way = types.Way(id=1, first=place, rest=[place, types.Place(Lat=4.0)])
    row = row_of(way)
    assert row["first"] == {"lat": 1.0, "Lat_": 2.0, "Lat__": "three"}
    assert RowObjects(types.Way.descriptor, row).make(row) == way


def test_a_reserved_column_is_not_used_as_the_field_of_its_name() -> None:
    types = skerry.define_types("""
    struct Place { 1: float64 lat; 2: float64 Lat; 3: float64 Lat_; }
    struct Way { 1: [key] uint8 id; 2: Place first; 3: float64 ID; 4: float64 ID_; }
    """)
    # Columns of the second and the third were left out by a query.
    row = {"id": 1, "ID_": 3.0, "first": {"lat": 1.0, "Lat_": 2.0}}
    made = RowObjects(types.Way.descriptor, row).make(row)
    assert made == types.Way(id=1, ID=3.0, first=types.Place(lat=1.0, Lat=2.0))
    # Rows made by a program may have the names of the fields.
    row = {"id": 1, "first": {"lat": 1.0, "Lat": 2.0}}
    made = RowObjects(types.Way.descriptor, row).make(row)
    assert made == types.Way(id=1, first=types.Place(lat=1.0, Lat=2.0))


def test_fields_with_reserved_names_are_restored_from_their_columns() -> None:
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
