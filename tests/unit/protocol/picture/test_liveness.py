"""When a node is dead by the counters of one channel: each rule at its limit and past it."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.liveness import (
    DEAF_TRANSMISSION_COUNT,
    ChannelHealth,
    dead_reason,
    slow_reason,
)

SERVER = NodeType(name="server")
T = SERVER.dead_timeout_ns
START = 1000 * T
"""When the node became known."""
HEARD: dict[str, Any] = {"received_count": 100, "received_ns": START, "multicast_ns": START}


def reason(
    age_ns: int, *, is_data: bool = False, has_multicast: bool = True, **fields: Any
) -> ExclusionReason | None:
    return dead_reason(
        ChannelHealth(**fields),
        SERVER,
        since_ns=START,
        now_ns=START + age_ns,
        has_multicast=has_multicast,
        is_data=is_data,
    )


@pytest.mark.parametrize(
    ("fields", "limit_ns"),
    [
        (HEARD, T),
        ({**HEARD, "received_count": 10}, T),
        ({**HEARD, "received_count": 9}, 2 * T),
        ({}, 2 * T),
        ({"is_data": True}, 10 * T),
        ({**HEARD, "is_data": True}, T),
    ],
    ids=["usual", "ten packets", "nine packets", "no packet", "no data yet", "data"],
)
def test_a_node_may_be_silent_for_so_long(fields: dict[str, Any], limit_ns: int) -> None:
    assert reason(limit_ns, **fields) is None
    assert reason(limit_ns + 1, **fields) is ExclusionReason.SILENT


def test_unicast_may_arrive_without_multicast_for_four_timeouts() -> None:
    for multicast_ns in (None, START):
        fields: dict[str, Any] = {"received_count": 100, "multicast_ns": multicast_ns}
        assert reason(4 * T, received_ns=START + 4 * T, **fields) is None
        late = {**fields, "received_ns": START + 4 * T + 1}
        assert reason(4 * T + 1, **late) is ExclusionReason.SILENT
        assert reason(4 * T + 1, has_multicast=False, **late) is None


@pytest.mark.parametrize(
    ("received_count", "unanswered_count", "is_dead"),
    [(51, 30, True), (51, 29, False), (50, 30, False), (50, 1499, False), (50, 1500, True)],
)
def test_a_node_that_acknowledges_nothing_is_dead_after_so_many_transmissions(
    received_count: int, unanswered_count: int, is_dead: bool
) -> None:
    """Soon if much was received from it, otherwise when they fill two minutes."""
    fields = {**HEARD, "received_count": received_count}
    found = reason(0, unanswered_count=unanswered_count, **fields)
    assert found is (ExclusionReason.UNANSWERED if is_dead else None)


SECOND = 1_000_000_000
TYPE = NodeType()
NOW_NS = 100 * SECOND


def health(*, silent_ns: int, unanswered_count: int) -> ChannelHealth:
    return ChannelHealth(
        received_count=100, received_ns=NOW_NS - silent_ns, unanswered_count=unanswered_count
    )


@pytest.mark.parametrize(
    ("silent_ns", "unanswered_count", "reason"),
    [
        (TYPE.quiet_ns, DEAF_TRANSMISSION_COUNT, ExclusionReason.UNANSWERED),
        (TYPE.quiet_ns, DEAF_TRANSMISSION_COUNT - 1, None),
        (TYPE.quiet_ns + 1, DEAF_TRANSMISSION_COUNT, None),
        (TYPE.dead_timeout_ns + 1, DEAF_TRANSMISSION_COUNT, ExclusionReason.SILENT),
    ],
)
def test_a_node_is_deaf_only_while_it_is_received(
    silent_ns: int, unanswered_count: int, reason: ExclusionReason | None
) -> None:
    found = dead_reason(
        health(silent_ns=silent_ns, unanswered_count=unanswered_count),
        TYPE,
        since_ns=0,
        now_ns=NOW_NS,
        has_multicast=False,
        is_data=False,
    )
    assert found == reason


@pytest.mark.parametrize(
    ("silent_ns", "unanswered_count", "reason"),
    [
        (0, DEAF_TRANSMISSION_COUNT - 1, ExclusionReason.SLOW),
        (TYPE.quiet_ns, DEAF_TRANSMISSION_COUNT, ExclusionReason.UNANSWERED),
        (TYPE.quiet_ns + 1, DEAF_TRANSMISSION_COUNT, ExclusionReason.SILENT),
    ],
)
def test_a_node_that_acknowledges_nothing_is_not_called_slow(
    silent_ns: int, unanswered_count: int, reason: ExclusionReason
) -> None:
    channel = health(silent_ns=silent_ns, unanswered_count=unanswered_count)
    assert slow_reason([ChannelHealth(), channel], TYPE, now_ns=NOW_NS) == reason


def test_a_node_of_which_nothing_was_ever_received_is_silent() -> None:
    channel = ChannelHealth(unanswered_count=DEAF_TRANSMISSION_COUNT)
    assert slow_reason([channel], TYPE, now_ns=NOW_NS) == ExclusionReason.SILENT
