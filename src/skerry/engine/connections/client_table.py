"""The clients that are connected to a node."""

from __future__ import annotations

from typing import Final

from skerry.engine.admission.pending_connections import PendingConnections
from skerry.engine.clients import Client
from skerry.protocol.machine import Address

_FIRST_CLIENT_ID: Final = 2
"""Id 0 is not used, and id 1 is the node itself."""


class ClientTable:
    """Connected clients, by address and by id, and those that have not completed a handshake."""

    def __init__(self) -> None:
        self.by_address: dict[Address, Client] = {}
        self.by_id: dict[int, Client] = {}
        self.next_id = _FIRST_CLIENT_ID
        """The id of the next client. An id is not used again."""
        self.pending: dict[int, Client] = {}
        """Clients without a handshake, by id, the one that connected first at the front."""
        self.closable: PendingConnections[Client] = PendingConnections()
        """Those of them that may be closed to make room for other connections."""

    @property
    def is_unused(self) -> bool:
        """Whether no client has connected yet, or none is connected."""
        return self.next_id == _FIRST_CLIENT_ID or not self.by_address

    def add(self, client: Client) -> None:
        """Add a client that connected and has not completed its handshake."""
        if not client.origin.is_trusted:
            self.closable.add(client, client.origin.share)
        self.by_address[client.address] = client
        self.by_id[client.client_id] = client
        self.pending[client.client_id] = client

    def handshake_received(self, client: Client) -> bool:
        """Note the handshake of a client; returns False if there was one before."""
        self.closable.remove(client, client.origin.share)
        return self.pending.pop(client.client_id, None) is not None

    def remove(self, client: Client) -> None:
        self.closable.remove(client, client.origin.share)
        self.pending.pop(client.client_id, None)
        self.by_id.pop(client.client_id, None)
        del self.by_address[client.address]

    def has_published(self, client_id: int, type_name: str) -> bool:
        """Whether a connected client has published objects of a type."""
        client = self.by_id.get(client_id)
        return client is not None and type_name in client.queue.source.published
