"""The client connections of a node: creates the parts of this package and passes input to them."""

from __future__ import annotations

from skerry.engine.admission.admission import Admission
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.connections.client_output import ClientOutput
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.client_turns import ClientTurns
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.handshakes import Handshakes
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.memory_bounds import MemoryBounds
from skerry.engine.connections.output_batches import OutputBatches
from skerry.engine.connections.turn_queue import TurnQueue
from skerry.engine.delivery.backpressure import Backpressure
from skerry.engine.delivery.bulk_removal import BulkRemovals
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.frame_intake import FrameIntake
from skerry.engine.events import NodeEvents
from skerry.engine.services.client_cleanup import ClientCleanup
from skerry.engine.services.node_services import NodeServices
from skerry.engine.services.status_objects import StatusObjects
from skerry.engine.types.type_table import TypeTable
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.machine import Address, Transmit


class Connections:
    def __init__(
        self,
        *,
        node_name: str,
        batch_delay_ns: int,
        clock: InputClock,
        table: ClientTable,
        events: NodeEvents,
        admission: Admission,
        shares: SharedQuotas,
        dispatcher: Dispatcher,
        types: TypeTable,
        services: NodeServices,
        status_objects: StatusObjects,
        cleanup: ClientCleanup,
        bulk_removals: BulkRemovals,
    ) -> None:
        self.received_bytes = 0
        self.clock = clock
        self.clients = table.by_address
        self._shares = shares
        self._status_objects = status_objects
        self._cleanup = cleanup
        self._bulk_removals = bulk_removals
        self.backpressure = Backpressure(admission.limits.backpressure_s_max)
        self.turn_queue = TurnQueue()
        self.output = ClientOutput(clock, self.turn_queue, self.backpressure)
        self.disconnection = Disconnection(
            clock=clock,
            table=table,
            turns=self.turn_queue,
            output=self.output,
            events=events,
            backpressure=self.backpressure,
            admission=admission,
            shares=shares,
            status_objects=status_objects,
            cleanup=cleanup,
        )
        self._handshakes = Handshakes(
            node_name=node_name,
            clock=clock,
            table=table,
            cache=dispatcher.cache,
            listed=dispatcher.listed,
            output=self.output,
            events=events,
            admission=admission,
            status_objects=status_objects,
            disconnection=self.disconnection,
        )
        self.intake = FrameIntake(
            clock, dispatcher, types, services, self._handshakes, self.disconnection
        )
        self._memory = MemoryBounds(clock, table, shares, self.backpressure, self.disconnection)
        self.turns = ClientTurns(
            clock,
            self.turn_queue,
            self.intake,
            self.output,
            shares,
            self._memory,
            self.backpressure,
            self.disconnection,
        )
        self.batches = OutputBatches(
            dispatcher.listed,
            clock,
            table,
            self.output,
            self._memory,
            self.disconnection,
            delay_ns=batch_delay_ns,
        )

    def open(
        self, peer: Address, wire: Wire, origin: Origin, now_ns: int, *, has_extensions: bool
    ) -> None:
        """Open a connection with the framing of its listener."""
        self.clock.set(now_ns)
        self._handshakes.open(peer, wire, origin, now_ns, has_extensions=has_extensions)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process bytes from a client as far as its turn allows; the rest is queued."""
        client = self.clients.get(source)
        if client is None:
            return
        self.clock.set(now_ns)
        self._status_objects.note_activity(now_ns)
        client.received_bytes += len(data)
        self.received_bytes += len(data)
        if client.connection.is_over:
            return
        client.queue.begin_turn()
        self._bulk_removals.begin_turn()
        self._cleanup.begin_turn()
        if self.backpressure.is_active:
            self.backpressure.begin()
            self.intake.process(client, data, now_ns)
            self.backpressure.end(client)
        else:
            self.intake.process(client, data, now_ns)
        self._memory.check_unfinished(client)
        if client.input.is_held:
            self.turn_queue.schedule(client)

    def receive_later(self, data: bytes, source: Address) -> None:
        """Queue bytes from a client; they are processed in the client's next turn."""
        client = self.clients.get(source)
        if client is None or client.connection.is_over:
            return
        client.received_bytes += len(data)
        self.received_bytes += len(data)
        client.input.data.append(data)
        if not client.input.is_held:
            client.input.is_held = True
            self.turn_queue.schedule_fresh(client)

    def is_held(self, peer: Address) -> bool:
        """Whether the driver must not read more from a client."""
        client = self.clients.get(peer)
        if client is None:
            return False
        return client.input.is_held or self.backpressure.is_held(client)

    def take_released(self) -> list[Address]:
        """Return the clients from which the driver should read again."""
        released, more = self.turns.released, self.backpressure.released
        if not released and not more:
            return []
        # A client may wait for both reasons, and may already wait again.
        found = dict.fromkeys([*released, *more])
        released.clear()
        more.clear()
        return [address for address in found if not self.is_held(address)]

    def closed(self, peer: Address, now_ns: int) -> None:
        """Remove a client whose stream closed, after its queued input is processed."""
        self.clock.set(now_ns)
        client = self.clients.get(peer)
        if client is None:
            return
        if client.input.is_held:
            client.input.is_last = True
        else:
            self.disconnection.forget(client, now_ns, "lost")

    def note_unfinished(self, peer: Address, size: int, now_ns: int) -> None:
        """Count the bytes of an incomplete message that the client's listener buffers."""
        client = self.clients.get(peer)
        if client is not None:
            self.clock.set(now_ns)
            self._memory.note_unfinished(client, size)

    def refuse_large(self, peer: Address, size: int, now_ns: int) -> None:
        """Refuse a message above the client's limit, which its listener skips."""
        client = self.clients.get(peer)
        if client is not None:
            self.clock.set(now_ns)
            self.disconnection.refuse_large(client, "", size, now_ns)

    def pause(self, peer: Address) -> None:
        """Stop sending to a client whose transport is full; what follows is queued."""
        client = self.clients.get(peer)
        if client is not None:
            client.is_full = client.queue.is_paused = True
            self.turn_queue.schedule(client)

    def resume(self, peer: Address, now_ns: int) -> None:
        """Resume sending to a client whose transport accepts data again."""
        client = self.clients.get(peer)
        if client is None:
            return
        self.clock.set(now_ns)
        client.is_full = False
        client.queue.begin_turn()
        if client.writing is not None:
            self.turn_queue.schedule(client)
        else:
            self.output.unpause(client)
            self.turns.run_tasks(client, now_ns)

    def advance(self, now_ns: int) -> None:
        """Check the secrets of handshakes that are due, and time out handshakes."""
        self._handshakes.advance(now_ns)

    def deadline_ns(self) -> int | None:
        """The next deadline of a handshake or of backpressure."""
        return earliest(self._handshakes.deadline_ns(), self.backpressure.deadline_ns())

    def take_transmits(self) -> list[Transmit]:
        """Return what is to be sent: the queues that have something new, and closed streams."""
        if self._shares.overdrawn:
            self._memory.drop_overdrawn()
        self.batches.send()
        return self.output.take()

    def end_all(self, now_ns: int) -> None:
        for client in list(self.clients.values()):
            self.disconnection.end(client, now_ns, code=0, text="")
