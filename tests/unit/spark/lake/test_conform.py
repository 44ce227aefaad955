from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.lake.lake import conformed


@pytest.mark.slow
def test_rows_fit_a_wider_schema(spark: Any) -> None:
    from pyspark.sql import types as T  # noqa: N812

    old = "a smallint, inner struct<x: int>, many array<struct<x: int>>, plain array<int>"
    new = "b string, a int, inner struct<x: bigint, y: string>, many array<struct<x: int, y: int>>"
    frame = spark.createDataFrame([(5, (1,), [(2,)], [3]), (None, None, None, None)], old)
    wanted = T.StructType.fromDDL(f"{new}, plain array<bigint>")
    assert isinstance(wanted, T.StructType)
    result = conformed(frame, wanted)
    assert result.schema.simpleString() == wanted.simpleString()
    first, second = result.collect()
    assert first.asDict(recursive=True) == {
        "b": None,
        "a": 5,
        "inner": {"x": 1, "y": None},
        "many": [{"x": 2, "y": None}],
        "plain": [3],
    }
    assert set(second.asDict().values()) == {None}
