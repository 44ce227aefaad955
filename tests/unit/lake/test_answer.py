from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from skerry.lake.answer import Answer

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", None, "z"]})


def answer_of(table: pa.Table) -> Answer:
    empty = pa.RecordBatch.from_pylist([], table.schema)
    return Answer(table.schema, lambda: iter([empty, *table.to_batches(2)]))


def test_rows_can_be_requested_several_times() -> None:
    answer = answer_of(TABLE)
    assert [batch.num_rows for batch in answer.batches()] == [2, 1], "empty batches are left out"
    assert answer.to_arrow() == answer.to_arrow() == TABLE
    assert answer.reader().read_all() == TABLE


def test_rows_are_converted_for_other_libraries() -> None:
    answer = answer_of(TABLE)
    assert answer.to_pandas()["a"].tolist() == [1, 2, 3]
    assert answer.to_polars().equals(pl.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]}))
    assert answer.to_pylist()[1] == {"a": 2, "b": None}


def test_other_tools_accept_an_answer_directly() -> None:
    answer = answer_of(TABLE)
    assert pa.table(answer) == TABLE
    assert pl.DataFrame(answer)["a"].sum() == 6
    found: Any = duckdb.sql("SELECT sum(a) FROM answer")
    assert found.fetchall() == [(6,)]


def test_no_rows_have_columns() -> None:
    answer = Answer(TABLE.schema, lambda: iter(()), notes=lambda: ("nothing",))
    assert answer.to_arrow().schema == TABLE.schema
    assert (answer.notes, repr(answer)) == (("nothing",), "<Answer with columns a, b>")
