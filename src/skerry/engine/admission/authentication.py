"""Which clients may connect: rules by network and name, some with a secret.

The rules are those of the DOTS hosts, in the order of their priority numbers, with three weaknesses
removed. A rule that names a client and has a secret works on its own: the challenge is sent when
any rule with a secret could apply to an address, and not only when one for all names does. A client
name for which such a rule failed is not accepted by a rule without a secret or by a policy;
otherwise any client could use the name. A client that was asked for a proof and failed is not
accepted merely because there is no policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Literal, TypeAlias

from skerry.engine.admission.origins import Origin, OriginPattern, parse_origin_pattern
from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX, CLIENT_NAME_CHAR_COUNT_MAX
from skerry.protocol.access.secrets import is_right_answer

Policy: TypeAlias = Literal["accept", "reject"]

_PRIORITY_MAX: Final = 65535
_KINDS_WITHOUT_CHALLENGE: Final = ("unix", "inside")

_Key: TypeAlias = tuple[str, str, str, int]
"""Name space, network, client and priority, as in the type on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationRule:
    """One rule; of those that apply to a client, the one with the smallest priority decides."""

    client: str = ""
    """Name of the client, without wild cards; empty applies to all."""
    network: str = ""
    """Address or network the client connects from; empty applies to all."""
    priority: int = 0
    """Rules with smaller numbers are evaluated first."""
    secret: str | None = field(default=None, repr=False, metadata={"is_secret": True})
    """The secret that the client has to prove; without one, the rule applies to every client."""
    accept: bool = True
    """Whether the client is accepted or rejected."""

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= _PRIORITY_MAX:
            raise ValueError(f"priority must be from 0 to {_PRIORITY_MAX}, and is {self.priority}")
        if self.secret == "":
            raise ValueError("secret is empty: leave it out for a rule without one")
        if self.origins.kind:
            raise ValueError(
                f"network {self.network!r}: only connections with an address are authenticated;"
                " write an address or a network"
            )

    @property
    def origins(self) -> OriginPattern:
        """The origins to which it applies."""
        return parse_origin_pattern(self.network)

    @property
    def identity(self) -> tuple[str, str, int]:
        """Its key: network, client and priority."""
        # One network can be written in many ways.
        network = self.origins.network
        return "" if network is None else str(network), self.client, self.priority

    def is_for(self, name: str) -> bool:
        """Whether it applies to clients of this name."""
        return self.client in ("", name)


