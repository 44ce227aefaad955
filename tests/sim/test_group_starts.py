"""The scenario of stream starts holds with few nodes, and its checker finds missing updates."""

from __future__ import annotations

from typing import Any

from skerry.protocol.distributor.events import (
    LossReason,
    SenderInfo,
    StartUnknown,
    UpdatesLost,
)
from skerry.protocol.distributor.messages import UPDATE
from skerry.testing import World, run_scenario
from tests.sim import group_starts
from tests.sim.group_starts import StartsAccounted, play_starts


def test_a_small_group_holds_and_is_deterministic() -> None:
    name = f"{group_starts.__name__}:group_starts"
    first = run_scenario(name, 1, node_count=4)
    assert first.error is None
    assert run_scenario(name, 1, node_count=4) == first


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


class Carried:
    """A packet from a publisher to a subscriber."""

    source = Named("pub")
    destination = Named("sub")
    data = bytes((1, 0, UPDATE)).ljust(20, b"\0") + (2).to_bytes(4, "big")


def checker() -> StartsAccounted:
    """A subscriber that joined at 10, and updates at 5, 15 and 25."""
    found = StartsAccounted()
    found.joined_ns["sub"] = 10
    found._ids["10.0.0.1", 1] = "pub"
    found._is_java["pub"] = False
    for now_ns in (5, 15, 25):
        found.published("pub", now_ns)
    return found


SENDER = SenderInfo(address="10.0.0.1", sender_id=1, start=1, application_id=1)


def observe(found: StartsAccounted, event: Any) -> None:
    subscriber: Any = Named("sub")
    assert found.observed(subscriber, event) is None


def test_every_update_after_the_subscription_has_to_be_delivered_or_reported() -> None:
    found = checker()
    packet: Any = Carried()
    assert found.missing() == [], "no message of the publisher arrived"
    found.arrived(packet)
    assert found.missing() == ["sub misses 1 of pub", "sub misses 2 of pub"]
    assert found.is_whole()
    observe(found, UpdatesLost(sender=SENDER, first_seq=3, stop_seq=4, reason=LossReason.NAK))
    assert found.missing() == ["sub misses 1 of pub"]
    observe(found, StartUnknown(sender=SENDER, first_seq=1, stop_seq=3))
    assert found.missing() == []
    assert not found.is_whole()


def test_unknown_last_updates_of_a_java_program_need_no_report() -> None:
    found = checker()
    found._is_java["pub"] = True
    packet: Any = Carried()
    found.arrived(packet)
    assert found.missing() == ["sub misses 1 of pub"]


def test_a_report_without_numbers_covers_all_updates() -> None:
    found = checker()
    packet: Any = Carried()
    found.arrived(packet)
    observe(found, StartUnknown(sender=SENDER, first_seq=1, stop_seq=1))
    assert found.missing() == []


def test_a_run_without_losses_delivers_everything() -> None:
    accounted = play_starts(World(3), 4, java_rate=0.0, loss=0.0, first_lost_count_max=2)
    assert accounted.is_whole()
