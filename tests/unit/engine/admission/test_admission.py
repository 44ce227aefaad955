"""Admission: limits of connections, and the decisions of its parts."""

from __future__ import annotations

from random import Random

import pytest

from skerry.engine.admission.admission import (
    DEPARTED_ADDRESS_COUNT_MAX,
    PERMISSION_RULE_COUNT_MAX,
    Admission,
    AdmissionConfig,
)
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX, CLIENT_NAME_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.secrets import digest

NEAR, FAR = Origin(kind="tcp", host="127.0.0.1"), Origin(kind="tcp", host="10.1.2.3")
UNIX = Origin(kind="unix")


def limited_admission(**limits: int) -> Admission:
    config = AdmissionConfig(limits=ClientLimits(**limits))
    return Admission(config, rng=Random(1))


def test_connections_are_limited() -> None:
    admission = limited_admission(connection_count_max=3)
    assert [admission.arriving(origin) for origin in (NEAR, UNIX, INSIDE)] == [None, None, None]
    assert admission.arriving(FAR) == "too many connections, the limit is 3"
    assert admission.present_count == 3
    admission.left(UNIX)
    assert admission.arriving(FAR) is None


def test_connections_of_one_address_are_limited() -> None:
    admission = limited_admission(connection_count_per_address_max=2)
    tls = Origin(kind="tls", host="::ffff:10.1.2.3", certificate="x")
    assert [admission.arriving(origin) for origin in (FAR, tls)] == [None, None]
    reason = admission.arriving(FAR)
    assert reason is not None
    assert reason.startswith("too many connections from 10.1.2.3, the limit is 2 (")
    assert admission.arriving(NEAR) is None
    admission.left(tls)
    assert admission.arriving(FAR) is None
    assert admission.present_count == 3


def test_unix_sockets_do_not_count_for_an_address() -> None:
    admission = limited_admission(connection_count_per_address_max=1)
    assert [admission.arriving(UNIX) for _ in range(5)] == [None] * 5
    assert [admission.arriving(INSIDE) for _ in range(5)] == [None] * 5


def test_addresses_that_left_are_forgotten() -> None:
    admission = limited_admission()
    for number in range(100):
        origin = Origin(kind="tcp", host=f"10.0.0.{number}")
        admission.arriving(origin)
        admission.left(origin)
    assert (admission.present_count, admission._addresses, admission._past_addresses) == (0, {}, {})


def test_clients_of_one_address_share_a_meter_with_disconnected_ones() -> None:
    admission = limited_admission(updates_per_s_per_address_max=2, burst_s=1)
    other = Origin(kind="tcp", host="10.9.9.9")
    for origin in (FAR, FAR, other):
        admission.arriving(origin)
    first, second, third = admission.meter(FAR), admission.meter(FAR), admission.meter(other)
    assert [meter.spend(1, 1, 0) is None for meter in (first, second, first)] == [True] * 3
    assert second.spend(1, 1, 0) == "more than 2 updates a second from one address"
    assert third.spend(1, 1, 0) is None
    assert admission.meter(UNIX).spend(1, 1, 0) is None
    for _ in range(2):
        admission.left(FAR)
    admission.arriving(FAR)
    assert admission.meter(FAR).spend(1, 1, 0) is not None


def test_remembered_addresses_are_limited() -> None:
    admission = limited_admission(bytes_per_s_per_address_max=10)
    for number in range(DEPARTED_ADDRESS_COUNT_MAX + 1):
        origin = Origin(kind="tcp", host=f"10.0.{number // 256}.{number % 256}")
        admission.arriving(origin)
        assert admission.meter(origin).spend(1, 1000, 0) is None
        admission.left(origin)
    for host, is_known in (("10.0.0.0", False), ("10.0.0.1", True)):
        origin = Origin(kind="tcp", host=host)
        admission.arriving(origin)
        assert (admission.meter(origin).spend(1, 1, 0) is not None) is is_known


def test_a_thousand_clients_of_one_computer_are_accepted_by_default() -> None:
    admission = Admission(rng=Random(1))
    assert {admission.arriving(FAR) for _ in range(1000)} == {None}


def test_without_a_configuration_remote_clients_are_accepted_and_may_do_nothing() -> None:
    admission = Admission(rng=Random(1))
    for origin, is_allowed in ((NEAR, True), (UNIX, True), (INSIDE, True), (FAR, False)):
        assert admission.authentication.challenge(origin) is None
        assert admission.authentication.verdict(
            origin, name="x", nonce=None, response="", cnonce=""
        )
        assert admission.rights(origin, "x").allows("publish", "/a") is is_allowed
        assert admission.rights(origin, "x").allows_objects is is_allowed
        assert admission.rights(origin, "x").allows_all is (origin.kind in ("unix", "inside"))


def test_rules_of_the_configuration_apply() -> None:
    config = AdmissionConfig(
        permission=(PermissionRule(verbs=("subscribe",), client="tracker"),),
        authentication=(AuthenticationRule(secret="sesame"),),
        policy="reject",
    )
    admission = Admission(config, rng=Random(1))
    nonce = admission.authentication.challenge(FAR)
    assert nonce is not None
    right = digest(name="tracker", secret="sesame", nonce=nonce, cnonce="c")
    assert admission.authentication.verdict(
        FAR, name="tracker", nonce=nonce, response=right, cnonce="c"
    )
    assert not admission.authentication.verdict(
        FAR, name="tracker", nonce=nonce, response="", cnonce="c"
    )
    assert admission.rights(FAR, "tracker").allows("subscribe", "/a")
    assert not admission.rights(FAR, "other").allows("subscribe", "/a")
    assert "sesame" not in repr(config)


