"""Refuses what clients may not do, and ends their connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

from skerry.engine.admission.admission import Admission
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.clients import Client, Input
from skerry.engine.connections.client_output import ClientOutput
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.turn_queue import TurnQueue
from skerry.engine.delivery.backpressure import Backpressure
from skerry.engine.events import ClientDisconnected, ClientRefused, NodeEvents
from skerry.engine.services.client_cleanup import ClientCleanup
from skerry.engine.services.status_objects import StatusObjects
from skerry.limits import JSON_STEP_BYTES, ROUND_WORK_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.json.writing import JsonNodeWire


class Disconnection:
    def __init__(
        self,
        *,
        clock: InputClock,
        table: ClientTable,
        turns: TurnQueue,
        output: ClientOutput,
        events: NodeEvents,
        backpressure: Backpressure,
        admission: Admission,
        shares: SharedQuotas,
        status_objects: StatusObjects,
        cleanup: ClientCleanup,
    ) -> None:
        self.ends: Counter[str] = Counter()
        """Connections that ended, by reason."""
        self.refusals: Counter[str] = Counter()
        """Refused requests, by the verb of the request."""
        self._clock = clock
        self._table = table
        self._turns = turns
        self._output = output
        self._events = events
        self._backpressure = backpressure
        self._admission = admission
        self._shares = shares
        self._status_objects = status_objects
        self._cleanup = cleanup

    def refuse(
        self, client: Client, what: str, reason: str, now_ns: int, *, join: Any = None
    ) -> None:
        """Refuse a request: send a SkerryRefusal, or disconnect a client that cannot read one.

        `join` is the DotsMember that is refused, if it is one: the client waits for its answer.
        """
        self.count_refusal(client, what, reason)
        if client.queue.has_subjects:
            refusal = internal_class("SkerryRefusal")(what=what, reason=reason)
            if join is not None:
                refusal.groupName = join.groupName
                refusal.subscriptionId = join.subscriptionId
            client.connection.send_message(refusal, self._clock.wall_s(now_ns))
        else:
            self.drop(client, now_ns, f"{what}: {reason}", reason="refused")

    def refuse_large(self, client: Client, name: str, size: int, now_ns: int) -> None:
        """Refuse a frame of a client that is above its limit and was skipped."""
        why = client.large_refusal(name, size)
        if client.rights is None:
            self.drop(client, now_ns, why, reason="too much")
        else:
            self.refuse(client, "publish", why, now_ns)

    def count_refusal(self, client: Client, what: str, reason: str) -> None:
        """Count and report a refusal that the client receives as the answer to its request."""
        self.refusals[what] += 1
        client.refused_count += 1
        self._events.report(
            ClientRefused(
                client_id=client.client_id,
                name=client.name,
                what=what,
                detail=reason,
                host=client.origin.host,
            )
        )

    def drop(self, client: Client, now_ns: int, why: str, *, reason: str = "fault") -> None:
        """End a connection with an error, which is sent to the client as a DotsMsgError."""
        self.end(client, now_ns, code=1, text=why, reason=reason)

    def drop_if_unsendable(self, client: Client) -> None:
        """End the connection of a client to which an object could not be written."""
        wire = client.queue.wire
        if wire.unsendable:
            why, wire.unsendable = wire.unsendable, ""
            self.drop(client, self._clock.now_ns, why)

    def goodbye_received(self, client: Client, now_ns: int) -> None:
        """End the connection of a client that said goodbye; no answer is sent."""
        client.connection.close()
        self.end(client, now_ns, code=0, text="", reason="goodbye")

    def end(
        self,
        client: Client,
        now_ns: int,
        *,
        code: int,
        text: str,
        reason: str = "goodbye",
        detail: str = "",
    ) -> None:
        """End a connection in order: send what is queued and a last message, then close it."""
        queue = client.queue
        is_json = isinstance(queue.wire, JsonNodeWire)
        if client.writing is not None or (is_json and queue.size > JSON_STEP_BYTES):
            # All of it would have to be written at once.
            client.writing = None
            queue.expire()
        client.connection.end(self._clock.wall_s(now_ns), code=code, text=text)
        if queue.size:
            # Without a bound for the work, as the client has no later turn.
            self._output.flush(client, max(int(queue.size), 1) * ROUND_WORK_MAX)
        self._output.disconnect(client.address)
        self.forget(client, now_ns, reason, detail or text)

    def cut(self, client: Client, reason: str, detail: str) -> None:
        """Close a connection at once, without sending what is queued."""
        self.forget(client, self._clock.now_ns, reason, detail)
        self._output.disconnect(client.address, is_abrupt=True)

    def forget(self, client: Client, now_ns: int, reason: str, detail: str = "") -> None:
        """Remove a client whose connection is over, and begin to clean up after it."""
        self.ends[reason] += 1
        self._events.report(
            ClientDisconnected(
                client_id=client.client_id,
                name=client.name,
                reason=reason,
                detail=detail,
                host=client.origin.host,
            )
        )
        client.is_present = False
        client.input = Input()
        client.writing = None
        self._backpressure.forget(client)
        client.connection.close()
        self._status_objects.publish_state(client, now_ns)
        # Updates that are still delivered to it expire at once.
        client.queue.is_paused = False
        client.queue.expire()
        client.agenda.clear()
        self._turns.remove(client)
        self._table.remove(client)
        self._admission.left(client.origin)
        self._shares.release_memory(client.holder)
        self._status_objects.note_activity(now_ns)
        self._cleanup.begin(client)
