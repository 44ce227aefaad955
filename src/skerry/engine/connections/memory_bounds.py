"""The memory that clients use together: past a bound, the clients that use most are disconnected.

Bounded are bytes of unfinished frames, bytes that wait to be sent, conflated objects, and objects
in filtered subscriptions (`engine.admission.shared_quotas`).
"""

from __future__ import annotations

from skerry.engine.admission.shared_quotas import Excess, Holder, Resource, SharedQuotas
from skerry.engine.clients import Client
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.delivery.backpressure import Backpressure


class MemoryBounds:
    def __init__(
        self,
        clock: InputClock,
        table: ClientTable,
        shares: SharedQuotas,
        backpressure: Backpressure,
        disconnection: Disconnection,
    ) -> None:
        self._clock = clock
        self._table = table
        self._shares = shares
        self._backpressure = backpressure
        self._disconnection = disconnection

    def check_unfinished(self, client: Client) -> None:
        """Count the bytes of a client's unfinished frame, after its input was processed."""
        wire = client.queue.wire
        # Text messages are assembled by their listener, which reports their sizes.
        if wire.version != 0 and wire.held_bytes != client.unfinished_bytes:
            self.note_unfinished(client, wire.held_bytes)

    def note_unfinished(self, client: Client, size: int) -> None:
        """Set the size of a client's unfinished frame."""
        client.unfinished_bytes = size
        if client.is_present:
            self._shares.set(client.holder, Resource.UNFINISHED, size)
            self._drop_largest(client.holder, Resource.UNFINISHED)

    def drop_overdrawn(self) -> None:
        """Enforce the bounds that were exceeded where no client could be disconnected."""
        overdrawn = self._shares.overdrawn
        while overdrawn:
            (holder, resource), _ = overdrawn.popitem()
            self._drop_largest(holder, resource)

    def check_queue(self, client: Client) -> None:
        """Disconnect a slow client whose queue exceeds its limits, or start backpressure."""
        queue = client.queue
        size = int(queue.size)
        bytes_max = client.limits.waiting_bytes_max
        # A single object or message may always be queued, whatever its size.
        is_over = size > bytes_max and (queue.waiting_count > 1 or queue.message_bytes > bytes_max)
        if is_over or client.slots.is_full or queue.is_flooded:
            self._cut_slow(client)
            return
        shares = self._shares
        shares.set(client.holder, Resource.WAITING, size)
        shares.set(client.holder, Resource.CONFLATED, len(client.slots))
        self._backpressure.fell_behind(client, size, self._clock.now_ns)
        for resource in (Resource.WAITING, Resource.CONFLATED):
            excess = shares.excess(client.holder, resource)
            while excess is not None:
                slowest = self._largest_user(excess, resource)
                self._cut_slow(slowest, f", and {excess.error}")
                excess = shares.excess(client.holder, resource)

    def _drop_largest(self, holder: Holder, resource: Resource) -> None:
        """Disconnect the clients that use most until the use is within the bounds again."""
        excess = self._shares.excess(holder, resource)
        while excess is not None:
            largest = self._largest_user(excess, resource)
            self._disconnection.drop(
                largest, self._clock.now_ns, str(excess.error), reason="too much"
            )
            excess = self._shares.excess(holder, resource)

    def _largest_user(self, excess: Excess, resource: Resource) -> Client:
        """The client to disconnect for a bound, of an address or of all untrusted clients.

        It is the client that uses most; among equals, the one that connected first.
        """
        users = [client for client in self._table.by_id.values() if client.holder.used[resource]]
        if excess.address:
            users = [client for client in users if client.holder.address == excess.address]
        else:
            users = [client for client in users if not client.holder.is_trusted] or users
        return max(users, key=lambda client: (client.holder.used[resource], -client.client_id))

    def _cut_slow(self, client: Client, more: str = "") -> None:
        detail = f"{int(client.queue.size)} bytes and {len(client.slots)} objects waited for it"
        self._disconnection.cut(client, "slow", detail + more)
