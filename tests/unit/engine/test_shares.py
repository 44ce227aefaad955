"""Shares: an address has its part, strangers leave a reserve, and who leaves gives all back."""

from __future__ import annotations

import pytest

from skerry.engine.meter import ClientLimits
from skerry.engine.shares import Holder, Share, Shares, open_part
from skerry.errors import LimitExceeded

MIB = 1024 * 1024
LIMITS = ClientLimits(
    update_bytes_max=MIB,
    unfinished_bytes_per_address_max=20 * MIB,
    unfinished_bytes_per_node_max=30 * MIB,
)


def test_clients_of_an_address_share_what_it_may_use() -> None:
    shares = Shares()
    first, second = (Holder("10.0.0.1", is_trusted=False) for _ in range(2))
    shares.take(first, Share.UNFINISHED, 15 * MIB, LIMITS)
    with pytest.raises(LimitExceeded, match=r"of address 10\.0\.0\.1 .*_per_address_max") as caught:
        shares.take(second, Share.UNFINISHED, 6 * MIB, LIMITS)
    assert (caught.value.value, caught.value.limit) == (21 * MIB, 20 * MIB)
    assert shares.used(Share.UNFINISHED, "10.0.0.1") == shares.used(Share.UNFINISHED) == 15 * MIB
    shares.take(second, Share.UNFINISHED, 5 * MIB, LIMITS)
    shares.give_back(first, Share.UNFINISHED, MIB)
    shares.take(second, Share.UNFINISHED, MIB, LIMITS)


def test_strangers_of_all_addresses_leave_the_reserve_to_trusted_clients() -> None:
    shares = Shares()
    stranger, other = Holder("10.0.0.1", is_trusted=False), Holder("10.0.0.2", is_trusted=False)
    shares.take(stranger, Share.UNFINISHED, 20 * MIB, LIMITS)
    shares.take(other, Share.UNFINISHED, 7 * MIB, LIMITS)
    with pytest.raises(LimitExceeded, match=r"of all clients .*_per_node_max"):
        shares.take(other, Share.UNFINISHED, 1, LIMITS)
    local = Holder("", is_trusted=True)
    shares.take(local, Share.UNFINISHED, 3 * MIB, LIMITS)
    with pytest.raises(LimitExceeded, match="of all clients"):
        shares.take(local, Share.UNFINISHED, 1, LIMITS)


def test_who_is_gone_uses_nothing() -> None:
    shares = Shares()
    holder = Holder("10.0.0.1", is_trusted=False)
    shares.set(holder, Share.UNFINISHED, 50 * MIB)
    found = shares.excess(holder, Share.UNFINISHED, LIMITS)
    assert found is not None
    assert found.address == "10.0.0.1"
    shares.left(holder)
    assert shares.used(Share.UNFINISHED) == shares.used(Share.UNFINISHED, "10.0.0.1") == 0
    assert shares._by_address == {}


def test_a_tenth_is_reserved_and_nothing_of_a_few() -> None:
    assert [open_part(limit) for limit in (1, 9, 10, 10_000)] == [1, 9, 9, 9000]
