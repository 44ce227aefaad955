"""Authentication: which clients get a challenge, and which are accepted."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from skerry.engine.admission.authentication import Authentication, AuthenticationRule, Policy
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import AUTHENTICATION_RULE_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.secrets import digest

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "dots"
LAN = Origin(kind="tcp", host="10.1.2.3")
UNIX = Origin(kind="unix")
NETWORK = internal_class("DotsNetwork")
OPEN = AuthenticationRule()
SECRET = AuthenticationRule(secret="sesame")


def who(*rules: AuthenticationRule, policy: Policy | None = None) -> Authentication:
    return Authentication(rules, policy, rng=Random(1))


def is_let_in(
    auth: Authentication,
    secret: str | None = None,
    *,
    name: str = "tracker",
    origin: Origin = LAN,
) -> bool:
    """Whether a client is accepted that answers the challenge with a secret, if it has one."""
    nonce = auth.challenge(origin)
    answer = {"response": "", "cnonce": ""}
    if nonce is not None and secret is not None:
        response = digest(name=name, secret=secret, nonce=nonce, cnonce="c0ffee")
        answer = {"response": response, "cnonce": "c0ffee"}
    return auth.verdict(origin, name=name, nonce=nonce, **answer)


def rule_object(
    *, network: str = "10.0.0.0", prefix: int = 8, client: str = "", **fields: Any
) -> Any:
    facts = {"nameSpace": "", "priority": 0, "clientName": client, **fields}
    return internal_class("DotsAuthentication")(
        network=NETWORK(network=network, prefix=prefix), **facts
    )


def policy_object(accept: bool | None, space: str = "") -> Any:
    return internal_class("DotsAuthenticationPolicy")(nameSpace=space, accept=accept)


def test_without_rules_all_clients_are_accepted_without_a_challenge() -> None:
    assert who().challenge(LAN) is None
    assert is_let_in(who())


def test_a_policy_decides_if_no_rule_does() -> None:
    assert not is_let_in(who(policy="reject"))
    assert is_let_in(who(policy="accept"))
    assert is_let_in(who(OPEN, policy="reject"))


def test_a_client_with_the_secret_is_accepted() -> None:
    assert is_let_in(who(SECRET), "sesame")
    assert is_let_in(who(SECRET, policy="reject"), "sesame")


@pytest.mark.parametrize("policy", [None, "reject"])
@pytest.mark.parametrize("secret", [None, "", "Sesame"])
def test_a_client_without_the_secret_is_rejected(secret: str | None, policy: Policy | None) -> None:
    assert not is_let_in(who(SECRET, policy=policy), secret)


def test_only_a_client_with_the_secret_is_proven() -> None:
    auth = who(SECRET, policy="accept")
    nonce = auth.challenge(LAN)
    assert nonce is not None
    right = digest(name="tracker", secret="sesame", nonce=nonce, cnonce="c")
    for response, asked, is_proven in (
        (right, nonce, True),
        (right, None, False),
        (right, nonce + 1, False),
        ("", nonce, False),
    ):
        answer = {"response": response, "cnonce": "c"}
        assert auth.is_proven(LAN, name="tracker", nonce=asked, **answer) is is_proven
    assert not auth.is_proven(LAN, name="other", nonce=nonce, response=right, cnonce="c")


def test_a_policy_of_accept_accepts_clients_without_a_proof() -> None:
    assert is_let_in(who(SECRET, policy="accept"), "wrong")


def test_a_rule_for_one_name_works_without_a_rule_for_all() -> None:
    auth = who(AuthenticationRule(client="tracker", secret="sesame"))
    assert auth.challenge(LAN) is not None
    assert is_let_in(auth, "sesame")
    assert not is_let_in(auth, "wrong")
    assert is_let_in(auth, name="other")


@pytest.mark.parametrize(
    "others",
    [
        (OPEN,),
        (AuthenticationRule(priority=5),),
        (AuthenticationRule(client="tracker", priority=5),),
        (AuthenticationRule(network="10.1.2.3"),),
    ],
    ids=repr,
)
@pytest.mark.parametrize("policy", [None, "accept"])
def test_a_name_with_a_secret_requires_the_secret(
    others: tuple[AuthenticationRule, ...], policy: Policy | None
) -> None:
    auth = who(AuthenticationRule(client="tracker", secret="sesame"), *others, policy=policy)
    assert not is_let_in(auth)
    assert not is_let_in(auth, "wrong")
    assert is_let_in(auth, "sesame")


def test_each_of_several_secrets_of_one_name_is_accepted() -> None:
    auth = who(
        AuthenticationRule(client="tracker", secret="old", priority=1),
        AuthenticationRule(client="tracker", secret="new", priority=2),
        AuthenticationRule(secret="shared", priority=3),
    )
    assert [is_let_in(auth, secret) for secret in ("old", "new", "shared", "x")] == [
        True,
        True,
        True,
        False,
    ]
    assert not is_let_in(auth, "old", name="other")


def test_smaller_priority_numbers_come_first() -> None:
    first_open = who(AuthenticationRule(priority=1), AuthenticationRule(priority=2, secret="s"))
    assert first_open.challenge(LAN) is None
    assert is_let_in(first_open)
    turned_away = AuthenticationRule(priority=1, accept=False, network="10.1.0.0/16")
    assert not is_let_in(who(AuthenticationRule(priority=2), turned_away))
    assert is_let_in(who(AuthenticationRule(priority=0), turned_away))


def test_among_equal_priorities_the_rule_for_one_name_comes_first() -> None:
    auth = who(AuthenticationRule(accept=False), AuthenticationRule(client="tracker"))
    assert is_let_in(auth)
    assert not is_let_in(auth, name="other")


def test_a_rule_applies_to_its_network_only() -> None:
    auth = who(AuthenticationRule(network="10.0.0.0/8", secret="sesame"), policy="reject")
    elsewhere = Origin(kind="tcp", host="11.1.2.3")
    assert auth.challenge(elsewhere) is None
    assert not is_let_in(auth, "sesame", origin=elsewhere)
    assert is_let_in(auth, "sesame", origin=Origin(kind="websocket", host="10.9.9.9"))


def test_a_rule_that_rejects_sends_no_challenge() -> None:
    auth = who(AuthenticationRule(secret="sesame", accept=False))
    assert auth.challenge(LAN) is None
    assert is_let_in(auth)


def test_rules_after_one_for_all_clients_send_no_challenge() -> None:
    auth = who(AuthenticationRule(accept=False), AuthenticationRule(priority=1, secret="sesame"))
    assert auth.challenge(LAN) is None
    assert not is_let_in(auth, "sesame")


def test_unix_sockets_get_no_challenge_and_inside_clients_follow_the_policy() -> None:
    auth = who(SECRET, AuthenticationRule(client="tracker", accept=False), policy="reject")
    assert auth.challenge(UNIX) is None
    assert auth.challenge(INSIDE) is None
    assert is_let_in(auth, origin=UNIX)
    assert not is_let_in(auth, origin=INSIDE)
    assert is_let_in(who(SECRET), origin=INSIDE)


def test_a_challenge_is_never_zero_and_never_repeated() -> None:
    class Zero(Random):
        def getrandbits(self, k: int, /) -> int:
            return 0

    assert Authentication([SECRET], None, rng=Zero()).challenge(LAN) == 1
    auth = who(SECRET)
    asked = {auth.challenge(LAN) for _ in range(1000)}
    assert len(asked) == 1000
    assert all(nonce is not None and 0 < nonce < 2**64 for nonce in asked)


@pytest.mark.parametrize("nonce", [None, 0])
def test_a_response_without_a_challenge_proves_nothing(nonce: int | None) -> None:
    heard = digest(name="tracker", secret="sesame", nonce=0, cnonce="c")
    answer = {"name": "tracker", "response": heard, "cnonce": "c"}
    assert not who(SECRET).verdict(LAN, nonce=nonce, **answer)


def test_a_response_to_another_challenge_proves_nothing() -> None:
    auth = who(SECRET)
    first, second = auth.challenge(LAN), auth.challenge(LAN)
    assert first is not None
    heard = digest(name="tracker", secret="sesame", nonce=first, cnonce="c")
    answer = {"name": "tracker", "response": heard, "cnonce": "c"}
    assert auth.verdict(LAN, nonce=first, **answer)
    assert not auth.verdict(LAN, nonce=second, **answer)


@pytest.mark.parametrize(
    ("session", "is_accepted"), [("auth-accepted", True), ("auth-rejected", False)]
)
def test_recorded_clients_are_accepted_or_rejected_as_by_the_dots_host(
    session: str, is_accepted: bool
) -> None:
    frames = json.loads((GOLDEN / f"{session}.json").read_text(encoding="utf-8"))["frames"]
    hello, connect, answer = (frame["payload"] for frame in frames[:3])
    assert answer["accepted"] is is_accepted
    auth = who(AuthenticationRule(network="127.0.0.1/32", secret="sesame"), policy="reject")
    verdict = auth.verdict(
        Origin(kind="tcp", host="127.0.0.1"),
        name=connect["clientName"],
        nonce=hello["authChallenge"],
        response=connect["authChallengeResponse"],
        cnonce=connect["cnonce"],
    )
    assert verdict is is_accepted


def test_rules_can_be_set_and_removed_by_clients() -> None:
    auth = who()
    auth.set_policy(policy_object(accept=False))
    assert not is_let_in(auth)
    auth.set_rule(rule_object(secret="sesame", accept=True))
    assert is_let_in(auth, "sesame")
    assert not is_let_in(auth, "wrong")
    auth.remove_rule(rule_object())
    assert auth.challenge(LAN) is None
    assert not is_let_in(auth)
    auth.remove_policy(policy_object(accept=None))
    assert is_let_in(auth)
    auth.remove_rule(rule_object())
    auth.remove_policy(policy_object(accept=None))


def test_fields_that_a_client_does_not_set_stay() -> None:
    auth = who(AuthenticationRule(network="10.0.0.0/8", secret="sesame"))
    auth.set_rule(rule_object(accept=True, network="10.7.7.7"))
    assert auth.challenge(LAN) is not None
    assert not is_let_in(auth)
    auth.set_rule(rule_object(secret="other"))
    assert is_let_in(auth, "other")
    assert not is_let_in(auth, "sesame")
    auth.set_policy(policy_object(accept=False))
    auth.set_policy(policy_object(accept=None))
    assert not is_let_in(auth)


def test_rules_of_another_key_are_other_rules() -> None:
    auth = who()
    for change in ({}, {"client": "x"}, {"priority": 1}, {"nameSpace": "n"}, {"prefix": 16}):
        auth.set_rule(rule_object(accept=True, **change))
    assert len(auth._rules) == 5


def test_a_rule_of_a_client_without_a_network_is_for_all() -> None:
    auth = who()
    auth.set_rule(rule_object(network="", prefix=0, accept=False))
    assert not is_let_in(auth)


def test_one_policy_that_rejects_is_enough() -> None:
    auth = who(policy="accept")
    auth.set_policy(policy_object(accept=False, space="other"))
    assert not is_let_in(auth)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": "10.0.0.0", "prefix": 99}, "is not a network"),
        ({"network": "here"}, "is not a network"),
        ({"secret": ""}, "secret is empty"),
        ({"accept": None}, "without accept"),
        ({"nameSpace": None}, "without nameSpace"),
        ({"clientName": None, "priority": None}, "without clientName, priority"),
    ],
)
def test_an_invalid_rule_of_a_client_is_rejected_and_changes_nothing(
    change: dict[str, Any], words: str
) -> None:
    auth = who()
    with pytest.raises(LocalProtocolError, match=words):
        auth.set_rule(rule_object(**{"accept": True, **change}))
    assert is_let_in(auth)


def test_rules_and_policies_are_limited() -> None:
    auth = who()
    for number in range(AUTHENTICATION_RULE_COUNT_MAX):
        auth.set_rule(rule_object(priority=number, accept=True))
        auth.set_policy(policy_object(accept=True, space=str(number)))
    limit = f"the limit is {AUTHENTICATION_RULE_COUNT_MAX}"
    with pytest.raises(LimitExceeded, match=f"authentication rules .* {limit}"):
        auth.set_rule(rule_object(priority=AUTHENTICATION_RULE_COUNT_MAX, accept=True))
    with pytest.raises(LimitExceeded, match=f"authentication policies .* {limit}"):
        auth.set_policy(policy_object(accept=True, space="more"))
    auth.set_rule(rule_object(priority=0, accept=False))
    auth.set_policy(policy_object(accept=False, space="0"))
    assert not is_let_in(auth)


def test_the_text_of_a_rule_does_not_contain_its_secret() -> None:
    assert "sesame" not in repr(SECRET) + str(SECRET)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"secret": ""}, "secret is empty"),
        ({"priority": -1}, "priority must be from 0 to 65535"),
        ({"priority": 65536}, "priority must be from 0 to 65535"),
        ({"network": "here"}, "is not a network"),
        ({"network": "unix"}, "only connections with an address are authenticated"),
    ],
)
def test_an_invalid_rule_is_rejected(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AuthenticationRule(**fields)


def test_rules_of_the_configuration_are_replaced_and_those_of_clients_stay() -> None:
    old, new = (AuthenticationRule(network="10.0.0.0/8", secret=s) for s in ("old", "new"))
    auth = who(old)
    auth.set_rule(rule_object(accept=False, client="evil"))
    auth.set_policy(policy_object(accept=False))
    auth.renew(former=((old,), None), found=((new,), None))
    assert (is_let_in(auth, "old"), is_let_in(auth, "new")) == (False, True)
    assert len(auth._rules) == 2
    auth.renew(former=((new,), None), found=((), None))
    assert not is_let_in(auth), "the policy of a client stays"
    auth.renew(former=((), None), found=((), "accept"))
    assert is_let_in(auth)
    auth.renew(former=((), "accept"), found=((), None))
    assert is_let_in(auth)


def test_rules_that_cannot_be_used_change_nothing() -> None:
    auth = Authentication((), None, rng=None)
    auth.set_rule(rule_object(accept=False))
    with pytest.raises(LocalProtocolError):
        auth.renew(former=((), None), found=((AuthenticationRule(secret="x"),), "accept"))
    assert not is_let_in(auth)
