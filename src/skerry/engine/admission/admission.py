"""Admission: who may connect, what a client may do then, and how much of it.

The node asks here and nowhere else. What is asked about a connection is its `Origin`, which its
door knows, and later the name that the client gives itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from skerry.engine.admission.authentication import Authentication, AuthenticationRule, Policy
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.admission.permissions import VERBS, PermissionRule, Permissions, Rights
from skerry.engine.admission.quotas import ClientLimits, PublishMeter, address_limits, address_meter
from skerry.engine.admission.shared_quotas import open_part
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX, CLIENT_NAME_CHAR_COUNT_MAX

__all__ = [
    "DEPARTED_ADDRESS_COUNT_MAX",
    "INSIDE",
    "PERMISSION_RULE_COUNT_MAX",
    "VERBS",
    "AddressUsage",
    "Admission",
    "AdmissionConfig",
    "AuthenticationRule",
    "ClientLimits",
    "Origin",
    "PermissionRule",
    "PublishMeter",
    "Rights",
]

DEPARTED_ADDRESS_COUNT_MAX: Final = 1_000
"""Addresses without clients for which a node remembers how much they published, because a client
that reconnects must not start with a new quota. More than disconnect within one burst."""
PERMISSION_RULE_COUNT_MAX: Final = 1000
"""Rules about what clients may do. Each new client is compared with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """Who may connect and do what.

    Without permission rules, Unix sockets may do everything, loopback addresses may publish,
    subscribe and remove, and other computers may do nothing.
    """

    permission: tuple[PermissionRule, ...] = ()
    """What clients may do: the first rule that fits decides, and where none does, nothing is."""
    authentication: tuple[AuthenticationRule, ...] = ()
    """Who may connect, and with which secret."""
    policy: Policy | None = None
    """What becomes of clients that no authentication rule decides about: `accept` or `reject`.
    Without one they are accepted, unless they were asked for a secret."""
    limits: ClientLimits = field(default_factory=ClientLimits)

    def __post_init__(self) -> None:
        for name, count, limit in (
            ("permission", len(self.permission), PERMISSION_RULE_COUNT_MAX),
            ("authentication", len(self.authentication), AUTHENTICATION_RULE_COUNT_MAX),
        ):
            if count > limit:
                raise ValueError(f"{name} has {count} rules, the limit is {limit}")
        for identity, count in Counter(rule.identity for rule in self.authentication).items():
            if count > 1:
                network, client, priority = identity
                raise ValueError(
                    f"authentication has {count} rules for client {client!r}, network {network!r}"
                    f" and priority {priority}: give them different priorities"
                )


class AddressUsage:
    """All clients of one address, which share what an address may use."""

    __slots__ = ("address", "client_count", "meter")

    def __init__(self, address: str, meter: PublishMeter) -> None:
        self.address = address
        self.meter = meter
        """It stays the same when limits change, as the clients that are there hold on to it."""
        self.client_count = 0


