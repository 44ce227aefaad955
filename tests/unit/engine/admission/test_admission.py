"""Admission: how many may come, and that the node gets all its answers at one place."""

from __future__ import annotations

from random import Random

import pytest

from skerry.engine.admission.admission import (
    DEPARTED_ADDRESS_COUNT_MAX,
    INSIDE,
    PERMISSION_RULE_COUNT_MAX,
    Admission,
    AdmissionConfig,
    AuthenticationRule,
    ClientLimits,
    Origin,
    PermissionRule,
)
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX, CLIENT_NAME_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.secrets import digest

NEAR, FAR = Origin(kind="tcp", host="127.0.0.1"), Origin(kind="tcp", host="10.1.2.3")
UNIX = Origin(kind="unix")


def admission(**limits: int) -> Admission:
    config = AdmissionConfig(limits=ClientLimits(**limits))
    return Admission(config, rng=Random(1))


def test_so_many_connections_come_in_and_no_more() -> None:
    door = admission(connection_count_max=3)
    assert [door.arriving(origin) for origin in (NEAR, UNIX, INSIDE)] == [None, None, None]
    assert door.arriving(FAR) == "too many connections, the limit is 3"
    assert door.present_count == 3
    door.left(UNIX)
    assert door.arriving(FAR) is None


def test_so_many_connections_come_from_one_address_and_no_more() -> None:
    door = admission(connection_count_per_address_max=2)
    tls = Origin(kind="tls", host="::ffff:10.1.2.3", certificate="x")
    assert [door.arriving(origin) for origin in (FAR, tls)] == [None, None]
    reason = door.arriving(FAR)
    assert reason is not None
    assert reason.startswith("too many connections from 10.1.2.3, the limit is 2 (")
    assert door.arriving(NEAR) is None
    door.left(tls)
    assert door.arriving(FAR) is None
    assert door.present_count == 3


def test_unix_sockets_have_no_address_to_be_counted_by() -> None:
    door = admission(connection_count_per_address_max=1)
    assert [door.arriving(UNIX) for _ in range(5)] == [None] * 5
    assert [door.arriving(INSIDE) for _ in range(5)] == [None] * 5


def test_addresses_that_left_are_forgotten() -> None:
    door = admission()
    for number in range(100):
        origin = Origin(kind="tcp", host=f"10.0.0.{number}")
        door.arriving(origin)
        door.left(origin)
    assert (door.present_count, door._households, door._deserted) == (0, {}, {})


def test_clients_of_one_address_share_a_meter_also_with_those_who_left() -> None:
    door = admission(updates_per_s_per_address_max=2, burst_s=1)
    other = Origin(kind="tcp", host="10.9.9.9")
    for origin in (FAR, FAR, other):
        door.arriving(origin)
    first, second, third = door.meter(FAR), door.meter(FAR), door.meter(other)
    assert [meter.spend(1, 1, 0) is None for meter in (first, second, first)] == [True] * 3
    assert second.spend(1, 1, 0) == "more than 2 updates a second from one address"
    assert third.spend(1, 1, 0) is None
    assert door.meter(UNIX).spend(1, 1, 0) is None
    for _ in range(2):
        door.left(FAR)
    door.arriving(FAR)
    assert door.meter(FAR).spend(1, 1, 0) is not None


def test_so_many_addresses_that_left_are_remembered_and_no_more() -> None:
    door = admission(bytes_per_s_per_address_max=10)
    for number in range(DEPARTED_ADDRESS_COUNT_MAX + 1):
        origin = Origin(kind="tcp", host=f"10.0.{number // 256}.{number % 256}")
        door.arriving(origin)
        assert door.meter(origin).spend(1, 1000, 0) is None
        door.left(origin)
    for host, is_known in (("10.0.0.0", False), ("10.0.0.1", True)):
        origin = Origin(kind="tcp", host=host)
        door.arriving(origin)
        assert (door.meter(origin).spend(1, 1, 0) is not None) is is_known


def test_a_thousand_clients_of_one_computer_come_in_by_default() -> None:
    door = Admission(rng=Random(1))
    assert {door.arriving(FAR) for _ in range(1000)} == {None}


def test_without_a_configuration_others_are_let_in_and_may_do_nothing() -> None:
    door = Admission(rng=Random(1))
    for origin, is_allowed in ((NEAR, True), (UNIX, True), (INSIDE, True), (FAR, False)):
        assert door.challenge(origin) is None
        assert door.verdict(origin, name="x", nonce=None, response="", cnonce="")
        assert door.rights(origin, "x").allows("publish", "/a") is is_allowed
        assert door.rights(origin, "x").allows_objects is is_allowed
        assert door.rights(origin, "x").allows_all is (origin.kind in ("unix", "inside"))


def test_rules_of_the_configuration_are_in_force() -> None:
    config = AdmissionConfig(
        permission=(PermissionRule(verbs=("subscribe",), client="tracker"),),
        authentication=(AuthenticationRule(secret="sesame"),),
        policy="reject",
    )
    door = Admission(config, rng=Random(1))
    nonce = door.challenge(FAR)
    assert nonce is not None
    right = digest(name="tracker", secret="sesame", nonce=nonce, cnonce="c")
    assert door.verdict(FAR, name="tracker", nonce=nonce, response=right, cnonce="c")
    assert not door.verdict(FAR, name="tracker", nonce=nonce, response="", cnonce="c")
    assert door.rights(FAR, "tracker").allows("subscribe", "/a")
    assert not door.rights(FAR, "other").allows("subscribe", "/a")
    assert "sesame" not in repr(config)


