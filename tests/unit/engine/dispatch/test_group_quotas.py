"""The number of groups is limited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import skerry
from skerry.engine.dispatch.routing import Routing
from skerry.limits import (
    GROUP_COUNT_MAX,
)

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    struct Spot { 1: [key] string name; 2: [key] uint32 id; }
    struct Weather { 1: float64 wind; }
    struct Shout [cached=false] { 1: string text; }
    """
)
Boat, Car, Spot, Weather, Shout = TYPES.Boat, TYPES.Car, TYPES.Spot, TYPES.Weather, TYPES.Shout


def test_groups_are_limited_and_end_with_their_last_member(
    make_harbour: Callable[..., Harbour],
) -> None:
    assert Routing()._quotas._group_count_max == GROUP_COUNT_MAX
    harbour = make_harbour()
    harbour.node._routing._quotas._group_count_max = 2
    guest, other, plain = harbour.guest(), harbour.guest("other"), harbour.plain()
    guest.join("Nobody")
    other.join("Nobody")
    guest.join("/nobody/*")
    assert harbour.node.statistics().group_count == 2
    guest.join("OneMore")
    assert not guest.is_cut
    assert guest.refusals()[0][0] == "subscribe"
    assert "count of groups" in guest.refusals()[0][1]
    plain.join("OneMore")
    assert plain.is_cut
    guest.leave("Nobody")
    assert harbour.node.statistics().group_count == 2
    other.leave("Nobody")
    guest.join("OneMore")
    assert len(guest.refusals()) == 1
    harbour.check()
