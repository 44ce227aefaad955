"""The tables of the handshake: each state can be reached and left, and has a stage."""

from __future__ import annotations

import pytest

from skerry.protocol.access.handshake import (
    CLIENT_HANDSHAKE,
    SERVER_HANDSHAKE,
    STAGES,
    ConnectionStage,
    HandshakeEvent,
    HandshakeState,
    HandshakeTable,
)

TABLES = [CLIENT_HANDSHAKE, SERVER_HANDSHAKE]


@pytest.mark.parametrize("table", TABLES)
def test_a_connection_can_be_closed_in_every_state_and_stays_closed(table: HandshakeTable) -> None:
    states = {state for state, _, _ in table.transitions}
    for state in states:
        assert table.next_state(state, HandshakeEvent.CLOSED) is HandshakeState.CLOSED
    after_the_end = [row for row in table.transitions if row[0] is HandshakeState.CLOSED]
    assert after_the_end == [
        (HandshakeState.CLOSED, HandshakeEvent.CLOSED, HandshakeState.CLOSED),
    ]


@pytest.mark.parametrize("table", TABLES)
def test_every_state_is_reached_from_the_start(table: HandshakeTable) -> None:
    reached = {table.start}
    for _ in table.transitions:
        reached |= {after for state, _, after in table.transitions if state in reached}
    named = {state for row in table.transitions for state in (row[0], row[2])}
    assert reached == named


@pytest.mark.parametrize("table", TABLES)
def test_a_stage_is_never_followed_by_an_earlier_one(table: HandshakeTable) -> None:
    for state, _, after in table.transitions:
        assert STAGES[state].value <= STAGES[after].value


def test_both_ends_have_all_stages() -> None:
    assert STAGES.keys() == set(HandshakeState)
    for table in TABLES:
        stages = {STAGES[after] for _, _, after in table.transitions} | {STAGES[table.start]}
        assert stages == set(ConnectionStage)
