"""Handshakes: accepts and rejects connections.

A connection is accepted in two steps. When it is opened, there must be room for it and for its
address. After its DotsMsgConnect, the authentication rules must accept it, at once or after a delay
if its address sent wrong secrets before (`engine.admission.secret_delays`).
"""

from __future__ import annotations

from typing import Final

from skerry.engine.admission.admission import Admission
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.secret_delays import SecretDelays
from skerry.engine.admission.shared_quotas import Holder
from skerry.engine.clients import Client
from skerry.engine.connections.client_output import ClientOutput
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.events import ClientConnected, ConnectionRejected, NodeEvents
from skerry.engine.services.status_objects import StatusObjects
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.server import ConnectAsked, ServerConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.machine import Address

_SUBJECTS: Final = 1
_ORIGIN: Final = 2
"""Bits of `extensions` in a DotsMsgConnect."""


class Handshakes:
    def __init__(
        self,
        *,
        node_name: str,
        clock: InputClock,
        table: ClientTable,
        cache: Cache,
        listed: list[ClientQueue],
        output: ClientOutput,
        events: NodeEvents,
        admission: Admission,
        status_objects: StatusObjects,
        disconnection: Disconnection,
    ) -> None:
        self._node_name = node_name
        self._clock = clock
        self._table = table
        self._cache = cache
        self._listed = listed
        self._output = output
        self._events = events
        self._admission = admission
        self._status_objects = status_objects
        self._disconnection = disconnection
        self._delays = SecretDelays()

    def open(
        self, peer: Address, wire: Wire, origin: Origin, now_ns: int, *, has_extensions: bool
    ) -> None:
        """Greet a new connection, or reject it if there is no room for it."""
        why = self._admission.arriving(origin)
        if why is not None and self._close_pending(origin):
            why = self._admission.arriving(origin)
        if why is not None:
            self._reject_without_room(peer, wire, origin, why, has_extensions=has_extensions)
            return
        client = self._new_client(peer, wire, origin, now_ns)
        client.has_extensions = has_extensions
        self._table.add(client)
        self._status_objects.publish_state(client, now_ns)
        self._status_objects.note_activity(now_ns)
        client.connection.greet(
            self._node_name,
            self._clock.wall_s(now_ns),
            challenge=client.nonce,
            extensions=has_extensions,
        )

    def connect_received(self, client: Client, asked: ConnectAsked, now_ns: int) -> None:
        """Accept or reject a client after its DotsMsgConnect, or delay the check of its secret."""
        if not self._table.handshake_received(client):
            self._disconnection.drop(client, now_ns, "DotsMsgConnect: it came twice")
        elif client.nonce is None or not self._delays.must_wait(client.origin, now_ns):
            self._decide(client, asked, now_ns)
        elif not self._delays.wait(client, asked):
            why = "too many clients of this address wait after wrong secrets"
            self._reject(client, asked, now_ns, why, is_reason_sent=True)

    def finish_preload(self, client: Client) -> None:
        """Complete the handshake: all objects that the client joined early are queued."""
        # The state is published before the end of the preload, since the client's own DotsClient
        # may be among the objects that it joined early.
        client.connection.set_connected()
        self._status_objects.publish_state(client, self._clock.now_ns)
        client.connection.finish_preload(self._clock.wall_s(self._clock.now_ns))

    def advance(self, now_ns: int) -> None:
        """Check the secrets that are due, and close connections that sent no handshake in time."""
        for client, asked in self._delays.take_due(now_ns):
            self._decide(client, asked, now_ns)
        for client in list(self._table.pending.values()):
            if now_ns < _due_ns(client):
                return
            self._disconnection.drop(client, now_ns, "it did not introduce itself", reason="silent")

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        due_ns = self._delays.deadline_ns()
        if self._table.pending:
            first = next(iter(self._table.pending.values()))
            due_ns = earliest(due_ns, _due_ns(first))
        return due_ns

    def _new_client(self, peer: Address, wire: Wire, origin: Origin, now_ns: int) -> Client:
        limits = self._admission.limits
        queue = ClientQueue(self._table.next_id, wire, self._listed)
        self._table.next_id += 1
        queue.source.object_count_max = limits.object_count_max
        queue.source.object_bytes_max = limits.object_bytes_max
        queue.source.update_bytes_max = limits.update_bytes_max
        connection = ServerConnection(wire, client_id=int(queue.client_id), outgoing=queue)
        client = Client(peer, connection, queue, origin=origin, limits=limits, opened_ns=now_ns)
        client.limit_frames()
        client.nonce = self._admission.authentication.challenge(origin)
        client.address_usage = self._admission.address_usage(origin)
        client.holder = Holder(origin.share, is_trusted=origin.is_trusted)
        if client.address_usage is not None:
            self._cache.quotas.set_address(client.client_id, client.address_usage.address)
        return client

    def _decide(self, client: Client, asked: ConnectAsked, now_ns: int) -> None:
        """Accept or reject a client by the authentication rules."""
        if not self._admission.authentication.verdict(
            client.origin,
            name=asked.name,
            nonce=client.nonce,
            response=asked.response,
            cnonce=asked.cnonce,
        ):
            why = "by the authentication rules"
            if client.nonce is not None:
                why = self._delays.failed(client.origin, now_ns)
            self._reject(client, asked, now_ns, why)
            return
        if not client.holder.is_trusted:
            client.holder.is_trusted = self._admission.authentication.is_proven(
                client.origin,
                name=asked.name,
                nonce=client.nonce,
                response=asked.response,
                cnonce=asked.cnonce,
            )
        if client.holder.is_trusted:
            self._cache.quotas.trusted.add(client.client_id)
        if self._has_room(client, asked, now_ns):
            self._accept(client, asked, now_ns)

    def _accept(self, client: Client, asked: ConnectAsked, now_ns: int) -> None:
        client.accept(self._admission.rights(client.origin, asked.name))
        if client.limits.is_measured:
            client.meter = self._admission.meter(client.origin)
        if client.has_extensions:
            client.queue.has_subjects = bool(asked.extensions & _SUBJECTS)
            client.queue.source.has_subjects = client.queue.has_subjects
            client.queue.has_origin = bool(asked.extensions & _ORIGIN)
        has_additions = bool(client.queue.has_subjects)
        client.connection.accept(asked, self._clock.wall_s(now_ns), has_additions=has_additions)
        self._status_objects.publish_state(client, now_ns)
        self._events.report(
            ClientConnected(client_id=client.client_id, name=client.name, origin=str(client.origin))
        )

    def _has_room(self, client: Client, asked: ConnectAsked, now_ns: int) -> bool:
        """Whether there is room for a client that is about to be accepted; if not, reject it."""
        is_trusted = client.holder.is_trusted
        why = self._admission.settling(is_trusted=is_trusted)
        while why is not None and self._close_pending(client.origin):
            why = self._admission.settling(is_trusted=is_trusted)
        if why is None:
            return True
        self._reject(client, asked, now_ns, why, is_reason_sent=True)
        return False

    def _close_pending(self, origin: Origin) -> bool:
        """Close the oldest connection without a handshake, to make room for another one.

        It is one of the same address if that has too many, else one of the address with the most.
        """
        is_full = self._admission.is_address_full(origin)
        pending = self._table.closable.remove_oldest(origin.share if is_full else None)
        if pending is None:
            return False
        now_ns = self._clock.now_ns
        why = "closed before its handshake, to make room for another connection"
        pending.connection.reject_without_room(self._clock.wall_s(now_ns))
        self._disconnection.end(pending, now_ns, code=0, text="", reason="silent", detail=why)
        return True

    def _reject_without_room(
        self, peer: Address, wire: Wire, origin: Origin, why: str, *, has_extensions: bool
    ) -> None:
        """Reject a connection for which there is no room; no state is kept for it."""
        now_s = self._clock.wall_s(self._clock.now_ns)
        connection = ServerConnection(wire, client_id=0)
        connection.greet(self._node_name, now_s, extensions=has_extensions)
        connection.reject_without_room(now_s)
        data = connection.take_output()
        if isinstance(wire, JsonNodeWire):
            data = wire.text(data)
        self._disconnection.ends["refused at the door"] += 1
        self._events.report(ConnectionRejected(host=origin.host, reason=why))
        self._output.send_bytes(peer, data)
        self._output.disconnect(peer)

    def _reject(
        self,
        client: Client,
        asked: ConnectAsked,
        now_ns: int,
        why: str,
        *,
        is_reason_sent: bool = False,
    ) -> None:
        """End the connection of a client that is not accepted.

        The reason is logged. With `is_reason_sent` it is also sent to a client that knows our
        additions, which may then retry.
        """
        if is_reason_sent and client.has_extensions and asked.extensions & _SUBJECTS:
            client.connection.reject_without_room(self._clock.wall_s(now_ns), reason=why)
        else:
            client.connection.reject(asked, self._clock.wall_s(now_ns))
        self._disconnection.end(client, now_ns, code=0, text="", reason="rejected", detail=why)


def _due_ns(client: Client) -> int:
    """When a connection is closed if its handshake was not received by then."""
    return client.opened_ns + int(client.limits.handshake_s * 1e9)
