"""When a node is dead by the counters of one channel: each rule at its limit and past it."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.liveness import ChannelHealth, dead_reason

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
