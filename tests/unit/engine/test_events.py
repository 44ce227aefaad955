"""The events that a node reports to its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import skerry
from skerry.engine.admission.origins import INSIDE
from skerry.engine.events import ClientConnected, ClientDisconnected, ClientRefused
from skerry.limits import CLIENT_NAME_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; }").Boat


def test_the_connection_and_disconnection_of_a_client_are_reported(harbour: Harbour) -> None:
    guest = harbour.guest("pilot")
    guest.goodbye()
    came, went = harbour.node.take_events()
    assert came == ClientConnected(client_id=2, name="pilot", origin=str(INSIDE))
    assert went == ClientDisconnected(client_id=2, name="pilot", reason="goodbye")


def test_the_end_of_a_connection_is_reported_with_its_reason(harbour: Harbour) -> None:
    lost, cut = harbour.guest("lost"), harbour.guest("cut")
    lost.vanish()
    cut.send("DotsMember", groupName="Boat")
    first, second = harbour.events(ClientDisconnected)
    assert (first.name, first.reason, first.detail) == ("lost", "lost", "")
    assert (second.name, second.reason) == ("cut", "fault")
    assert second.detail == "DotsMember: without groupName or event"


def test_a_refusal_is_reported(harbour: Harbour) -> None:
    guest = harbour.guest("asker")
    guest.describe(Boat)
    guest.send(
        "DotsMember",
        groupName="Nothing",
        event=internal_class("DotsMemberEvent")["join"],
        subscriptionId=1,
    )
    (refused,) = harbour.events(ClientRefused)
    assert (refused.client_id, refused.name, refused.what) == (guest.client_id, "asker", "filter")
    assert refused.detail == "Nothing: there is no such type"


def test_a_name_that_is_too_long_is_truncated(harbour: Harbour) -> None:
    harbour.guest("x" * 50_000)
    (went,) = harbour.events(ClientDisconnected)
    assert (went.name, went.reason) == ("x" * CLIENT_NAME_CHAR_COUNT_MAX, "rejected")
