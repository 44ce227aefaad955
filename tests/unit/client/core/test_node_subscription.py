"""A subscription at the node: what it is for, and as long as what it is used."""

from __future__ import annotations

from skerry.client.core.node_subscription import (
    NodeSubscription,
    refuse,
)
from skerry.client.core.type_route import Target, TypeRoute
from tests.unit.client.core.test_update_intake import shape_of
from tests.unit.client.stage import Shout


def test_subscription_is_used_by_subscribers_and_holders() -> None:
    subscription = NodeSubscription("Vessel")
    used = [subscription.is_used]
    subscription.holder_count += 1
    used.append(subscription.is_used)
    subscription.holder_count -= 1
    subscription.targets[Target(print, None)] = None
    used.append(subscription.is_used)
    assert used == [False, True, True]


def test_pattern_and_unknown_type_may_have_a_cache_replay() -> None:
    assert NodeSubscription("/Vessel/*").is_pattern
    assert NodeSubscription("/Vessel/*").is_cached
    message = NodeSubscription("Shout")
    message.route = TypeRoute(shape_of(Shout), False)
    assert not message.is_cached


def test_refusal_names_the_type_and_a_remedy() -> None:
    for user in ("a condition", "a container"):
        error = refuse(user, "Foo")
        assert f"{user} needs a type, and Foo is not a known type" in str(error)
        assert error.hint is not None
