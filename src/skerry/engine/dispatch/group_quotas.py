"""How many groups and memberships all clients, and those of one address, may have."""

from __future__ import annotations

from collections import Counter

from skerry.engine.admission.shared_quotas import Holder, Resource, SharedQuotas, open_part
from skerry.errors import LimitExceeded


class GroupQuotas:
    def __init__(self, shares: SharedQuotas, group_count_max: int) -> None:
        self._shares = shares
        self._group_count_max = group_count_max
        self._by_address: dict[str, Counter[str]] = {}
        """For each address its groups, with the number of its clients in each group."""

    def check_new_group(self, holder: Holder, group_count: int) -> None:
        """Raise LimitExceeded if there are too many groups for a client to add another one."""
        limit = self._group_count_max
        if not holder.is_trusted:
            limit = open_part(limit)
        if group_count >= limit:
            raise LimitExceeded(
                what="count of groups of all clients", value=group_count + 1, limit=limit
            )

    def add(self, holder: Holder, group: str) -> None:
        """Count a membership; raises LimitExceeded, without effect, if there are too many."""
        groups = self._by_address.get(holder.address, Counter())
        limit = self._shares.limits.group_count_per_address_max
        if holder.address and group not in groups and len(groups) >= limit:
            what = f"count of groups of address {holder.address} (group_count_per_address_max)"
            raise LimitExceeded(what=what, value=len(groups) + 1, limit=limit)
        self._shares.take(holder, _membership(group))
        if holder.address:
            self._by_address.setdefault(holder.address, Counter())[group] += 1

    def remove(self, holder: Holder, group: str) -> None:
        """Subtract a membership."""
        self._shares.give_back(holder, _membership(group))
        if holder.address:
            groups = self._by_address[holder.address]
            groups[group] -= 1
            if not groups[group]:
                del groups[group]
            if not groups:
                del self._by_address[holder.address]


def _membership(group: str) -> dict[Resource, int]:
    return {Resource.JOINS: 1, Resource.PATTERNS: int(group.startswith("/"))}
