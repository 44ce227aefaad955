"""The connection states of a space."""

from __future__ import annotations

from skerry.client.core.states import Refusal, SpaceState, StateChanged, next_states


def test_closed_is_final_and_follows_any_state() -> None:
    assert next_states(SpaceState.CLOSED) == ()
    for state in (SpaceState.CONNECTING, SpaceState.CONNECTED, SpaceState.DISCONNECTED):
        assert SpaceState.CLOSED in next_states(state)


def test_connecting_is_only_the_first_state() -> None:
    assert not any(SpaceState.CONNECTING in next_states(state) for state in SpaceState)


def test_events_have_readable_texts() -> None:
    assert str(StateChanged(state=SpaceState.CONNECTED)) == "connected"
    assert str(StateChanged(state=SpaceState.CLOSED, reason="why")) == "closed: why"
    assert str(Refusal(what="publish", reason="no")) == "publish: no"
