"""The parts that both kinds of subscriptions share; each kind is tested with its space."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from skerry.client.api.subscription import (
    ON_SLOW,
    Inbox,
    SubscriptionBase,
    SubscriptionState,
    check_callback,
)
from skerry.client.core.event_queue import EventQueue
from skerry.errors import LocalProtocolError, SlowConsumer
from tests.unit.client.stage import Shout, Stage, Vessel


class Loop:
    """Keeps scheduled calls until `turn`."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.is_closed = False

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        if self.is_closed:
            raise RuntimeError("Event loop is closed")
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def session_of(stage: Stage, **config: Any) -> Any:
    core = stage.space(**config)
    return SimpleNamespace(
        core=core,
        connection=core.connection,
        wakers=set(),
        write_output=stage.run,
        loop=Loop(),
    )


def test_on_slow_has_two_values() -> None:
    assert ON_SLOW == ("disconnect", "conflate")
    with pytest.raises(LocalProtocolError, match="on_slow is 'wait'"):
        SubscriptionBase(session_of(Stage()), Shout, print, on_slow="wait")  # type: ignore[arg-type]


def test_subscription_opens_and_ends_once() -> None:
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


def target_count(session: Any) -> int:
    return sum(len(route.targets) for route in session.core.intake.routes.values())


def test_subscription_without_references_is_ended_by_the_loop() -> None:
    stage = Stage()
    session = session_of(stage)
    subscription: SubscriptionBase[Any] = SubscriptionBase(
        session, Shout, None, on_slow="disconnect"
    )
    subscription.open()
    assert (target_count(session), len(session.wakers)) == (1, 1)
    del subscription
    assert target_count(session) == 1, "that is for the loop to do, whose thread may be another"
    session.loop.turn()
    assert (target_count(session), len(session.wakers)) == (0, 0)


def test_subscription_with_a_callback_needs_no_reference() -> None:
    stage = Stage()
    session = session_of(stage)
    texts: list[str] = []
    SubscriptionBase[Any](
        session, Shout, lambda event: texts.append(event.object.text), on_slow="disconnect"
    ).open()
    gc.collect()
    session.loop.turn()
    stage.publish(session.core, Shout(text="a"))
    assert texts == ["a"]


def test_ended_subscription_has_nothing_to_end() -> None:
    stage = Stage()
    session = session_of(stage)
    for is_over in (False, True):
        subscription: SubscriptionBase[Any] = SubscriptionBase(
            session, Shout, None, on_slow="disconnect"
        )
        subscription.open()
        if is_over:
            session.core.close(stage.now_ns)
        else:
            subscription.end()
        del subscription
        assert session.loop.calls == []


def test_closed_loop_has_nothing_to_end() -> None:
    stage = Stage()
    session = session_of(stage)
    subscription: SubscriptionBase[Any] = SubscriptionBase(
        session, Shout, None, on_slow="disconnect"
    )
    subscription.open()
    session.loop.is_closed = True
    # An error here would be a warning, and those are errors.
    del subscription
    gc.collect()


@pytest.mark.parametrize("is_late", [False, True])
def test_slow_subscription_is_ended(is_late: bool) -> None:
    stage = Stage()
    session = session_of(stage, queue_count_max=2)
    vessels = [Vessel(mmsi=number) for number in range(3)]
    subscription: SubscriptionBase[Any] = SubscriptionBase(
        session, Vessel, None, on_slow="disconnect"
    )
    if is_late:
        # Too much is here already when it is opened.
        session.core.hold(Vessel, stage.now_ns)
        stage.publish(session.core, *vessels)
        subscription.open()
    else:
        subscription.open()
        stage.publish(session.core, *vessels)
    assert target_count(session) == 1
    session.loop.turn()
    assert target_count(session) == 0
    assert [subscription._next().object.mmsi for _ in range(2)] == [0, 1]  # type: ignore[union-attr]
    with pytest.raises(SlowConsumer):
        subscription._next()


class Async:
    async def __call__(self, _event: object) -> None:
        """Never called."""

    async def method(self, _event: object) -> None:
        """Never called."""


@pytest.mark.parametrize(
    "callback", [Async(), Async().method, partial(Async().method)], ids=["object", "method", "part"]
)
def test_callback_is_not_awaited(callback: Any) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be `async`") as caught:
        check_callback(callback)
    assert caught.value.hint == "iterate with `async for`, or start a task in an ordinary function"


@pytest.mark.parametrize("callback", [print, [].append, partial(print), str, Async], ids=range(5))
def test_any_callable_is_a_callback(callback: Any) -> None:
    check_callback(callback)


def test_inbox_receives_events_while_the_subscription_is_open() -> None:
    stage = Stage()
    session = session_of(stage)
    inbox: Inbox[Any] = Inbox(EventQueue(count_max=10, on_slow="disconnect"))
    state = SubscriptionState(session, "disconnect")
    state.opened(session.core.subscribe(Shout, inbox.put, stage.now_ns), inbox.wake)
    is_open = [state.is_open]
    assert session.wakers == {inbox.wake}
    stage.publish(session.core, Shout(text="a"))
    state.end()
    state.end()
    is_open.append(state.is_open)
    assert is_open == [True, False]
    assert session.wakers == set()
    stage.publish(session.core, Shout(text="b"))
    first = inbox.queue.get()
    assert first is not None
    assert first.object.text == "a"
    assert inbox.queue.get() is None


def test_subscription_beside_a_container_shares_its_objects() -> None:
    stage = Stage()
    session = session_of(stage)
    subscription, shape = session.core.hold(Vessel, stage.now_ns)
    stage.publish(session.core, Vessel(mmsi=1))
    inbox: Inbox[Any] = Inbox(EventQueue(count_max=10, on_slow="disconnect"))
    state = SubscriptionState(session, "disconnect")
    target = session.core.subscribe_beside(
        subscription, inbox.put, shape, stage.now_ns, on_slow="disconnect"
    )
    state.opened((subscription, target), inbox.wake)
    state.end_soon()
    is_open = [state.is_open]
    session.loop.turn()
    is_open.append(state.is_open)
    assert is_open == [True, False], "it is for the loop to do"
    assert subscription.is_used
    assert len(inbox.queue) == 1
