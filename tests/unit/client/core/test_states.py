"""How a space stands with its node."""

from __future__ import annotations

from skerry.client.core.states import Refusal, SpaceState, StateChanged, next_states


def test_closed_is_for_good_and_can_come_from_everywhere() -> None:
    assert next_states(SpaceState.CLOSED) == ()
    for state in (SpaceState.CONNECTING, SpaceState.CONNECTED, SpaceState.DISCONNECTED):
        assert SpaceState.CLOSED in next_states(state)


def test_nobody_connects_for_the_first_time_twice() -> None:
    assert not any(SpaceState.CONNECTING in next_states(state) for state in SpaceState)


def test_they_read_well() -> None:
    assert str(StateChanged(state=SpaceState.CONNECTED)) == "connected"
    assert str(StateChanged(state=SpaceState.CLOSED, reason="why")) == "closed: why"
    assert str(Refusal(what="publish", reason="no")) == "publish: no"
