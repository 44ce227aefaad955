"""Admission: which clients may connect, what a client may do, and how much it may use.

The node uses no other module to decide that. A decision depends on the `Origin` of a connection,
which its listener knows, and after the handshake also on the name of the client.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from skerry.engine.admission.authentication import Authentication, AuthenticationRule, Policy
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.admission.permissions import PermissionRule, Permissions, Rights
from skerry.engine.admission.quotas import ClientLimits, PublishMeter, address_limits, address_meter
from skerry.engine.admission.shared_quotas import open_part
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX

DEPARTED_ADDRESS_COUNT_MAX: Final = 1_000
"""Addresses without clients for which a node remembers how much they published, because a client
that reconnects must not start with a new quota. More than disconnect within one burst."""
PERMISSION_RULE_COUNT_MAX: Final = 1000
"""Rules about what clients may do. Each new client is compared with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """Which clients may connect, and what they may do.

    Without permission rules, clients of Unix sockets may do everything, clients of loopback
    addresses may publish, subscribe and remove, and clients of other computers may do nothing.
    """

    permission: tuple[PermissionRule, ...] = ()
    """What clients may do: the first rule that fits decides. If none fits, it is not allowed."""
    authentication: tuple[AuthenticationRule, ...] = ()
    """Which clients may connect, and with which secret."""
    policy: Policy | None = None
    """Whether clients are accepted about which no authentication rule decides: `accept` or
    `reject`. Without a policy they are accepted, unless they were asked for a secret."""
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
    """All clients of one address, which share the quotas of the address."""

    __slots__ = ("address", "client_count", "meter")

    def __init__(self, address: str, meter: PublishMeter) -> None:
        self.address = address
        self.meter = meter
        """Connected clients keep a reference to it, so it stays the same when limits change."""
        self.client_count = 0


class Admission:
    """Decides about the connections and clients of one node.

    The random numbers are challenges that must not be predictable: a node on a network passes a
    `random.SystemRandom`, a simulated one its seeded `Random`. Without random numbers, rules with a
    secret are rejected with a LocalProtocolError.
    """

    def __init__(self, config: AdmissionConfig | None = None, *, rng: Random | None = None) -> None:
        self._config = config or AdmissionConfig()
        self._permissions = Permissions(self._config.permission)
        self.authentication = Authentication(
            self._config.authentication, self._config.policy, rng=rng
        )
        self.present_count = 0
        """Accepted connections that are not closed."""
        self._system_count_max: int | None = None
        self._addresses: dict[str, AddressUsage] = {}
        self._past_addresses: dict[str, AddressUsage] = {}
        """Addresses whose clients all disconnected, the one that did so first at the front. Their
        meters are kept for a while."""

    def renew(self, config: AdmissionConfig) -> None:
        """Replace the configuration. Rules and policies that clients set stay.

        Raises LocalProtocolError or LimitExceeded if the new rules cannot be used; nothing is
        changed then.
        """
        self.authentication.renew(
            former=(self._config.authentication, self._config.policy),
            found=(config.authentication, config.policy),
        )
        self._permissions = Permissions(config.permission)
        self._config = config
        if not config.limits.is_address_measured:
            self._past_addresses.clear()
        shared = address_limits(config.limits)
        for usage in (*self._addresses.values(), *self._past_addresses.values()):
            usage.meter.renew(shared)

    @property
    def limits(self) -> ClientLimits:
        """What one client and one address may use."""
        return self._config.limits

    def bound_connections(self, system_count_max: int) -> None:
        """Set how many connections the operating system allows; the lower limit applies."""
        self._system_count_max = system_count_max

    @property
    def _connection_count_max(self) -> int:
        limit = self.limits.connection_count_max
        return limit if self._system_count_max is None else min(limit, self._system_count_max)

    def arriving(self, origin: Origin) -> str | None:
        """Why a new connection is rejected; None if it is accepted and counted until `left`.

        A connection may turn out to be trusted in its handshake, so it may use the reserve until
        then. `settling` decides whether it stays. It may be closed to make room for another one.
        """
        limits = self.limits
        if self.present_count >= self._connection_count_max:
            return self._too_many()
        host = origin.share
        if host:
            usage = self._addresses.get(host)
            if usage is None:
                usage = self._past_addresses.pop(host, None)
                if usage is None:
                    usage = AddressUsage(host, address_meter(limits))
                self._addresses[host] = usage
            limit = limits.connection_count_per_address_max
            if usage.client_count >= limit:
                return (
                    f"too many connections from {host}, the limit is {limit}"
                    " (connection_count_per_address_max)"
                )
            usage.client_count += 1
        self.present_count += 1
        return None

    def settling(self, *, is_trusted: bool) -> str | None:
        """Why a connection is closed after its handshake; None if it stays."""
        if is_trusted or self.present_count <= open_part(self._connection_count_max):
            return None
        return self._too_many()

    def _too_many(self) -> str:
        return f"too many connections, the limit is {self._connection_count_max}"

    def is_address_full(self, origin: Origin) -> bool:
        """Whether the address of a connection has as many connections as it may have."""
        usage = self._addresses.get(origin.share)
        limit = self.limits.connection_count_per_address_max
        return usage is not None and usage.client_count >= limit

    def address_usage(self, origin: Origin) -> AddressUsage | None:
        """What the address of an accepted connection uses; None if it has no address."""
        return self._addresses.get(origin.share)

    def left(self, origin: Origin) -> None:
        """Stop counting an accepted connection that was closed."""
        assert self.present_count > 0
        self.present_count -= 1
        host = origin.share
        if not host:
            return
        usage = self._addresses[host]
        usage.client_count -= 1
        if usage.client_count == 0:
            del self._addresses[host]
            if self.limits.is_address_measured:
                # A client must not evade its rate by connecting again.
                self._past_addresses[host] = usage
                if len(self._past_addresses) > DEPARTED_ADDRESS_COUNT_MAX:
                    del self._past_addresses[next(iter(self._past_addresses))]

    def rights(self, origin: Origin, name: str) -> Rights:
        """What an accepted client may do."""
        return self._permissions.rights(origin, name)

    def meter(self, origin: Origin = INSIDE) -> PublishMeter:
        """A new meter for one client; it also counts for the address of the client."""
        usage = self.address_usage(origin)
        return PublishMeter(self.limits, address=None if usage is None else usage.meter)
