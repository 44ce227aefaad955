"""Subscriptions, the buffer of publications, and the checks of a router."""

from __future__ import annotations

import pytest

from skerry.errors import DecodeError, LimitExceeded, LocalProtocolError
from skerry.protocol.portal.identifiers import IDENTIFIER_BYTES_MAX, prefix
from skerry.protocol.portal.publication_buffer import PublicationBuffer
from skerry.protocol.portal.router_checks import RouterChecks
from skerry.protocol.portal.subscriptions import (
    EVERYTHING,
    PORTAL_SUBSCRIPTION_COUNT_MAX,
    PortalSubscription,
    PortalSubscriptions,
    make_expression,
)

FRAME = b"/g/JSON/t/5/ab/\0data"


def targets(subscriptions: PortalSubscriptions, frame: bytes) -> tuple[object, ...]:
    return subscriptions.match(frame)[0].targets


def test_a_filter_is_set_by_the_first_subscription_and_removed_with_the_last() -> None:
    all_ = PortalSubscriptions()
    one, two = PortalSubscription(b"/g/", 1), PortalSubscription(b"/g/", 2)
    assert all_.add(one)
    assert not all_.add(two)
    assert all_.filters() == [b"/g/"]
    assert targets(all_, FRAME) == (1, 2)
    assert not all_.remove(one)
    assert targets(all_, FRAME) == (2,)
    assert all_.remove(two)
    assert not all_.remove(two)
    assert targets(all_, FRAME) == ()
    assert len(all_) == 0


def test_subscriptions_by_prefix_come_before_those_by_expression() -> None:
    all_ = PortalSubscriptions()
    expression = make_expression(group="[a-g]", type_name="t|u", schemes=[7])
    all_.add(PortalSubscription(EVERYTHING, "expression", expression))
    all_.add(PortalSubscription(prefix("g", 7, "t"), "prefix"))
    match, start = all_.match(FRAME)
    assert match.targets == ("prefix", "expression")
    assert FRAME[start:] == b"data"
    assert all_.match(FRAME)[0] is match
    for other in (b"/gg/JSON/t/5/ab/\0", b"/g/CSTR/t/5/ab/\0", b"/g/JSON/tu/5/ab/\0"):
        assert targets(all_, other) == ()


def test_an_invalid_expression_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="for the group is invalid"):
        make_expression(group="(")


def test_a_client_can_ignore_itself() -> None:
    all_ = PortalSubscriptions(ignored=(5, 0xAB))
    all_.add(PortalSubscription(EVERYTHING, 1))
    assert targets(all_, FRAME) == ()
    assert targets(all_, b"/g/JSON/t/5/ac/\0") == (1,)


def test_subscriptions_are_bounded() -> None:
    all_ = PortalSubscriptions()
    for number in range(PORTAL_SUBSCRIPTION_COUNT_MAX):
        all_.add(PortalSubscription(b"/%d/" % number, number))
    with pytest.raises(LimitExceeded):
        all_.add(PortalSubscription(b"/more/", 0))


def test_identifiers_that_are_remembered_are_bounded() -> None:
    all_ = PortalSubscriptions()
    all_.add(PortalSubscription(EVERYTHING, 1))
    for number in range(5000):
        assert targets(all_, b"/g/JSON/t/%d/ab/\0" % number) == (1,)
    assert len(all_._known) <= 4096


def test_a_malformed_frame_is_an_error() -> None:
    with pytest.raises(DecodeError):
        PortalSubscriptions().match(b"/g/JSON/t/x/ab/\0")


def test_the_buffer_drops_the_oldest() -> None:
    buffer = PublicationBuffer(count_max=3, bytes_max=100)
    for number in range(5):
        buffer.append(b"%d" % number)
    assert buffer.dropped_count == 2
    assert buffer.is_full_for(b"")
    assert buffer.peek() == b"2"
    buffer.pop()
    assert (len(buffer), buffer.byte_count) == (2, 2)
    assert not buffer.is_full_for(b"x" * 98)
    assert buffer.is_full_for(b"x" * 99)
    buffer.append(b"x" * 99)
    assert (len(buffer), buffer.dropped_count) == (2, 3)
    buffer.append(b"y" * 1000)
    assert (len(buffer), buffer.byte_count) == (1, 1000)


def test_the_checks_of_a_router() -> None:
    checks = RouterChecks()
    assert checks.passes([FRAME])
    assert checks.passes([FRAME])
    assert not checks.passes([b"/g/JSON/t/x/ab/\0"])
    assert not checks.passes([b"no NUL"])
    assert not checks.passes([FRAME, b"more"])
    assert checks.refused_publications_count == 3
    assert checks.filter_passes([b"\x01/g/"])
    assert checks.filter_passes([b"\x00"])
    assert not checks.filter_passes([b"\x02/g/"])
    assert not checks.filter_passes([b"\x01" + b"x" * (IDENTIFIER_BYTES_MAX + 1)])
    assert not checks.filter_passes([b"\x01", b"more"])
    assert checks.refused_filters_count == 3
    for number in range(5000):
        assert checks.passes([b"/g/JSON/t/%d/ab/\0" % number])
    assert len(checks._known) <= 4096
