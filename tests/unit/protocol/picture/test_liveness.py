"""Why a node is dead, by the counters of its channels."""

from __future__ import annotations

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.liveness import (
    DEAF_TRANSMISSION_COUNT,
    ChannelHealth,
    dead_reason,
    slow_reason,
)

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
