from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skerry.errors import PipelineError
from skerry.spark.lake.data_files import TableChange
from skerry.spark.lake.delta import ContentsCache, Table, read_files
from skerry.spark.lake.lake import delta_schema
from skerry.spark.lake.store import TableStore
from tests.object_store import ObjectStore
from tests.unit.spark.deltas import SCHEMA, change, data_file, stored_file, table_of


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


def test_contents_are_those_of_one_moment_and_can_be_narrowed(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    assert table.contents() is None
    files = [data_file(tmp_path, "t", f"{n}.parquet", n, hour=f"h{n}") for n in range(3)]
    table.commit(change("t", *files), application="x", version=0)
    contents = table.contents()
    assert contents is not None
    assert sorted(contents.files, key=lambda file: file.path) == files
    assert contents.divided_by == ("hour",)
    assert contents.schema.equals(SCHEMA)
    table.commit(change("t", removed=("1.parquet",)), application="x", version=1)
    assert contents.only(None) is contents, "what was read stays as it was"
    (file,) = contents.only(lambda file: file.parts["hour"] == "h1").files
    assert file == files[1]


def test_files_without_statistics_or_parts_are_listed_too(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    whole = data_file(tmp_path, "t", "a.parquet", 1, 2)
    bare = replace(data_file(tmp_path, "t", "b.parquet", 3), parts={"hour": None}, low={}, high={})
    table.commit(change("t", whole, bare), application="x", version=0)
    assert sorted(table.files(), key=lambda file: file.path) == [whole, bare]
    undivided = table_of(tmp_path, "u")
    alone = replace(data_file(tmp_path, "u", "a.parquet", 1), parts={})
    undivided.commit(replace(change("u", alone), divided_by=()), application="x", version=0)
    assert undivided.files() == [alone]


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
    with pytest.raises(
        PipelineError, match="files to be replaced are not in the table any more, such as z"
    ):
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


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no table nothing"):
        table_of(tmp_path, "nothing").frame(None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_staged_rows_are_read_with_their_partition_values(spark: Any, tmp_path: Path) -> None:
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
    work = TableChange(
        table="raw", schema=delta_schema(schema), divided_by=("day", "type"), added=tuple(files)
    )
    table.commit(work, application="x", version=0)
    assert sorted(tuple(r) for r in table.frame(spark).collect()) == sorted(
        rows, key=lambda r: r[0]
    )
    late = table.frame(spark, lambda file: file.may_have("order_ns", 6, 99))
    assert [row.order_ns for row in late.collect()] == [9]
    assert read_files(spark, table.store, "raw", [], schema, ("day",)).count() == 0


@pytest.mark.slow
def test_later_columns_are_in_the_order_of_the_log(spark: Any, tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    old = spark.createDataFrame([(1, "h")], "order_ns bigint, hour string")
    new = spark.createDataFrame([(2, "n", "i")], "order_ns bigint, note string, hour string")
    wider = delta_schema(SCHEMA.append(pa.field("note", pa.string())))
    work = change("t", *table.stage(old, ["hour"], label="b"))
    table.commit(work, application="x", version=0)
    work = replace(change("t", *table.stage(new, ["hour"], label="b")), schema=wider)
    table.commit(work, application="x", version=1)
    first = table.frame(spark, lambda file: file.parts["hour"] == "h")
    second = table.frame(spark, lambda file: file.parts["hour"] == "i")
    assert first.columns == second.columns == ["order_ns", "hour", "note"]
    assert [tuple(row) for row in (*first.collect(), *second.collect())] == [
        (1, "h", None),
        (2, "i", "n"),
    ]


def test_cached_contents_are_not_read_again_and_include_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache: ContentsCache = {}
    table = Table(TableStore(tmp_path), "t", cache=cache)
    reads = []
    read = Table.log

    def counted(self: Table) -> DeltaTable | None:
        reads.append(self.name)
        return read(self)

    monkeypatch.setattr(Table, "log", counted)
    assert not table.exists()
    assert (table.files(), table.schema(), table.contents()) == ([], None, None)
    assert len(reads) == 1
    first, second, third = (data_file(tmp_path, "t", f"{n}.parquet", n) for n in range(3))
    table.commit(change("t", first), application="x", version=0)
    assert table.files() == [first]
    reads.clear()
    table.commit(change("t", second, removed=(first.path,)), application="x", version=1)
    assert table.files() == [second]
    assert table.exists()
    assert len(reads) == 1, "that of the commit"
    # A commit uses the current log, not the cached contents.
    table_of(tmp_path, "t").rewrite(change("t", third))
    assert table.files() == [second]
    assert not table.commit(change("t", first), application="x", version=1)
    table.rewrite(change("t", removed=(second.path,)))
    assert table.files() == [third]


# -- elsewhere


def test_a_remote_table_commits_each_batch_once(bucket: str) -> None:
    store = TableStore(f"{bucket.replace('s3:', 's3a:')}/lake")
    table = Table(store, "updates/T")
    assert (table.exists(), table.files(), table.version_of("x")) == (False, [], -1)
    first = stored_file(store, "updates/T", "a.parquet", 1, 2)
    assert table.commit(change("updates/T", first), application="x", version=0)
    assert not table.commit(change("updates/T", first), application="x", version=0)
    assert (table.files(), table.version_of("x")) == ([first], 0)
    second = stored_file(store, "updates/T", "b.parquet", 3)
    table.commit(change("updates/T", second, removed=("a.parquet",)), application="x", version=1)
    assert Table(TableStore(f"{bucket}/lake"), "updates/T").files() == [second]


def test_concurrent_remote_commits_do_not_overwrite_each_other(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store itself sees to it: an entry of a log is only written where there is none."""
    store = TableStore(f"{bucket}/lake")
    table = Table(store, "t")
    files = [stored_file(store, "t", f"{name}.parquet", 1) for name in "abc"]
    table.commit(change("t", files[0]), application="x", version=0)
    stale = table.log()
    table.commit(change("t", files[1]), application="x", version=1)
    with monkeypatch.context() as patched:
        patched.setattr(Table, "log", lambda _table: stale)
        with pytest.raises(PipelineError, match="cannot commit to t"):
            table.commit(change("t", files[2]), application="x", version=2)
    assert sorted(file.path for file in table.files()) == ["a.parquet", "b.parquet"]
    assert table.version_of("x") == 1


@pytest.mark.slow
def test_an_unreachable_remote_log_is_an_error(bucket: str, object_store: ObjectStore) -> None:
    table = Table(TableStore(f"{bucket}/lake"), "t")
    with object_store.locked(), pytest.raises(PipelineError, match="credentials") as caught:
        table.files()
    assert str(caught.value).startswith(f"cannot read {bucket}/lake/t: ")
