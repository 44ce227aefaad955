"""The streams of a node's clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.engine.connections.connections import Connections
from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

UNKNOWN = Address("nobody", 1, is_stream=True)


def test_input_of_an_unknown_stream_is_ignored(harbour: Harbour) -> None:
    connections: Connections = harbour.node._connections
    connections.receive(b"x", UNKNOWN, 0)
    connections.receive_later(b"x", UNKNOWN)
    connections.closed(UNKNOWN, 0)
    connections.note_unfinished(UNKNOWN, 5, 0)
    connections.refuse_large(UNKNOWN, 5, 0)
    connections.pause(UNKNOWN)
    connections.resume(UNKNOWN, 0)
    assert not connections.is_held(UNKNOWN)
    assert connections.received_bytes == 0
    assert not connections.take_transmits()


def test_bytes_of_all_clients_are_counted(harbour: Harbour) -> None:
    guests = [harbour.guest(), harbour.guest()]
    connections = harbour.node._connections
    clients = [harbour.node._table.by_address[guest.address] for guest in guests]
    assert connections.received_bytes == sum(client.received_bytes for client in clients) > 0


def test_a_client_with_queued_input_is_held_until_its_turn(harbour: Harbour) -> None:
    guest = harbour.guest()
    connections = harbour.node._connections
    connections.receive_later(b"", guest.address)
    assert connections.is_held(guest.address)
    assert connections.take_released() == []
    harbour.node.advance(0)
    assert connections.take_released() == [guest.address]
    assert not connections.is_held(guest.address)


def test_all_connections_end_in_order(harbour: Harbour) -> None:
    guests = [harbour.guest(), harbour.guest()]
    harbour.node._connections.end_all(0)
    harbour.pump()
    assert all(guest.is_cut and not guest.is_cut_abruptly for guest in guests)
