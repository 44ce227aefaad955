"""How well datagrams arrive, as numbers and as an object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skerry.objects.internal import internal_class
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.distributor.receiving.link_quality import LinkCounts, LinkReport, sender_number

SENDER = SenderInfo(address="10.0.0.1", sender_id=7, start=2, application_id=3, application="feed")
COUNTS = LinkCounts(
    passed_count=100,
    lost_count=4,
    recovered_count=3,
    request_count=5,
    answer_count=2,
    answer_ns=3_000_000,
)


def test_counts_since_earlier_ones_are_their_difference() -> None:
    later = LinkCounts(
        passed_count=107,
        lost_count=10,
        recovered_count=8,
        request_count=9,
        answer_count=5,
        answer_ns=3_000_002,
    )
    assert later.since(COUNTS) == LinkCounts(
        passed_count=7,
        lost_count=6,
        recovered_count=5,
        request_count=4,
        answer_count=3,
        answer_ns=2,
    )


def test_a_link_is_published_as_an_object() -> None:
    link: Any = LinkReport(sender=SENDER, counts=COUNTS).message("10.0.0.2:9")
    assert isinstance(link, internal_class("SkerryLink"))
    assert (link.sender, link.receiver, link.application) == ("10.0.0.1:7", "10.0.0.2:9", "feed")
    assert (link.carrier, link.senderNumber) == ("distributor", sender_number(SENDER))
    counts = (link.datagrams, link.requests, link.retransmissions, link.lost, link.roundTrips)
    assert counts == (100, 5, 3, 4, 2)
    assert link.roundTripTime == pytest.approx(0.0015)


def test_without_requests_there_is_no_round_trip() -> None:
    link: Any = LinkReport(sender=SENDER, counts=LinkCounts(passed_count=1)).message("r")
    assert (link.roundTrips, link.roundTripTime) == (0, None)


def test_counts_that_are_too_large_for_their_fields_are_as_large_as_can_be() -> None:
    link: Any = LinkReport(sender=SENDER, counts=LinkCounts(passed_count=2**40)).message("r")
    assert link.datagrams == 2**32 - 1
    assert type(link).decode(link.encode()).datagrams == 2**32 - 1


def test_a_sender_has_one_number_before_and_after_it_announced_itself() -> None:
    announced = replace(SENDER, start=SENDER.start + 2**32, application="other")
    assert sender_number(announced) == sender_number(SENDER)
    assert sender_number(replace(SENDER, sender_id=8)) != sender_number(SENDER)
