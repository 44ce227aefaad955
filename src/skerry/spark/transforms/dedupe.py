"""Each update once, however often it was recorded.

Two recorders of one space, and one that starts again and tells what it finds, record the same
update twice. What tells updates apart is, by what is known of them: the node and its count; in
multicast the sender and its count; else the node, the sender and its count. Where nothing counts,
rows are the same if all of them is.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import DISTRIBUTOR, SNAPSHOT

__all__ = ["BLOCK_COUNT", "IDENTITY", "distinct_rows", "has_place", "unseen_rows", "with_identity"]

BLOCK_COUNT: Final = 65_536
"""Updates of one node that are looked at together: enough to sort well, and few for a task."""

IDENTITY: Final = ("id_kind", "id_node", "id_sender", "id_block", "id_number")
"""Columns that two rows share if they are the same update, and only then."""

_CONTENT: Final = ("key", "operation", "present", "subject", "type", "sent_ns", "payload")
_BY_POSITION, _BY_MULTICAST, _BY_SENDER, _BY_CONTENT = 1, 2, 3, 4


def with_identity(rows: DataFrame) -> DataFrame:
    """The rows with the columns of IDENTITY."""
    kind = (
        F.when(has_place(), _BY_POSITION)
        .when(_is_multicast(), _BY_MULTICAST)
        .when(F.col("sequence") > 0, _BY_SENDER)
        .otherwise(_BY_CONTENT)
    )
    content = F.xxhash64(*(name for name in _CONTENT if name in rows.columns))
    number = _by(F.col("position"), F.col("sequence"), F.col("sequence"), F.col("time_ns"))
    block = _block(number)
    return (
        rows.withColumn("id_kind", kind.cast("tinyint"))
        .withColumn("id_number", number)
        .withColumn("id_node", _by(F.col("node"), F.lit(0), F.col("node"), F.col("node")))
        .withColumn("id_sender", _by(F.lit(0), F.col("sender"), F.col("sender"), F.col("sender")))
        .withColumn("id_block", _by(block, block, block, content))
    )


def has_place() -> Column:
    """Whether a row stands in the order of a node. Multicast does not: many nodes receive it."""
    return (F.col("position") > 0) & (F.col("node") != 0) & ~_is_multicast()


def distinct_rows(rows: DataFrame) -> DataFrame:
    """Rows with an identity, each update once; what was said is kept before what was found."""
    together = Window.partitionBy(*IDENTITY[:-1]).orderBy("id_number", _is_found(), "time_ns")
    before = F.lag("id_number").over(together)
    return (
        rows.withColumn("number_before", before)
        .where(F.col("number_before").isNull() | (F.col("number_before") != F.col("id_number")))
        .drop("number_before")
    )


def unseen_rows(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows that are not among those that are known; both with an identity."""
    return rows.join(known.select(*IDENTITY), on=list(IDENTITY), how="left_anti").select(
        *rows.columns
    )


def _by(position: Column, multicast: Column, sender: Column, content: Column) -> Column:
    kind = F.col("id_kind")
    return (
        F.when(kind == _BY_POSITION, position)
        .when(kind == _BY_MULTICAST, multicast)
        .when(kind == _BY_SENDER, sender)
        .otherwise(content)
        .cast("bigint")
    )


def _block(number: Column) -> Column:
    return F.call_function("div", number, F.lit(BLOCK_COUNT))


def _is_multicast() -> Column:
    return (F.col("source") == DISTRIBUTOR) & (F.col("sequence") > 0)


def _is_found() -> Column:
    return (F.col("operation") == SNAPSHOT).cast("tinyint")
