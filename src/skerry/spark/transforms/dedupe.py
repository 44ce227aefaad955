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

__all__ = [
    "BLOCK_COUNT",
    "IDENTITY",
    "distinct_rows",
    "has_position",
    "unseen_rows",
    "with_identity",
]

BLOCK_COUNT: Final = 65_536
"""Updates of one node that are looked at together: enough to sort well, and few for a task."""

IDENTITY: Final = ("id_kind", "id_node", "id_sender", "id_block", "id_number")
"""Columns that two rows share if they are the same update, and only then."""

_CONTENT: Final = ("key", "operation", "present", "subject", "type", "sent_ns", "payload")
_IS_MULTICAST: Final = f"(source = '{DISTRIBUTOR}' and sequence > 0)"
_HAS_PLACE: Final = f"(position > 0 and node != 0 and not {_IS_MULTICAST})"
# As text, since every batch asks this of every type, and an expression is many messages to the JVM.
_BY_POSITION, _BY_MULTICAST, _BY_SENDER, _BY_CONTENT = 1, 2, 3, 4


def with_identity(rows: DataFrame) -> DataFrame:
    """The rows with the columns of IDENTITY."""
    kind = (
        f"cast(case when {_HAS_PLACE} then {_BY_POSITION} when {_IS_MULTICAST} then {_BY_MULTICAST}"
        f" when sequence > 0 then {_BY_SENDER} else {_BY_CONTENT} end as tinyint)"
    )
    content = f"xxhash64({', '.join(name for name in _CONTENT if name in rows.columns)})"
    number = _by(position="position", multicast="sequence", sender="sequence", content="time_ns")
    block = f"id_number div {BLOCK_COUNT}"
    # In two steps, since each builds on the one before.
    numbered = rows.selectExpr("*", f"{kind} as id_kind").selectExpr("*", f"{number} as id_number")
    return numbered.selectExpr(
        "*",
        f"{_by(position='node', multicast='0', sender='node', content='node')} as id_node",
        f"{_by(position='0', multicast='sender', sender='sender', content='sender')} as id_sender",
        f"{_by(position=block, multicast=block, sender=block, content=content)} as id_block",
    )


def has_position() -> Column:
    """Whether a row stands in the order of a node. Multicast does not: many nodes receive it."""
    return F.expr(_HAS_PLACE)


def distinct_rows(rows: DataFrame) -> DataFrame:
    """Rows with an identity, each update once; what was said is kept before what was found."""
    together = Window.partitionBy(*IDENTITY[:-1]).orderBy("id_number", _is_found(), "time_ns")
    before = F.lag("id_number").over(together)
    return (
        rows.withColumn("number_before", before)
        .where("number_before is null or number_before != id_number")
        .drop("number_before")
    )


def unseen_rows(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows that are not among those that are known; both with an identity."""
    return rows.join(known.select(*IDENTITY), on=list(IDENTITY), how="left_anti").select(
        *rows.columns
    )


def _by(*, position: str, multicast: str, sender: str, content: str) -> str:
    return (
        f"cast(case id_kind when {_BY_POSITION} then {position} when {_BY_MULTICAST} then"
        f" {multicast} when {_BY_SENDER} then {sender} else {content} end as bigint)"
    )


def _is_found() -> Column:
    return (F.col("operation") == SNAPSHOT).cast("tinyint")
