"""The table of connected clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.engine.admission.origins import Origin
from skerry.engine.connections.client_table import ClientTable

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


def test_a_client_is_found_by_address_and_id_until_it_is_removed(harbour: Harbour) -> None:
    client = harbour.node._table.by_address[harbour.guest().address]
    table = ClientTable()
    table.add(client)
    assert table.by_address == {client.address: client}
    assert table.by_id == {client.client_id: client}
    table.remove(client)
    assert not table.by_address
    assert not table.by_id
    assert not table.pending


def test_only_the_first_handshake_of_a_client_counts(harbour: Harbour) -> None:
    origin = Origin(kind="tcp", host="10.0.0.1")
    client = harbour.node._table.by_address[harbour.stranger(origin=origin).address]
    table = ClientTable()
    table.add(client)
    assert list(table.pending.values()) == [client]
    assert table.closable.waiting() == [client]
    assert table.handshake_received(client)
    assert not table.handshake_received(client)
    assert not table.pending
    assert not table.closable.waiting()


def test_a_trusted_connection_is_not_closed_to_make_room(harbour: Harbour) -> None:
    client = harbour.node._table.by_address[harbour.stranger().address]
    table = ClientTable()
    table.add(client)
    assert not table.closable.waiting()


def test_a_table_is_unused_before_the_first_and_after_the_last_client(harbour: Harbour) -> None:
    table = harbour.node._table
    found = [table.is_unused]
    harbour.guest()
    found.append(table.is_unused)
    harbour.node._connections.end_all(0)
    assert [*found, table.is_unused] == [True, False, True]


def test_types_that_a_client_published_are_known_while_it_is_connected(harbour: Harbour) -> None:
    guest = harbour.guest()
    table = harbour.node._table
    table.by_id[guest.client_id].queue.source.note_published("Boat")
    assert table.has_published(guest.client_id, "Boat")
    assert not table.has_published(guest.client_id, "Car")
    assert not table.has_published(99, "Boat")
