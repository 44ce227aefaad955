"""The queue of clients that wait for a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skerry.engine.clients import Client, do_at_once
from skerry.engine.connections.turn_queue import TurnQueue

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


@pytest.fixture
def client(harbour: Harbour) -> Client:
    return harbour.node._table.by_address[harbour.guest().address]


def test_a_client_without_anything_to_do_has_no_turn(client: Client) -> None:
    turns = TurnQueue()
    turns.schedule(client)
    assert not turns


def test_a_client_with_a_task_waits_for_a_turn(client: Client) -> None:
    turns = TurnQueue()
    client.agenda.append(do_at_once(lambda _: None))
    turns.schedule(client)
    assert list(turns.busy.values()) == [client]
    client.agenda.clear()
    turns.schedule(client)
    assert not turns


@pytest.mark.parametrize("blocked_by", ["pause", "review"])
def test_tasks_wait_while_a_client_is_paused_or_under_review(
    client: Client, blocked_by: str
) -> None:
    turns = TurnQueue()
    client.agenda.append(do_at_once(lambda _: None))
    if blocked_by == "pause":
        client.queue.is_paused = True
    else:
        client.is_under_review = True
    turns.schedule(client)
    assert not turns
    client.input.is_held = True
    turns.schedule(client)
    assert turns, "input is processed all the same"


def test_a_disconnected_client_has_no_turn(client: Client) -> None:
    turns = TurnQueue()
    client.input.is_held = True
    turns.schedule(client)
    turns.schedule_fresh(client)
    assert turns.fresh
    assert turns.busy
    turns.remove(client)
    assert not turns
    client.is_present = False
    turns.schedule(client)
    assert not turns