class Admission:
    """The doorkeeper of one node.

    The random numbers are challenges that nobody must foresee: a node on a network hands in a
    `random.SystemRandom`, a simulated one its seeded chance. Without them, rules with a secret are
    refused with a LocalProtocolError.
    """

    def __init__(self, config: AdmissionConfig | None = None, *, rng: Random | None = None) -> None:
        self._config = config or AdmissionConfig()
        self._permissions = Permissions(self._config.permission)
        self._authentication = Authentication(
            self._config.authentication, self._config.policy, rng=rng
        )
        self._present_count = 0
        self._place_count: int | None = None
        self._households: dict[str, AddressUsage] = {}
        self._deserted: dict[str, AddressUsage] = {}
        """Those that nobody is left of, and that are remembered for a while; oldest first."""

    def renew(self, config: AdmissionConfig) -> None:
        """Take another configuration; what clients set by themselves stays.

        LocalProtocolError or LimitExceeded if that cannot be, and then nothing is changed.
        """
        self._authentication.renew(
            former=(self._config.authentication, self._config.policy),
            found=(config.authentication, config.policy),
        )
        self._permissions = Permissions(config.permission)
        self._config = config
        if not config.limits.is_address_measured:
            self._deserted.clear()
        shared = address_limits(config.limits)
        for household in (*self._households.values(), *self._deserted.values()):
            household.meter.renew(shared)

    @property
    def limits(self) -> ClientLimits:
        """What one client and one address may use."""
        return self._config.limits

    def bound_connections(self, place_count: int) -> None:
        """Set how many connections the computer can hold, which may be the lower limit."""
        self._place_count = place_count

    @property
    def _connection_count_max(self) -> int:
        limit = self.limits.connection_count_max
        return limit if self._place_count is None else min(limit, self._place_count)

    @property
    def present_count(self) -> int:
        """Connections that came in and have not left."""
        return self._present_count

    def arriving(self, origin: Origin) -> str | None:
        """Why a connection is rejected; None if it is accepted and counted, until `left`.

        Before its handshake a connection may turn out to be trusted, so it may use the reserve;
        `settling` decides whether it stays. It may be closed to make room for another one.
        """
        limits = self.limits
        if self._present_count >= self._connection_count_max:
            return self._too_many()
        host = origin.share
        if host:
            household = self._households.get(host)
            if household is None:
                household = self._deserted.pop(host, None)
                if household is None:
                    household = AddressUsage(host, address_meter(limits))
                self._households[host] = household
            limit = limits.connection_count_per_address_max
            if household.client_count >= limit:
                return (
                    f"too many connections from {host}, the limit is {limit}"
                    " (connection_count_per_address_max)"
                )
            household.client_count += 1
        self._present_count += 1
        return None

    def settling(self, *, is_trusted: bool) -> str | None:
        """Why there is no room for a connection after its handshake; None if there is."""
        if is_trusted or self._present_count <= open_part(self._connection_count_max):
            return None
        return self._too_many()

    def _too_many(self) -> str:
        return f"too many connections, the limit is {self._connection_count_max}"

    def is_address_full(self, origin: Origin) -> bool:
        """Whether the address of a connection has as many connections as it may have."""
        household = self._households.get(origin.share)
        limit = self.limits.connection_count_per_address_max
        return household is not None and household.client_count >= limit

    def household(self, origin: Origin) -> AddressUsage | None:
        """Those who are at the same address, for a connection that came in; None without one."""
        return self._households.get(origin.share)

    def left(self, origin: Origin) -> None:
        """A connection that came in is gone."""
        assert self._present_count > 0
        self._present_count -= 1
        host = origin.share
        if not host:
            return
        household = self._households[host]
        household.client_count -= 1
        if household.client_count == 0:
            del self._households[host]
            if self.limits.is_address_measured:
                # Who comes back has not been away: what it published counts for a while.
                self._deserted[host] = household
                if len(self._deserted) > DEPARTED_ADDRESS_COUNT_MAX:
                    del self._deserted[next(iter(self._deserted))]

    def challenge(self, origin: Origin) -> int | None:
        """A random number, never 0, which the client has to answer; None if it need not."""
        return self._authentication.challenge(origin)

    def verdict(
        self, origin: Origin, *, name: str, nonce: int | None, response: str, cnonce: str
    ) -> bool:
        """Whether a client that introduced itself is let in; `nonce` is what `challenge` gave."""
        if len(name) > CLIENT_NAME_CHAR_COUNT_MAX:
            return False
        return self._authentication.verdict(
            origin, name=name, nonce=nonce, response=response, cnonce=cnonce
        )

    def is_proven(
        self, origin: Origin, *, name: str, nonce: int | None, response: str, cnonce: str
    ) -> bool:
        """Whether an accepted client proved that it knows a secret."""
        return self._authentication.is_proven(
            origin, name=name, nonce=nonce, response=response, cnonce=cnonce
        )

    def rights(self, origin: Origin, name: str) -> Rights:
        """What a client may do that was let in."""
        return self._permissions.rights(origin, name)

    def meter(self, origin: Origin = INSIDE) -> PublishMeter:
        """A new meter for one client, which counts for its address, too."""
        household = self.household(origin)
        return PublishMeter(self.limits, address=None if household is None else household.meter)

    def set_rule(self, rule: Any) -> None:
        """Take a `DotsAuthentication` of a client that may administer.

        LocalProtocolError for a bad one, LimitExceeded for one too many.
        """
        self._authentication.set_rule(rule)

    def remove_rule(self, rule: Any) -> None:
        """Forget the rule with the key of a `DotsAuthentication`."""
        self._authentication.remove_rule(rule)

    def set_policy(self, policy: Any) -> None:
        """Take a `DotsAuthenticationPolicy` of a client that may administer."""
        self._authentication.set_policy(policy)

    def remove_policy(self, policy: Any) -> None:
        """Forget the policy with the key of a `DotsAuthenticationPolicy`."""
        self._authentication.remove_policy(policy)
