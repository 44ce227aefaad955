"""Who was there: the lives of clients and nodes, a row for each day of a life.

A node has another number each time it starts, and a client each time it connects, so a number
stands for one life. A day is made of the rows of that day alone, which is why late rows can change
it without a look at any other; `whole_lives` puts the days of a life together.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.ids import NODE_CLIENT
from skerry.spark.transforms.events import GAP, REMOVE, day_of, instant, with_columns

__all__ = ["CLIENTS", "NAME", "NODES", "PARTITION", "SCHEMA", "SENDERS", "build", "whole_lives"]

NAME: Final = "sessions"
PARTITION: Final = "day"

_NAMES: Final = T.ArrayType(T.StringType())
_STATES: Final = ("connecting", "early_subscribe", "connected", "suspended", "closed")
_UNNAMED: Final = "<not_set>"
"""How a node calls a client that has not said its name yet."""
_LIFE: Final = ("space", "node", "sender")

CLIENTS: Final = T.StructType(
    [
        T.StructField("order_ns", T.LongType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("operation", T.ByteType()),
        T.StructField("id", T.LongType()),
        T.StructField("name", T.StringType()),
        T.StructField("connectionState", T.StringType()),
        T.StructField("publishedTypes", _NAMES),
        T.StructField("subscribedTypes", _NAMES),
    ]
)
"""What is read of `updates/DotsClient`, by which a node tells of its clients."""

NODES: Final = T.StructType(
    [
        T.StructField("order_ns", T.LongType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("serverName", T.StringType()),
    ]
)
"""What is read of `updates/DotsDaemonStatus`, by which a node tells of itself."""

SENDERS: Final = T.StructType(
    [
        T.StructField("order_ns", T.LongType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("senderNumber", T.LongType()),
        T.StructField("application", T.StringType()),
    ]
)
"""What is read of `updates/SkerryLink`, by which a recorder tells of programs of a group."""

SCHEMA: Final = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("sender", T.LongType()),
        T.StructField("name", T.StringType()),
        T.StructField("first", T.TimestampType()),
        T.StructField("last", T.TimestampType()),
        T.StructField("state", T.StringType()),
        T.StructField("ended", T.StringType()),
        T.StructField("updates", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("published", _NAMES),
        T.StructField("subscribed", _NAMES),
        T.StructField("day", T.StringType()),
    ]
)

_SIGNS: Final = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("sender", T.LongType()),
        T.StructField("first", T.TimestampType()),
        T.StructField("last", T.TimestampType()),
        T.StructField("name", T.StringType()),
        T.StructField("state", T.StringType()),
        T.StructField("updates", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("published", _NAMES),
        T.StructField("subscribed", _NAMES),
    ]
)
"""Signs of life."""


def build(
    links: DataFrame,
    clients: DataFrame | None = None,
    nodes: DataFrame | None = None,
    senders: DataFrame | None = None,
) -> DataFrame:
    """The lives on the days of `links`, with what nodes tell of `clients` and of themselves, and
    recorders of `senders` in a group.
    """
    signs = _of_senders(links).unionByName(_of_nodes(links))
    if clients is not None:
        signs = signs.unionByName(_told_clients(with_columns(clients, CLIENTS)))
    if nodes is not None:
        signs = signs.unionByName(_told_nodes(with_columns(nodes, NODES)))
    if senders is not None:
        signs = signs.unionByName(_told_senders(with_columns(senders, SENDERS)))
    dated = signs.withColumn("day", day_of(F.col("first")))
    return _folded(dated, "kind", *_LIFE, "day").select(*SCHEMA.names)


def whole_lives(sessions: DataFrame) -> DataFrame:
    """One row for each life, over all its days."""
    names = [name for name in SCHEMA.names if name != "day"]
    return _folded(sessions, "kind", *_LIFE).select(*names)


def _folded(signs: DataFrame, *life: str) -> DataFrame:
    """What all signs of each life say together: of names and states the last."""
    return (
        signs.groupBy(*life)
        .agg(
            F.max_by("name", F.when(F.col("name").isNotNull(), F.col("last"))).alias("name"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.max_by("state", _in_life(F.col("state"))).alias("state"),
            F.coalesce(F.sum("updates"), F.lit(0)).alias("updates"),
            F.sum("bytes").alias("bytes"),
            _union(F.col("published")).alias("published"),
            _union(F.col("subscribed")).alias("subscribed"),
        )
        .withColumn("ended", _why_ended(F.col("state")))
    )


def _of_senders(links: DataFrame) -> DataFrame:
    is_multicast = F.col("source") == "distributor"
    # The node itself is number 1 among its clients, and has a life of its own kind.
    is_client = ~is_multicast & (F.col("sender") > NODE_CLIENT)
    return with_columns(
        links.where((F.col("updates") > 0) & (is_multicast | is_client))
        .withColumn("kind", F.when(is_multicast, "multicast").otherwise("client"))
        .withColumn("published", F.col("types")),
        _SIGNS,
    )


def _of_nodes(links: DataFrame) -> DataFrame:
    is_own = F.col("sender") == NODE_CLIENT
    # A program of a group is its own node in recordings, and has a life of its own kind.
    is_node = (F.col("node") != 0) & (F.col("source") != "distributor")
    return with_columns(
        links.where((F.col("updates") > 0) & is_node)
        .withColumn("kind", F.lit("node"))
        .withColumn("published", F.when(is_own, F.col("types")))
        .withColumn("sender", F.lit(NODE_CLIENT)),
        _SIGNS,
    )


def _told_clients(clients: DataFrame) -> DataFrame:
    # A node forgets a client some time after it is gone, which is no sign of its life.
    is_told = ~F.col("operation").isin(GAP, REMOVE)
    return with_columns(
        clients.where(is_told & (F.col("id") > NODE_CLIENT))
        .withColumn("kind", F.lit("client"))
        .withColumn("sender", F.col("id"))
        .withColumn("first", instant(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("state", F.col("connectionState"))
        .withColumn("name", F.nullif(F.col("name"), F.lit(_UNNAMED)))
        .withColumn("published", F.col("publishedTypes"))
        .withColumn("subscribed", F.col("subscribedTypes")),
        _SIGNS,
    )


def _told_nodes(nodes: DataFrame) -> DataFrame:
    return with_columns(
        nodes.where(F.col("node") != 0)
        .withColumn("kind", F.lit("node"))
        .withColumn("sender", F.lit(NODE_CLIENT))
        .withColumn("first", instant(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("name", F.col("serverName")),
        _SIGNS,
    )


def _told_senders(senders: DataFrame) -> DataFrame:
    # What a node tells of its group is about senders whose updates are not recorded as theirs.
    is_recorded = F.col("senderNumber") == F.col("node")
    return with_columns(
        senders.where(is_recorded & (F.col("application") != ""))
        .withColumn("kind", F.lit("multicast"))
        .withColumn("sender", F.col("senderNumber"))
        .withColumn("first", instant(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("name", F.col("application")),
        _SIGNS,
    )


def _in_life(state: Column) -> Column:
    """By which states are put in order: by time, and in one instant by the course of a life."""
    rank = F.array_position(F.array(*map(F.lit, _STATES)), state)
    return F.when(state.isNotNull(), F.struct(F.col("last"), rank))


def _union(names: Column) -> Column:
    return F.array_sort(F.array_distinct(F.flatten(F.collect_set(names))))


def _why_ended(state: Column) -> Column:
    """Null as long as nothing says that the life is over."""
    return F.when(state == "closed", "connection closed").when(
        state == "suspended", "connection suspended"
    )