class Authentication:
    def __init__(
        self, rules: Iterable[AuthenticationRule], policy: Policy | None, *, rng: Random | None
    ) -> None:
        self._rng = rng
        self._rules: dict[_Key, AuthenticationRule] = {}
        self._policies: dict[str, bool] = {} if policy is None else {"": policy == "accept"}
        for rule in rules:
            self._put(("", *rule.identity), rule)

    def renew(
        self,
        *,
        former: tuple[Iterable[AuthenticationRule], Policy | None],
        found: tuple[Iterable[AuthenticationRule], Policy | None],
    ) -> None:
        """Replace the rules and the policy of the former configuration.

        Rules with other keys, which clients set, stay.
        """
        rules, policy = found
        replaced = {("", *rule.identity) for rule in former[0]}
        kept = {key: rule for key, rule in self._rules.items() if key not in replaced}
        before, self._rules = self._rules, kept
        try:
            for rule in rules:
                self._put(("", *rule.identity), rule)
        except (LimitExceeded, LocalProtocolError):
            self._rules = before
            raise
        if former[1] is not None:
            self._policies.pop("", None)
        if policy is not None:
            self._policies[""] = policy == "accept"

    def challenge(self, origin: Origin) -> int | None:
        """A random number, never 0, that the client has to answer; None if no secret is asked."""
        if origin.kind in _KINDS_WITHOUT_CHALLENGE or not self._is_proof_wanted(origin):
            return None
        assert self._rng is not None, "a rule with a secret was added without random numbers"
        # On the wire, 0 means that the client need not prove anything.
        return self._rng.getrandbits(64) or 1

    def verdict(
        self, origin: Origin, *, name: str, nonce: int | None, response: str, cnonce: str
    ) -> bool:
        """Whether a client of this name is accepted; `nonce` is the challenge of its connection."""
        if len(name) > CLIENT_NAME_CHAR_COUNT_MAX:
            return False
        if origin.kind == "unix":
            return True
        if origin.kind == "inside":
            return self._policy() is not False
        has_failed = has_failed_as_itself = False
        for rule in self._applying(origin):
            if not rule.is_for(name):
                continue
            if rule.secret is None:
                if not (rule.accept and has_failed_as_itself):
                    return rule.accept
            elif _proves(rule.secret, name, nonce, response, cnonce):
                return rule.accept
            elif rule.accept:
                has_failed = True
                has_failed_as_itself = has_failed_as_itself or rule.client != ""
        policy = self._policy()
        return not has_failed if policy is None else policy and not has_failed_as_itself

    def is_proven(
        self, origin: Origin, *, name: str, nonce: int | None, response: str, cnonce: str
    ) -> bool:
        """Whether a client of this name proved that it knows the secret of a rule for it."""
        return nonce is not None and any(
            rule.accept and _proves(rule.secret, name, nonce, response, cnonce)
            for rule in self._applying(origin)
            if rule.secret is not None and rule.is_for(name)
        )

    def set_rule(self, rule: Any) -> None:
        """Set the rule in a `DotsAuthentication` of a client.

        Unset fields keep the values of an existing rule with the same key: a client that leaves out
        the secret must not remove it. Raises LocalProtocolError for an invalid rule.
        """
        bare = _bare_rule(rule)
        key = (rule.nameSpace, *bare.identity)
        former = self._rules.get(key)
        if former is None and rule.accept is None:
            raise LocalProtocolError("DotsAuthentication without accept: set it for a new rule")
        try:
            merged = replace(
                bare,
                secret=former.secret if former and rule.secret is None else rule.secret,
                accept=former.accept if former and rule.accept is None else rule.accept,
            )
        except ValueError as error:
            raise LocalProtocolError(f"DotsAuthentication: {error}") from None
        self._put(key, merged)

    def remove_rule(self, rule: Any) -> None:
        """Remove the rule with the key of a `DotsAuthentication`, if there is one."""
        self._rules.pop((rule.nameSpace, *_bare_rule(rule).identity), None)

    def set_policy(self, policy: Any) -> None:
        """Set the policy in a `DotsAuthenticationPolicy`, for clients that fit no rule."""
        space = policy.nameSpace or ""
        if policy.accept is None:
            return
        if space not in self._policies and len(self._policies) >= AUTHENTICATION_RULE_COUNT_MAX:
            raise _too_many("policies")
        self._policies[space] = policy.accept

    def remove_policy(self, policy: Any) -> None:
        """Remove the policy with the key of a `DotsAuthenticationPolicy`, if there is one."""
        self._policies.pop(policy.nameSpace or "", None)

    def _put(self, key: _Key, rule: AuthenticationRule) -> None:
        if rule.secret is not None and self._rng is None:
            raise LocalProtocolError(
                "this node has no random numbers, so rules with a secret are not supported"
            )
        if key not in self._rules and len(self._rules) >= AUTHENTICATION_RULE_COUNT_MAX:
            raise _too_many("rules")
        self._rules[key] = rule

    def _policy(self) -> bool | None:
        # Name spaces are not evaluated, so a single policy that rejects is enough.
        return all(self._policies.values()) if self._policies else None

    def _is_proof_wanted(self, origin: Origin) -> bool:
        for rule in self._applying(origin):
            if rule.secret is not None and rule.accept:
                return True
            if rule.secret is None and not rule.client:
                # It decides about every client, so no rule after it is evaluated.
                return False
        return False

    def _applying(self, origin: Origin) -> Sequence[AuthenticationRule]:
        found = [rule for rule in self._rules.values() if rule.origins.has(origin)]
        # Among equal priorities, rules for one client come first: they are more specific.
        return sorted(
            found, key=lambda rule: (rule.priority, rule.client == "", rule.secret is None)
        )


def _bare_rule(rule: Any) -> AuthenticationRule:
    """A rule with only the key of a `DotsAuthentication`."""
    keys = ("nameSpace", "network", "clientName", "priority")
    missing = [name for name in keys if getattr(rule, name) is None]
    if missing:
        raise LocalProtocolError(f"DotsAuthentication without {', '.join(missing)}")
    network = rule.network
    text = f"{network.network}/{network.prefix or 0}" if network.network else ""
    try:
        return AuthenticationRule(client=rule.clientName, network=text, priority=rule.priority)
    except ValueError as error:
        raise LocalProtocolError(f"DotsAuthentication: {error}") from None


def _proves(secret: str, name: str, nonce: int | None, response: str, cnonce: str) -> bool:
    # A response without a challenge proves nothing: it may be a replay of another connection.
    if not nonce:
        return False
    return is_right_answer(response, name=name, secret=secret, nonce=nonce, cnonce=cnonce)


def _too_many(what: str) -> LimitExceeded:
    limit = AUTHENTICATION_RULE_COUNT_MAX
    return LimitExceeded(what=f"the number of authentication {what}", value=limit + 1, limit=limit)
