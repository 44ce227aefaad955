"""Removes duplicates: each update is kept once, however often it was recorded.

Two recorders of one space record the same updates, and a restarted recorder records the cached
objects again. The identity of an update is that of `merging.identity`, here as Spark columns.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import DISTRIBUTOR, SNAPSHOT

BLOCK_COUNT: Final = 65_536
"""Number of updates of one node that are sorted together in one task."""

IDENTITY: Final = ("id_kind", "id_node", "id_sender", "id_block", "id_number")
"""Columns that are equal in two rows exactly if they are the same update."""

_CONTENT: Final = ("key", "operation", "present", "subject", "type", "sent_ns", "payload")
_IS_MULTICAST: Final = f"(source = '{DISTRIBUTOR}' and sequence > 0)"
_HAS_POSITION: Final = f"(position > 0 and node != 0 and not {_IS_MULTICAST})"
# As text: building an expression takes many messages to the JVM, for every type in every batch.
_BY_POSITION, _BY_MULTICAST, _BY_SENDER, _BY_CONTENT = 1, 2, 3, 4


def with_identity(rows: DataFrame) -> DataFrame:
    kind = (
        f"cast(case when {_HAS_POSITION} then {_BY_POSITION}"
        f" when {_IS_MULTICAST} then {_BY_MULTICAST}"
        f" when sequence > 0 then {_BY_SENDER} else {_BY_CONTENT} end as tinyint)"
    )
    content = f"xxhash64({', '.join(name for name in _CONTENT if name in rows.columns)})"
    number = _by(position="position", multicast="sequence", sender="sequence", content="time_ns")
    block = f"id_number div {BLOCK_COUNT}"
    # In steps, because each uses columns of the previous one.
    numbered = rows.selectExpr("*", f"{kind} as id_kind").selectExpr("*", f"{number} as id_number")
    return numbered.selectExpr(
        "*",
        f"{_by(position='node', multicast='0', sender='node', content='node')} as id_node",
        f"{_by(position='0', multicast='sender', sender='sender', content='sender')} as id_sender",
        f"{_by(position=block, multicast=block, sender=block, content=content)} as id_block",
    )


def has_position() -> Column:
    """Whether a node numbered the row. Multicast is not numbered: many nodes receive it."""
    return F.expr(_HAS_POSITION)


def distinct_rows(rows: DataFrame) -> DataFrame:
    """Rows with an identity, each update once; an update is preferred to a snapshot row."""
    is_snapshot = (F.col("operation") == SNAPSHOT).cast("tinyint")
    together = Window.partitionBy(*IDENTITY[:-1]).orderBy("id_number", is_snapshot, "time_ns")
    before = F.lag("id_number").over(together)
    return (
        rows.withColumn("number_before", before)
        .where("number_before is null or number_before != id_number")
        .drop("number_before")
    )


def unseen_rows(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows that are not among the known rows; both have an identity."""
    return rows.join(known.select(*IDENTITY), on=list(IDENTITY), how="left_anti").select(
        *rows.columns
    )


def _by(*, position: str, multicast: str, sender: str, content: str) -> str:
    return (
        f"cast(case id_kind when {_BY_POSITION} then {position} when {_BY_MULTICAST} then"
        f" {multicast} when {_BY_SENDER} then {sender} else {content} end as bigint)"
    )
