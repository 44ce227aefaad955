"""The data source without Spark: what it plans, and what its tasks read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

import skerry
from skerry.codec.envelope import Update
from skerry.errors import PipelineError
from skerry.schema.fingerprint import fingerprint
from skerry.spark.lake.schema import schema_to_text, typed_schema
from skerry.spark.source.data_source import BatchReader, SkerrySource

OLD = skerry.define_types("struct A { 1: [key] uint8 id; 2: int8 x; }").A
NEW = skerry.define_types("struct A { 1: [key] uint8 id; 2: int16 ex; 3: string y; }").A
ODD = skerry.define_types("struct A { 1: [key] uint8 id; 2: string x; }").A


@pytest.fixture
def folder(tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]) -> Path:
    """An A of the old definition at each of 10, 20 and 30, and one of the new at 40."""
    record(tmp_path, [update_of(OLD(id=n, x=n), time_ns=10 * n) for n in (1, 2, 3)], types=[OLD])
    record(tmp_path, [update_of(NEW(id=4, ex=400, y="y"), time_ns=40)], types=[NEW])
    return tmp_path


def source_of(folder: Path, **options: str) -> SkerrySource:
    return SkerrySource({"path": str(folder), **options})


def read(source: SkerrySource, filters: list[Filter] | None = None) -> list[dict[str, Any]]:
    """All rows, by the way that Spark takes: everything is pickled between the steps."""
    schema = source.schema()
    again = pickle.loads(pickle.dumps(source))
    reader = again.reader(schema)
    assert isinstance(reader, BatchReader)
    assert list(reader.pushFilters(filters or [])) == []
    copied = pickle.loads(pickle.dumps(reader))
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    return [row for task in tasks for batch in copied.read(task) for row in batch.to_pylist()]


def test_columns_cover_all_definitions(folder: Path) -> None:
    rows = read(source_of(folder, type="A", columns="id,x,y,fingerprint"))
    assert [(row["id"], row["x"], row["y"]) for row in rows] == [
        (1, 1, None),
        (2, 2, None),
        (3, 3, None),
        (4, 400, "y"),
    ]
    assert source_of(folder, type="A").schema()["x"].dataType.simpleString() == "smallint"


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([EqualTo(("time_ns",), 20)], [2]),
        ([GreaterThan(("time_ns",), 20)], [3, 4]),
        ([GreaterThanOrEqual(("time_ns",), 20), LessThan(("time_ns",), 40)], [2, 3]),
        ([LessThanOrEqual(("time_ns",), 20), IsNotNull(("time_ns",))], [1, 2]),
        ([EqualTo(("type",), "A"), IsNotNull(("type",))], [1, 2, 3, 4]),
        ([EqualTo(("type",), "B")], []),
        ([In(("type",), ("A", "B")), EqualTo(("time_ns",), 10)], [1]),
        ([EqualTo(("time_ns",), 10), EqualTo(("time_ns",), 20)], []),
    ],
)
def test_filters_on_time_and_type_narrow_the_selection(
    folder: Path, filters: list[Filter], ids: list[int]
) -> None:
    assert [row["id"] for row in read(source_of(folder, type="A"), filters)] == ids


@pytest.mark.parametrize(
    "item",
    [
        EqualTo(("id",), 1),
        Not(EqualTo(("time_ns",), 1)),
        EqualTo(("time_ns",), 1.5),
        GreaterThan(("type",), "A"),
        In(("time_ns",), (1, 2)),
        EqualTo(("place", "time_ns"), 1),
    ],
)
def test_other_filters_stay_with_spark(folder: Path, item: Filter) -> None:
    source = source_of(folder, type="A")
    reader = source.reader(source.schema())
    assert list(reader.pushFilters([item])) == [item]


def test_one_definition_alone_can_be_read(
    folder: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> None:
    record(folder, [update_of(ODD(id=9, x="text"), time_ns=50)], types=[ODD])
    with pytest.raises(PipelineError, match="do not fit into one table"):
        source_of(folder, type="A").schema()
    odd = str(fingerprint(ODD.descriptor))
    rows = read(source_of(folder, type="A", fingerprints=odd, columns="id,x"))
    assert rows == [{"id": 9, "x": "text"}]


def test_columns_of_a_given_schema_are_used_whatever_is_recorded(folder: Path) -> None:
    text = schema_to_text(typed_schema([OLD.descriptor]))
    (row,) = read(source_of(folder, type="A", definition=text), [EqualTo(("time_ns",), 40)])
    # The definition does not know tag 3, and its x is too narrow for what came.
    assert (row["id"], row["x"]) == (None, None)
    assert [tag for tag, _ in row["unknown"]] == [0]


def test_an_unknown_column_or_type_is_rejected(folder: Path) -> None:
    with pytest.raises(PipelineError, match="unknown columns: z") as caught:
        source_of(folder, type="A", columns="id,z").schema()
    assert "time_ns" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match="no definition of Z"):
        source_of(folder, type="Z").schema()


def test_an_empty_recording_has_no_rows(tmp_path: Path, record: Callable[..., Path]) -> None:
    record(tmp_path)
    assert read(source_of(tmp_path)) == []


def test_the_columns_of_the_query_are_given(folder: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    source = source_of(folder, type="A")
    reader = source.reader(StructType([StructField("position", LongType())]))
    (task, *_) = reader.partitions()
    assert next(reader.read(task)).schema.names == ["position"]  # type: ignore[union-attr]