def test_a_new_configuration_replaces_the_first() -> None:
    admission = limited_admission(connection_count_max=1)
    admission.renew(
        AdmissionConfig(permission=(PermissionRule(verbs=("publish",)),), policy="reject")
    )
    assert admission.limits == ClientLimits()
    assert admission.rights(FAR, "x").allows("publish", "/a")
    assert not admission.rights(NEAR, "x").allows("subscribe", "/a")
    assert not admission.authentication.verdict(FAR, name="x", nonce=None, response="", cnonce="")


def renewed(admission: Admission, **limits: int) -> None:
    admission.renew(AdmissionConfig(limits=ClientLimits(**limits)))


def taken_count(admission: Admission, origin: Origin = FAR) -> int:
    meter = admission.meter(origin)
    return sum(meter.spend(1, 1, 0) is None for _ in range(100))


def test_an_address_with_clients_gets_the_new_limits() -> None:
    admission = limited_admission()
    for _ in range(2):
        admission.arriving(FAR)
    assert taken_count(admission) == 100
    renewed(admission, updates_per_s_per_address_max=10)
    assert taken_count(admission) == 11
    renewed(admission)
    assert taken_count(admission) == 100


def test_an_address_without_clients_gets_the_new_limits() -> None:
    admission = limited_admission(updates_per_s_per_address_max=1000)
    admission.arriving(FAR)
    admission.left(FAR)
    renewed(admission, updates_per_s_per_address_max=10)
    admission.arriving(FAR)
    assert taken_count(admission) == 11
    admission.left(FAR)
    renewed(admission, updates_per_s_max=1000)
    assert admission._past_addresses == {}
    admission.arriving(FAR)
    assert taken_count(admission) == 100


@pytest.mark.parametrize("is_there", [True, False])
def test_what_an_address_spent_counts_under_the_new_limits(is_there: bool) -> None:
    admission = limited_admission(updates_per_s_per_address_max=10)
    admission.arriving(FAR)
    assert taken_count(admission) == 11
    if not is_there:
        admission.left(FAR)
    renewed(admission, updates_per_s_per_address_max=20)
    if not is_there:
        admission.arriving(FAR)
    assert taken_count(admission) == 0


def test_an_address_may_not_publish_more_because_of_new_limits() -> None:
    admission = limited_admission(updates_per_s_per_address_max=10)
    meters = []
    for _ in range(3):
        admission.arriving(FAR)
        meters.append(admission.meter(FAR))
        renewed(admission, updates_per_s_per_address_max=5, update_bytes_max=10)
    taken = [meter.spend(1, 1, 0) is None for _ in range(5) for meter in meters]
    assert taken.count(True) == 6, "those who came before and after share one meter"
    assert meters[0].spend(1, 11, 10**10) is None, "its own limits are those it came with"


def test_rules_and_policies_of_clients_apply() -> None:
    admission = Admission(rng=Random(1))
    network = internal_class("DotsNetwork")(network="10.0.0.0", prefix=8)
    rule = internal_class("DotsAuthentication")(
        nameSpace="", network=network, clientName="", priority=0, secret="sesame", accept=True
    )
    admission.authentication.set_rule(rule)
    assert admission.authentication.challenge(FAR) is not None
    admission.authentication.remove_rule(rule)
    assert admission.authentication.challenge(FAR) is None
    policy = internal_class("DotsAuthenticationPolicy")(nameSpace="", accept=False)
    admission.authentication.set_policy(policy)
    assert not admission.authentication.verdict(FAR, name="x", nonce=None, response="", cnonce="")
    admission.authentication.remove_policy(policy)
    assert admission.authentication.verdict(FAR, name="x", nonce=None, response="", cnonce="")


@pytest.mark.parametrize("origin", [FAR, UNIX])
def test_the_length_of_a_client_name_is_limited(origin: Origin) -> None:
    admission = Admission(rng=Random(1))
    longest = "x" * CLIENT_NAME_CHAR_COUNT_MAX
    assert admission.authentication.verdict(
        origin, name=longest, nonce=None, response="", cnonce=""
    )
    assert not admission.authentication.verdict(
        origin, name=longest + "x", nonce=None, response="", cnonce=""
    )


def test_each_client_has_a_meter_of_its_own() -> None:
    admission = limited_admission(updates_per_s_max=1)
    first, second = admission.meter(), admission.meter()
    assert [first.spend(1, 1, 0) is None for _ in range(3)] == [True, True, False]
    assert second.spend(1, 1, 0) is None


def test_the_rules_of_a_configuration_are_limited() -> None:
    permission = (PermissionRule(verbs=("all",)),) * (PERMISSION_RULE_COUNT_MAX + 1)
    limit = AUTHENTICATION_RULE_COUNT_MAX
    authentication = tuple(AuthenticationRule(priority=n) for n in range(limit + 1))
    AdmissionConfig(permission=permission[1:], authentication=authentication[1:])
    with pytest.raises(ValueError, match=f"permission has .* limit is {PERMISSION_RULE_COUNT_MAX}"):
        AdmissionConfig(permission=permission)
    with pytest.raises(ValueError, match=f"authentication has .* limit is {limit}"):
        AdmissionConfig(authentication=authentication)


def test_two_rules_with_the_same_key_are_rejected() -> None:
    one = AuthenticationRule(client="a", network="10.0.0.0/8", secret="sesame")
    other = AuthenticationRule(client="a", network="10.1.2.3/8", secret="other")
    with pytest.raises(ValueError, match="2 rules for client 'a'") as caught:
        AdmissionConfig(authentication=(one, other))
    assert "sesame" not in str(caught.value)
