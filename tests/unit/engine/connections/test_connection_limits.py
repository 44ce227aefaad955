"""Connections are limited, and untrusted ones leave room for trusted ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.events import ConnectionRejected
from skerry.protocol.access.client import Rejected
from skerry.protocol.access.wire import OldWire, Wire

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat
UNIX = Origin(kind="unix")
NO_ROOM = "it has no room for another connection now; its log has the limit"
"""What a client makes of a rejection before its handshake, for which no reason is sent."""
CERTIFIED = Origin(kind="tls", host="10.9.9.9", certificate="ship")
EVERYTHING = (PermissionRule(verbs=("all",)),)


def limited(**limits: Any) -> Admission:
    config = AdmissionConfig(
        permission=EVERYTHING,
        authentication=(AuthenticationRule(network="10.0.3.0/24", secret="sesame"),),
        limits=ClientLimits(**limits),
    )
    return Admission(config, rng=Random(1))


def far(number: int) -> Origin:
    return Origin(kind="tcp", host=f"10.0.{number // 250}.{number % 250}")


def known(harbour: Harbour) -> Guest:
    return harbour.guest("known", origin=far(999), secret="sesame")


def test_untrusted_connections_leave_the_last_tenth_free(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(connection_count_max=40))
    strangers = [harbour.guest(f"s{n}", origin=far(n)) for n in range(40)]
    assert [guest.is_cut for guest in strangers] == [False] * 36 + [True] * 4
    reason = "too many connections, the limit is 40"
    assert strangers[-1].inputs == [Rejected(reason=reason)]
    for trusted in (harbour.guest(origin=UNIX), harbour.guest(origin=CERTIFIED), known(harbour)):
        assert not trusted.is_cut
        trusted.publish(Boat(id=trusted.client_id))
    assert len(harbour.cached(Boat)) == 3
    assert {event.reason for event in harbour.events(ConnectionRejected)} <= {reason}


def test_silent_connections_are_closed_to_make_room_for_a_client(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(connection_count_max=40))
    silent = [harbour.stranger(f"s{n}", origin=far(n % 5)) for n in range(60)]
    for guest in silent:
        guest.is_mute = True
    honest = [harbour.guest(f"h{n}", origin=far(100 + n)) for n in range(36)]
    assert not any(guest.is_cut for guest in honest)
    assert not harbour.guest(origin=UNIX).is_cut
    assert not known(harbour).is_cut
    assert sum(not guest.is_cut for guest in silent) <= 2


def test_silent_connections_of_an_address_make_room_for_others_of_it(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited(connection_count_per_address_max=3))
    silent = [harbour.stranger(f"s{n}", origin=far(1)) for n in range(3)]
    for guest in silent:
        guest.is_mute = True
    honest = [harbour.guest(f"h{n}", origin=far(1)) for n in range(3)]
    assert [guest.is_cut for guest in (*silent, *honest)] == [True] * 3 + [False] * 3
    late = harbour.guest("late", origin=far(1))
    assert late.inputs == [Rejected(reason=NO_ROOM)]
    reasons = [event.reason for event in harbour.events(ConnectionRejected)]
    assert reasons[-1].startswith("too many connections from 10.0.0.1, the limit is 3")


def test_an_ipv6_network_of_64_bits_is_one_address(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=limited(connection_count_per_address_max=2))
    hosts = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"]
    guests = [harbour.guest(origin=Origin(kind="tcp", host=host)) for host in hosts]
    assert [guest.is_cut for guest in guests] == [False, False, True, False]


@pytest.mark.parametrize("wire", [Wire, OldWire])
def test_no_reason_is_sent_to_a_client_without_extensions(
    make_harbour: Callable[..., Harbour], wire: type[Wire]
) -> None:
    harbour = make_harbour(admission=limited(connection_count_per_address_max=1))
    silent = harbour.stranger("silent", origin=far(1), wire=wire)
    silent.is_mute = True
    first, late = [harbour.guest(name, origin=far(1), wire=wire) for name in ("first", "late")]
    assert [guest.is_cut for guest in (silent, first, late)] == [True, False, True]
    for guest in (silent, late):
        assert guest.inputs == [Rejected(reason=NO_ROOM)]


def test_the_limit_of_the_computer_may_be_the_lower_one(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=limited())
    harbour.node.admission.bound_connections(20)
    strangers = [harbour.guest(f"s{n}", origin=far(n)) for n in range(20)]
    assert sum(not guest.is_cut for guest in strangers) == 18
    assert not harbour.guest(origin=UNIX).is_cut
