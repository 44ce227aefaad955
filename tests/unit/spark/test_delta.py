from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skerry.errors import PipelineError
from skerry.spark.delta import Change, DataFile, read_files
from skerry.spark.lake import delta_schema
from tests.unit.spark.deltas import SCHEMA, change, data_file, table_of


def test_files_are_in_the_table_once_they_are_committed(tmp_path: Path) -> None:
    table = table_of(tmp_path, "updates/T")
    assert (table.exists(), table.schema(), table.files()) == (False, None, [])
    first = data_file(tmp_path, "updates/T", "a.parquet", 1, 2)
    assert table.commit(change("updates/T", first), application="x", version=0)
    assert table.files() == [first]
    second = data_file(tmp_path, "updates/T", "b.parquet", 3)
    table.commit(change("updates/T", second, removed=("a.parquet",)), application="x", version=1)
    assert table.files() == [second]
    assert table.files(lambda file: file.may_have("order_ns", 4, 9)) == []


def test_batch_is_committed_once(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    work = change("t", data_file(tmp_path, "t", "a.parquet", 1))
    assert table.version_of("x") == -1
    assert [table.commit(work, application="x", version=0) for _ in range(2)] == [True, False]
    assert table.version_of("x") == 0
    assert DeltaTable(tmp_path / "t").version() == 0


def test_file_that_is_gone_cannot_be_replaced(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    table.commit(change("t", data_file(tmp_path, "t", "a.parquet", 1)), application="x", version=0)
    with pytest.raises(PipelineError, match="that were to be replaced are gone: z"):
        table.commit(change("t", removed=("z.parquet",)), application="x", version=1)
    assert table.version_of("x") == 0


def test_new_column_is_added_and_other_kinds_replace_all(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    first = data_file(tmp_path, "t", "a.parquet", 1)
    table.commit(change("t", first), application="x", version=0)
    wider = SCHEMA.append(pa.field("note", pa.string()))
    more = replace(change("t"), schema=delta_schema(wider))
    table.commit(
        replace(more, added=(data_file(tmp_path, "t", "b.parquet", 2),)), application="x", version=1
    )
    schema = table.schema()
    assert schema is not None
    assert set(schema.names) == {"order_ns", "hour", "note"}
    other = pa.schema([pa.field("order_ns", pa.float64()), pa.field("hour", pa.string())])
    last = data_file(tmp_path, "t", "c.parquet", 3)
    table.commit(
        replace(change("t", last), schema=delta_schema(other), is_replacing=True),
        application="x",
        version=2,
    )
    assert [file.path for file in table.files()] == ["c.parquet"]


def test_table_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no table nothing"):
        table_of(tmp_path, "nothing").frame(None)  # type: ignore[arg-type]


def test_file_without_statistics_may_have_anything() -> None:
    file = DataFile(path="a", byte_count=1, rows=1, parts={}, low={}, high={})
    assert file.may_have("order_ns", 5, 6)


@pytest.mark.slow
def test_staged_rows_come_back_with_the_parts_they_were_divided_by(
    spark: Any, tmp_path: Path
) -> None:
    table = table_of(tmp_path, "raw")
    schema = pa.schema(
        [
            pa.field("order_ns", pa.int64()),
            pa.field("day", pa.string()),
            pa.field("type", pa.string()),
        ]
    )
    rows = [(1, "d", "a+b/ç"), (5, "d", None), (9, "e", "x")]
    frame = spark.createDataFrame(rows, "order_ns bigint, day string, type string")
    files = table.stage(frame, ["day", "type"], label="b")
    assert {file.parts["type"] for file in files} == {"a+b/ç", None, "x"}
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".crc", "_SUCCESS"))]
    work = Change(
        table="raw", schema=delta_schema(schema), divided_by=("day", "type"), added=tuple(files)
    )
    table.commit(work, application="x", version=0)
    assert sorted(tuple(r) for r in table.frame(spark).collect()) == sorted(
        rows, key=lambda r: r[0]
    )
    late = table.frame(spark, lambda file: file.may_have("order_ns", 6, 99), has_place=True)
    (row,) = late.collect()
    assert row.file_path in {file.path for file in table.files()}
    assert read_files(spark, table.store, "raw", [], schema, ("day",)).count() == 0
