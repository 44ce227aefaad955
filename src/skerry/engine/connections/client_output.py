"""Writes the queues of clients to their transports."""

from __future__ import annotations

from skerry.engine.clients import Client
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.turn_queue import TurnQueue
from skerry.engine.delivery.backpressure import Backpressure
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.machine import Address, Disconnect, Transmit


class ClientOutput:
    """The bytes for all transports, until the driver takes them.

    A client by WebSocket receives JSON text. Writing that takes long, so it is done in slices, and
    until all of it is written the client's queue is paused as if its transport was full.
    """

    def __init__(self, clock: InputClock, turns: TurnQueue, backpressure: Backpressure) -> None:
        self.sent_count = 0
        self.sent_bytes = 0
        self._clock = clock
        self._turns = turns
        self._backpressure = backpressure
        self._transmits: list[Transmit] = []

    def take(self) -> list[Transmit]:
        """Return what is to be sent since the last call, in order."""
        transmits, self._transmits = self._transmits, []
        return transmits

    def send_bytes(self, destination: Address, data: bytes) -> None:
        """Send bytes to a connection that has no queue."""
        self._transmits.append(Transmit(destination=destination, data=data))

    def disconnect(self, destination: Address, *, is_abrupt: bool = False) -> None:
        """Close a connection, after everything before was sent unless `is_abrupt`."""
        self._transmits.append(Disconnect(destination=destination, is_abrupt=is_abrupt))

    def flush(self, client: Client, work_max: int) -> int:
        """Send what is queued for a client; returns the work units that writing text took.

        If some of it cannot be written, `queue.wire.unsendable` has the reason afterwards.
        """
        queue = client.queue
        wire = queue.wire
        self.sent_count += int(queue.frame_count)
        queue.note_batch(self._clock.now_ns)
        if not isinstance(wire, JsonNodeWire):
            self.sent_bytes += int(queue.size)
            self._transmits.append(Transmit(destination=client.address, data=queue.take()))
            return 0
        client.writing = wire.writing(queue.begin_writing())
        queue.is_paused = True
        return self.write(client, work_max)

    def write(self, client: Client, work_max: int) -> int:
        """Write a slice of the text for a client; returns the work units that this took.

        If some of it cannot be written, `queue.wire.unsendable` has the reason afterwards.
        """
        queue, writing = client.queue, client.writing
        assert writing is not None
        text, work = writing.step(work_max)
        self.sent_bytes += len(text)
        if text:
            self._transmits.append(Transmit(destination=client.address, data=text))
        is_last = writing.is_done and not queue.wire.unsendable
        queue.written(is_last, len(text))
        if is_last:
            client.writing = None
            if not client.is_full:
                self.unpause(client)
        if not queue.wire.unsendable:
            self._turns.schedule(client)
        return work

    def unpause(self, client: Client) -> None:
        """Resume sending to a client whose transport accepts data again."""
        client.queue.is_paused = False
        self._backpressure.caught_up(client)
        client.queue.relist()
