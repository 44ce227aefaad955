"""Recorded events of all types: rows of `updates/T` and of `raw` with the same columns.

The tables about the traffic (rates, links, sessions, alarms) do not need the fields of objects.
They are built from these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.codec.envelope import GAP
from skerry.ids import NODE_CLIENT
from skerry.spark.lake.buckets import MINUTE_NS, floor_column, timestamp_column

_KINDS: Final = {
    "binary": T.BinaryType(),
    "byte": T.ByteType(),
    "boolean": T.BooleanType(),
    "double": T.DoubleType(),
    "long": T.LongType(),
    "string": T.StringType(),
    "strings": T.ArrayType(T.StringType()),
    "timestamp": T.TimestampType(),
}


def columns(text: str) -> T.StructType:
    """A schema from "name kind, name kind, ..."; Spark's own parser would need a session."""
    pairs = (item.split() for item in text.split(","))
    return T.StructType([T.StructField(name, _KINDS[kind]) for name, kind in pairs])


EVENTS: Final = columns(
    "time_ns long, order_ns long, sent_ns long, space string, subject string, type string,"
    " operation byte, sender long, node long, source string, payload_bytes long, payload binary"
)
"""The columns of an event. Only gap rows have a `payload`, which describes the gap."""


def events(updates: Sequence[DataFrame], raw: DataFrame | None = None) -> DataFrame:
    """The rows of tables `updates/T`, and of `raw`, as events; at least one table is needed."""
    frames = [_of_updates(frame) for frame in updates]
    if raw is not None:
        frames.append(_of_raw(raw))
    assert frames, "there are no tables to read events from"
    return reduce(DataFrame.unionByName, frames)


def minute_of(ns: Column) -> Column:
    """The minute of an instant in nanoseconds, as a timestamp."""
    return timestamp_column(floor_column(ns, MINUTE_NS))


def hour_of(moment: Column) -> Column:
    """The hour of a timestamp as a partition value: 2026-11-15T14."""
    return F.date_format(moment, "yyyy-MM-dd'T'HH")


def day_of(moment: Column) -> Column:
    """The day of a timestamp as a partition value: 2026-11-15."""
    return F.date_format(moment, "yyyy-MM-dd")


def latency_ms() -> Column:
    """The latency of an event; null if unknown, and for updates of the node itself."""
    is_own = (F.col("sender") == NODE_CLIENT) & (F.col("source") != "distributor")
    # `sent_ns` is untrusted: the difference of times centuries apart overflows and becomes null.
    return F.when(~is_own, F.try_subtract("time_ns", "sent_ns") / 1e6)


def with_columns(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The columns of `schema`; null if `frame` does not have one."""
    known = {field.name: field.dataType for field in frame.schema}
    return frame.selectExpr(*(_as(field, known.get(field.name)) for field in schema))


def _as(field: T.StructField, was: T.DataType | None) -> str:
    # As text: building an expression takes many messages to the JVM, and there are many tables.
    if was == field.dataType:
        return field.name
    value = "null" if was is None else field.name
    return f"cast({value} as {field.dataType.simpleString()}) as {field.name}"


def _of_updates(frame: DataFrame) -> DataFrame:
    # A field of this name is not the payload of the row.
    return with_columns(_ordered(frame.drop("payload")), EVENTS)


def _of_raw(frame: DataFrame) -> DataFrame:
    is_gap = F.col("operation") == GAP
    sized = frame.withColumn("payload_bytes", F.length("payload")).withColumn(
        "payload", F.when(is_gap, F.col("payload"))
    )
    return with_columns(_ordered(sized), EVENTS)


def _ordered(frame: DataFrame) -> DataFrame:
    known = ["order_ns", "time_ns"] if "order_ns" in frame.columns else ["time_ns"]
    return frame.withColumn("order_ns", F.coalesce(*known))
