"""Rows to make tables about the traffic of.

Spark takes as long for one row as for a thousand. So the cases of a module are built at once, each
in a space of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

NOON_NS = 1_789_992_000_000_000_000
"""2026-09-21T12:00:00Z"""

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes a frame of some columns of a schema, from the rows of each space."""

    def make(schema: StructType, spaces: Mapping[str, Sequence[Mapping[str, Any]]]) -> DataFrame:
        cells = [
            tuple({"space": space, **row}.get(name) for name in schema.names)
            for space, rows in spaces.items()
            for row in rows
        ]
        return spark.createDataFrame(cells, schema)

    return make


@pytest.fixture(scope="session")
def by_space() -> Callable[[DataFrame], dict[str, Rows]]:
    """Gives the rows of a frame by space."""

    def rows(built: DataFrame) -> dict[str, Rows]:
        found: dict[str, Rows] = defaultdict(list)
        for row in built.toArrow().to_pylist():
            found[row["space"]].append(row)
        return found

    return rows


@pytest.fixture(scope="session")
def event() -> Callable[..., dict[str, Any]]:
    """Makes an event so many seconds after noon, and with what is not usual about it."""

    def make(at_s: float, **others: Any) -> dict[str, Any]:
        ns = NOON_NS + round(at_s * 1e9)
        return {
            "time_ns": ns,
            "order_ns": ns,
            "subject": "/Vessel/1",
            "type": "Vessel",
            "operation": 2,
            "sender": 7,
            "node": 99,
            "source": "access",
            "payload_bytes": 10,
            **others,
        }

    return make
