"""What both kinds of subscription have alike; each kind is tested with its space."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skerry.client.subscription import ON_SLOW, SubscriptionBase
from skerry.errors import LocalProtocolError
from tests.unit.client.stage import Shout, Stage


def session_of(stage: Stage) -> Any:
    return SimpleNamespace(core=stage.space(), wakers=set(), carry=stage.run)


def test_what_happens_to_the_slow_is_one_of_two() -> None:
    assert ON_SLOW == ("disconnect", "conflate")
    with pytest.raises(LocalProtocolError, match="on_slow is 'wait'"):
        SubscriptionBase(session_of(Stage()), Shout, print, on_slow="wait")  # type: ignore[arg-type]


def test_it_opens_and_ends_once() -> None:
    stage = Stage()
    session = session_of(stage)
    texts: list[str] = []
    subscription: SubscriptionBase[Any] = SubscriptionBase(
        session, Shout, lambda event: texts.append(event.object.text), on_slow="disconnect"
    )
    subscription.open()
    stage.publish(session.core, Shout(text="a"))
    subscription.end()
    subscription.end()
    stage.publish(session.core, Shout(text="b"))
    assert texts == ["a"]
    assert session.wakers == set()
