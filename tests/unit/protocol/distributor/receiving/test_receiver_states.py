"""The table of a receiver: every state is reached, and unsubscribing leads back to the start."""

from __future__ import annotations

from skerry.protocol.distributor.receiving.receiver_states import (
    RECEIVER_TRANSITIONS,
    ReceiverEvent,
    ReceiverState,
)


def test_every_state_is_reached_from_the_start() -> None:
    reached = {RECEIVER_TRANSITIONS.start}
    for _ in ReceiverState:
        reached |= {
            after for state, _, after in RECEIVER_TRANSITIONS.transitions if state in reached
        }
    assert reached == set(ReceiverState)


def test_without_subscriptions_a_receiver_is_as_at_the_start() -> None:
    for state in ReceiverState:
        after = RECEIVER_TRANSITIONS.next_state(state, ReceiverEvent.UNSUBSCRIBED)
        assert after is RECEIVER_TRANSITIONS.start


def test_every_event_is_possible_in_some_state() -> None:
    assert {event for _, event, _ in RECEIVER_TRANSITIONS.transitions} == set(ReceiverEvent)
