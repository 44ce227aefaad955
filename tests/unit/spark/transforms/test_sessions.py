"""Lives of clients and nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame

from skerry.codec.envelope import REMOVE, SNAPSHOT, UPDATE
from skerry.spark.transforms import links, sessions
from skerry.spark.transforms.events import EVENTS

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]
BySpace = Callable[[DataFrame], dict[str, Rows]]

NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
NOON_NS = 1_789_992_000_000_000_000
DAY_S = 86_400


def notified(at_s: float, **others: Any) -> dict[str, Any]:
    """What a node tells of its client 7."""
    order_ns = NOON_NS + round(at_s * 1e9)
    return {"node": 99, "operation": UPDATE, "id": 7, "order_ns": order_ns, **others}


def after_noon(at_s: float) -> datetime:
    return NOON + timedelta(seconds=at_s)


CLIENTS = {
    "client": [
        notified(0, name="<not_set>", connectionState="connecting"),
        notified(1, name="tracker", connectionState="early_subscribe"),
        notified(1, connectionState="connected"),
        notified(5, publishedTypes=["Vessel"], subscribedTypes=["Alarm", "Buoy"]),
        notified(90, connectionState="closed"),
        notified(100, operation=REMOVE),
    ],
    "instant": [
        notified(1, connectionState=state) for state in ("closed", "connected", "connecting")
    ],
    "hardly there": [notified(0, name="<not_set>", connectionState="connecting")],
    "listener": [notified(-30, operation=SNAPSHOT, name="wall", connectionState="connected")],
}
NODES = {"node": [{"order_ns": NOON_NS, "node": 99, "serverName": "harbour"}]}
SENDERS = {
    "group": [
        {"order_ns": NOON_NS, "node": -5, "senderNumber": -5, "application": ""},
        {"order_ns": NOON_NS + 10**10, "node": -5, "senderNumber": -5, "application": "feed"},
        {"order_ns": NOON_NS, "node": 99, "senderNumber": -5, "application": "heard by a node"},
    ],
    "system": [
        {"order_ns": NOON_NS, "node": 99, "carrier": "link", "senderNumber": n, "application": name}
        for n, name in ((98, "quay"), (99, "crane"))
    ],
}


@pytest.fixture(scope="module")
def table(frame: Callable[..., DataFrame], event: Callable[..., dict[str, Any]]) -> DataFrame:
    spaces = {
        "client": [event(2), event(80, type="Voyage")],
        "node": [event(3), event(4, sender=1, type="DotsClient"), event(5)],
        "group": [event(1, source="distributor", sender=-5, node=-5)],
        "days": [event(0), event(DAY_S, type="Buoy")],
    }
    built = sessions.build(
        links.build(frame(EVENTS, spaces)),
        frame(sessions.CLIENTS, CLIENTS),
        frame(sessions.NODES, NODES),
        frame(sessions.SENDERS, SENDERS),
    )
    assert built.schema.names == sessions.SCHEMA.names
    return built.cache()


@pytest.fixture(scope="module")
def built(table: DataFrame, by_space: BySpace) -> dict[str, Rows]:
    return by_space(table)


def lives(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def test_a_session_of_a_client_combines_traffic_and_status(built: dict[str, Rows]) -> None:
    (client,) = lives(built["client"], "client")
    assert (client["node"], client["sender"], client["name"]) == (99, 7, "tracker")
    assert (client["first"], client["last"]) == (after_noon(0), after_noon(90)), (
        "removal is not a sign of life"
    )
    assert (client["state"], client["ended"]) == ("closed", "connection closed")
    assert (client["updates"], client["bytes"]) == (2, 20)
    assert client["published"] == ["Vessel", "Voyage"]
    assert client["subscribed"] == ["Alarm", "Buoy"]
    assert client["day"] == "2026-09-21"


def test_of_two_states_in_one_instant_the_later_in_life_counts(built: dict[str, Rows]) -> None:
    (client,) = lives(built["instant"], "client")
    assert client["state"] == "closed"


def test_a_node_session_lasts_while_updates_enter(built: dict[str, Rows]) -> None:
    (node,) = lives(built["node"], "node")
    assert node["name"] == "harbour"
    assert (node["first"], node["last"]) == (after_noon(0), after_noon(5))
    assert (node["updates"], node["published"], node["ended"]) == (3, ["DotsClient"], None)
    assert [row["sender"] for row in lives(built["node"], "client")] == [7]


def test_programs_of_a_group_have_sessions_of_their_own_kind(built: dict[str, Rows]) -> None:
    (row,) = built["group"]
    assert (row["kind"], row["sender"], row["ended"]) == ("multicast", -5, None)
    assert (row["name"], row["updates"]) == ("feed", 1)
    assert (row["first"], row["last"]) == (after_noon(1), after_noon(10))


def test_nodes_have_a_session_though_only_one_of_them_is_recorded(built: dict[str, Rows]) -> None:
    rows = {row["node"]: row for row in built["system"]}
    assert {node: (row["kind"], row["sender"], row["name"]) for node, row in rows.items()} == {
        98: ("node", 1, "quay"),
        99: ("node", 1, "crane"),
    }


def test_client_that_only_listens_is_seen(built: dict[str, Rows]) -> None:
    (row,) = built["listener"]
    assert (row["name"], row["updates"], row["bytes"], row["ended"]) == ("wall", 0, None, None)


def test_client_that_never_sent_its_name_has_none(built: dict[str, Rows]) -> None:
    (row,) = built["hardly there"]
    assert (row["name"], row["state"]) == (None, "connecting")


def test_days_of_a_life_are_rows_and_one_life_together(
    table: DataFrame, built: dict[str, Rows], by_space: BySpace
) -> None:
    days = lives(built["days"], "client")
    assert sorted(row["day"] for row in days) == ["2026-09-21", "2026-09-22"]
    whole = by_space(sessions.whole_lives(table))
    (life,) = lives(whole["days"], "client")
    assert (life["first"], life["last"]) == (after_noon(0), after_noon(DAY_S))
    assert (life["updates"], life["published"]) == (2, ["Buoy", "Vessel"])
    assert "day" not in life
