"""The table `sessions`: the sessions of clients, nodes and multicast programs, one row per day.

A node gets a new number each time it starts, and a client each time it connects, so a number
identifies one session. A day is built from the rows of that day only, so late rows change only
their day; `whole_lives` combines the days of a session.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP, LINK, REMOVE
from skerry.ids import NODE_CLIENT
from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.transforms.events import columns, day_of, with_columns

NAME: Final = "sessions"
PARTITION: Final = "day"

_STATES: Final = ("connecting", "early_subscribe", "connected", "suspended", "closed")
_UNNAMED: Final = "<not_set>"
"""The name in a node's status objects of a client that has not sent its name yet."""
_SESSION: Final = ("space", "node", "sender")

CLIENTS: Final = columns(
    "order_ns long, space string, node long, operation byte, id long, name string,"
    " connectionState string, publishedTypes strings, subscribedTypes strings"
)
"""The columns read from `updates/DotsClient`, the status objects of clients."""

NODES: Final = columns("order_ns long, space string, node long, serverName string")
"""The columns read from `updates/DotsDaemonStatus`, the status object of a node."""

SENDERS: Final = columns(
    "order_ns long, space string, node long, carrier string, senderNumber long, application string"
)
"""The columns read from `updates/SkerryLink`, the statistics about programs of a group, and about
nodes of a system, also those of which there is no recording."""

SCHEMA: Final = columns(
    "kind string, space string, node long, sender long, name string, first timestamp,"
    " last timestamp, state string, ended string, updates long, bytes long, published strings,"
    " subscribed strings, day string"
)

_OBSERVATIONS: Final = columns(
    "kind string, space string, node long, sender long, first timestamp, last timestamp,"
    " name string, state string, updates long, bytes long, published strings, subscribed strings"
)
"""Observations of a session: when it was active, its name, state and traffic."""


def build(
    links: DataFrame,
    clients: DataFrame | None = None,
    nodes: DataFrame | None = None,
    senders: DataFrame | None = None,
) -> DataFrame:
    """The sessions on the days of `links`, with the rows of CLIENTS, NODES and SENDERS."""
    found = _from_senders(links).unionByName(_from_nodes(links))
    if clients is not None:
        found = found.unionByName(_from_client_status(with_columns(clients, CLIENTS)))
    if nodes is not None:
        found = found.unionByName(_from_node_status(with_columns(nodes, NODES)))
    if senders is not None:
        found = found.unionByName(_from_link_statistics(with_columns(senders, SENDERS)))
    dated = found.withColumn("day", day_of(F.col("first")))
    return _combined(dated, "kind", *_SESSION, "day").select(*SCHEMA.names)


def whole_lives(sessions: DataFrame) -> DataFrame:
    """One row for each session, over all its days."""
    names = [name for name in SCHEMA.names if name != "day"]
    return _combined(sessions, "kind", *_SESSION).select(*names)


def _combined(observations: DataFrame, *session: str) -> DataFrame:
    """All observations of each session in one row; the last name and state count."""
    return (
        observations.groupBy(*session)
        .agg(
            F.max_by("name", F.when(F.col("name").isNotNull(), F.col("last"))).alias("name"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.max_by("state", _state_order(F.col("state"))).alias("state"),
            F.coalesce(F.sum("updates"), F.lit(0)).alias("updates"),
            F.sum("bytes").alias("bytes"),
            _union(F.col("published")).alias("published"),
            _union(F.col("subscribed")).alias("subscribed"),
        )
        .withColumn("ended", _end_reason(F.col("state")))
    )


def _from_senders(links: DataFrame) -> DataFrame:
    is_multicast = F.col("source") == "distributor"
    # Client 1 is the node itself, which has a session of kind `node`.
    is_client = ~is_multicast & (F.col("sender") > NODE_CLIENT)
    return with_columns(
        links.where((F.col("updates") > 0) & (is_multicast | is_client))
        .withColumn("kind", F.when(is_multicast, "multicast").otherwise("client"))
        .withColumn("published", F.col("types")),
        _OBSERVATIONS,
    )


def _from_nodes(links: DataFrame) -> DataFrame:
    is_own = F.col("sender") == NODE_CLIENT
    # A program of a group is its own node in recordings, and has a session of kind `multicast`.
    is_node = (F.col("node") != 0) & (F.col("source") != "distributor")
    return with_columns(
        links.where((F.col("updates") > 0) & is_node)
        .withColumn("kind", F.lit("node"))
        .withColumn("published", F.when(is_own, F.col("types")))
        .withColumn("sender", F.lit(NODE_CLIENT)),
        _OBSERVATIONS,
    )


def _from_client_status(clients: DataFrame) -> DataFrame:
    # A node removes the status object some time after the client has disconnected.
    is_status = ~F.col("operation").isin(GAP, REMOVE)
    return with_columns(
        clients.where(is_status & (F.col("id") > NODE_CLIENT))
        .withColumn("kind", F.lit("client"))
        .withColumn("sender", F.col("id"))
        .withColumn("first", timestamp_column(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("state", F.col("connectionState"))
        .withColumn("name", F.nullif(F.col("name"), F.lit(_UNNAMED)))
        .withColumn("published", F.col("publishedTypes"))
        .withColumn("subscribed", F.col("subscribedTypes")),
        _OBSERVATIONS,
    )


def _from_node_status(nodes: DataFrame) -> DataFrame:
    return with_columns(
        nodes.where(F.col("node") != 0)
        .withColumn("kind", F.lit("node"))
        .withColumn("sender", F.lit(NODE_CLIENT))
        .withColumn("first", timestamp_column(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("name", F.col("serverName")),
        _OBSERVATIONS,
    )


def _from_link_statistics(senders: DataFrame) -> DataFrame:
    is_node = F.col("carrier").eqNullSafe(LINK)
    # Statistics of a node are about senders whose updates are recorded under the node's number.
    is_recorded = F.col("senderNumber") == F.col("node")
    return with_columns(
        senders.where((is_node | is_recorded) & (F.col("application") != ""))
        .withColumn("kind", F.when(is_node, "node").otherwise("multicast"))
        .withColumn("sender", F.when(is_node, NODE_CLIENT).otherwise(F.col("senderNumber")))
        .withColumn("node", F.col("senderNumber"))
        .withColumn("first", timestamp_column(F.col("order_ns")))
        .withColumn("last", F.col("first"))
        .withColumn("name", F.col("application")),
        _OBSERVATIONS,
    )


def _state_order(state: Column) -> Column:
    """The sort key of states: the time, and within one instant the usual sequence of states."""
    rank = F.array_position(F.array(*map(F.lit, _STATES)), state)
    return F.when(state.isNotNull(), F.struct(F.col("last"), rank))


def _union(names: Column) -> Column:
    return F.array_sort(F.array_distinct(F.flatten(F.collect_set(names))))


def _end_reason(state: Column) -> Column:
    """Why the session ended; null if it is not known to have ended."""
    return F.when(state == "closed", "connection closed").when(
        state == "suspended", "connection suspended"
    )
