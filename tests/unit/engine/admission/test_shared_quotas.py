"""Shared quotas: limits of an address, the reserve for trusted clients, release on disconnect."""

from __future__ import annotations

import pytest

from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.admission.shared_quotas import Holder, Resource, SharedQuotas, open_part
from skerry.errors import LimitExceeded

MIB = 1024 * 1024
LIMITS = ClientLimits(
    update_bytes_max=MIB,
    unfinished_bytes_per_address_max=20 * MIB,
    unfinished_bytes_per_node_max=30 * MIB,
)


def test_clients_of_an_address_share_its_quota() -> None:
    shares = SharedQuotas(LIMITS)
    first, second = (Holder("10.0.0.1", is_trusted=False) for _ in range(2))
    shares.take(first, {Resource.UNFINISHED: 15 * MIB})
    with pytest.raises(LimitExceeded, match=r"of address 10\.0\.0\.1 .*_per_address_max") as caught:
        shares.take(second, {Resource.UNFINISHED: 6 * MIB})
    assert (caught.value.value, caught.value.limit) == (21 * MIB, 20 * MIB)
    assert (
        shares.used(Resource.UNFINISHED, "10.0.0.1") == shares.used(Resource.UNFINISHED) == 15 * MIB
    )
    shares.take(second, {Resource.UNFINISHED: 5 * MIB})
    shares.give_back(first, {Resource.UNFINISHED: MIB})
    shares.take(second, {Resource.UNFINISHED: MIB})


def test_untrusted_clients_leave_the_reserve_to_trusted_ones() -> None:
    shares = SharedQuotas(LIMITS)
    stranger, other = Holder("10.0.0.1", is_trusted=False), Holder("10.0.0.2", is_trusted=False)
    shares.take(stranger, {Resource.UNFINISHED: 20 * MIB})
    shares.take(other, {Resource.UNFINISHED: 7 * MIB})
    with pytest.raises(LimitExceeded, match=r"of all clients .*_per_node_max"):
        shares.take(other, {Resource.UNFINISHED: 1})
    local = Holder("", is_trusted=True)
    shares.take(local, {Resource.UNFINISHED: 3 * MIB})
    with pytest.raises(LimitExceeded, match="of all clients"):
        shares.take(local, {Resource.UNFINISHED: 1})


def test_a_disconnected_client_uses_nothing() -> None:
    shares = SharedQuotas(LIMITS)
    holder = Holder("10.0.0.1", is_trusted=False)
    shares.set(holder, Resource.UNFINISHED, 50 * MIB)
    found = shares.excess(holder, Resource.UNFINISHED)
    assert found is not None
    assert found.address == "10.0.0.1"
    shares.left(holder)
    assert shares.used(Resource.UNFINISHED) == shares.used(Resource.UNFINISHED, "10.0.0.1") == 0
    assert shares._by_address == {}


def test_several_resources_are_taken_together_or_not_at_all() -> None:
    limits = ClientLimits(join_count_per_address_max=5, pattern_count_per_address_max=2)
    shares = SharedQuotas(limits)
    holder = Holder("10.0.0.1", is_trusted=False)
    both = {Resource.JOINS: 1, Resource.PATTERNS: 1}
    for _ in range(2):
        shares.take(holder, both)
    with pytest.raises(LimitExceeded, match="subject patterns of address"):
        shares.take(holder, both)
    assert [shares.used(share) for share in both] == [2, 2]
    shares.give_back(holder, both)
    shares.take(holder, {Resource.JOINS: 4})
    with pytest.raises(LimitExceeded, match="subscriptions of address"):
        shares.take(holder, {Resource.JOINS: 1})


@pytest.mark.parametrize("share", Resource)
def test_every_resource_has_its_limits(share: Resource) -> None:
    limits = ClientLimits()
    of_address, of_node = (getattr(limits, key) for key in (share.address_key, share.node_key))
    assert 0 < 2 * of_address <= of_node


def test_a_tenth_is_reserved_and_nothing_of_small_limits() -> None:
    assert [open_part(limit) for limit in (1, 9, 10, 10_000)] == [1, 9, 9, 9000]