def test_another_configuration_takes_the_place_of_the_first() -> None:
    door = admission(connection_count_max=1)
    door.renew(AdmissionConfig(permission=(PermissionRule(verbs=("publish",)),), policy="reject"))
    assert door.limits == ClientLimits()
    assert door.rights(FAR, "x").allows("publish", "/a")
    assert not door.rights(NEAR, "x").allows("subscribe", "/a")
    assert not door.verdict(FAR, name="x", nonce=None, response="", cnonce="")


def renewed(door: Admission, **limits: int) -> None:
    door.renew(AdmissionConfig(limits=ClientLimits(**limits)))


def taken_count(door: Admission, origin: Origin = FAR) -> int:
    meter = door.meter(origin)
    return sum(meter.spend(1, 1, 0) is None for _ in range(100))


def test_an_address_that_somebody_is_at_gets_the_new_limits() -> None:
    door = admission()
    for _ in range(2):
        door.arriving(FAR)
    assert taken_count(door) == 100
    renewed(door, updates_per_s_per_address_max=10)
    assert taken_count(door) == 11
    renewed(door)
    assert taken_count(door) == 100


def test_an_address_that_all_left_gets_the_new_limits() -> None:
    door = admission(updates_per_s_per_address_max=1000)
    door.arriving(FAR)
    door.left(FAR)
    renewed(door, updates_per_s_per_address_max=10)
    door.arriving(FAR)
    assert taken_count(door) == 11
    door.left(FAR)
    renewed(door, updates_per_s_max=1000)
    assert door._deserted == {}
    door.arriving(FAR)
    assert taken_count(door) == 100


@pytest.mark.parametrize("is_there", [True, False])
def test_what_an_address_spent_counts_under_the_new_limits(is_there: bool) -> None:
    door = admission(updates_per_s_per_address_max=10)
    door.arriving(FAR)
    assert taken_count(door) == 11
    if not is_there:
        door.left(FAR)
    renewed(door, updates_per_s_per_address_max=20)
    if not is_there:
        door.arriving(FAR)
    assert taken_count(door) == 0


def test_an_address_may_not_publish_more_because_of_new_limits() -> None:
    door = admission(updates_per_s_per_address_max=10)
    meters = []
    for _ in range(3):
        door.arriving(FAR)
        meters.append(door.meter(FAR))
        renewed(door, updates_per_s_per_address_max=5, update_bytes_max=10)
    taken = [meter.spend(1, 1, 0) is None for _ in range(5) for meter in meters]
    assert taken.count(True) == 6, "those who came before and after share one meter"
    assert meters[0].spend(1, 11, 10**10) is None, "its own limits are those it came with"


def test_rules_and_policies_of_clients_are_in_force() -> None:
    door = Admission(rng=Random(1))
    network = internal_class("DotsNetwork")(network="10.0.0.0", prefix=8)
    rule = internal_class("DotsAuthentication")(
        nameSpace="", network=network, clientName="", priority=0, secret="sesame", accept=True
    )
    door.set_rule(rule)
    assert door.challenge(FAR) is not None
    door.remove_rule(rule)
    assert door.challenge(FAR) is None
    policy = internal_class("DotsAuthenticationPolicy")(nameSpace="", accept=False)
    door.set_policy(policy)
    assert not door.verdict(FAR, name="x", nonce=None, response="", cnonce="")
    door.remove_policy(policy)
    assert door.verdict(FAR, name="x", nonce=None, response="", cnonce="")


@pytest.mark.parametrize("origin", [FAR, UNIX])
def test_a_name_may_have_so_many_characters_and_no_more(origin: Origin) -> None:
    door = Admission(rng=Random(1))
    longest = "x" * CLIENT_NAME_CHAR_COUNT_MAX
    assert door.verdict(origin, name=longest, nonce=None, response="", cnonce="")
    assert not door.verdict(origin, name=longest + "x", nonce=None, response="", cnonce="")


def test_each_client_has_a_meter_of_its_own() -> None:
    door = admission(updates_per_s_max=1)
    first, second = door.meter(), door.meter()
    assert [first.spend(1, 1, 0) is None for _ in range(3)] == [True, True, False]
    assert second.spend(1, 1, 0) is None


def test_a_configuration_may_have_so_many_rules_and_no_more() -> None:
    permission = (PermissionRule(verbs=("all",)),) * (PERMISSION_RULE_COUNT_MAX + 1)
    limit = AUTHENTICATION_RULE_COUNT_MAX
    authentication = tuple(AuthenticationRule(priority=n) for n in range(limit + 1))
    AdmissionConfig(permission=permission[1:], authentication=authentication[1:])
    with pytest.raises(ValueError, match=f"permission has .* limit is {PERMISSION_RULE_COUNT_MAX}"):
        AdmissionConfig(permission=permission)
    with pytest.raises(ValueError, match=f"authentication has .* limit is {limit}"):
        AdmissionConfig(authentication=authentication)


def test_two_rules_that_cannot_be_told_apart_are_refused() -> None:
    one = AuthenticationRule(client="a", network="10.0.0.0/8", secret="sesame")
    other = AuthenticationRule(client="a", network="10.1.2.3/8", secret="other")
    with pytest.raises(ValueError, match="2 rules for client 'a'") as caught:
        AdmissionConfig(authentication=(one, other))
    assert "sesame" not in str(caught.value)
