from __future__ import annotations

import pyarrow as pa
import pytest

from skerry.spark.jobs.late_type import Interval, Staged, _is_wider
from skerry.spark.lake.schema import spark_schema
from tests.unit.spark.lake.test_lake import STATE

NEVER: Interval = (0, -1)


@pytest.mark.parametrize(
    ("wanted", "is_wider"),
    [
        ({"a": pa.int32()}, False),
        ({"a": pa.int64()}, True),
        ({"a": pa.int32(), "b": pa.string()}, False),
        ({"b": pa.string()}, False),
    ],
)
def test_a_table_is_rewritten_if_a_column_type_has_changed(
    wanted: dict[str, pa.DataType], is_wider: bool
) -> None:
    known = spark_schema(pa.schema({"a": pa.int32()}))
    assert _is_wider(spark_schema(pa.schema(wanted)), known) == is_wider


def test_staged_changes_are_values() -> None:
    staged = Staged(state=STATE, changes=(), row_count=0)
    assert staged == Staged(state=STATE, changes=(), row_count=0)
