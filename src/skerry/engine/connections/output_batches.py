"""Which client queues are sent now, and which are delayed to send more updates together."""

from __future__ import annotations

from skerry.engine.clients import Client
from skerry.engine.connections.client_output import ClientOutput
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.memory_bounds import MemoryBounds
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.limits import ROUND_WORK_MAX


class OutputBatches:
    """Sends the queues that have something new.

    Updates for a client that receives a stream of them are delayed by up to `delay_ns`, so that
    updates of several publishers are sent together (`ClientQueue.is_delayed`).
    """

    def __init__(
        self,
        listed: list[ClientQueue],
        clock: InputClock,
        table: ClientTable,
        output: ClientOutput,
        memory: MemoryBounds,
        disconnection: Disconnection,
        *,
        delay_ns: int,
    ) -> None:
        self.due_ns: int | None = None
        """When delayed updates have to be sent; None if no update is delayed."""
        self._listed = listed
        self._clock = clock
        self._by_id = table.by_id
        self._output = output
        self._memory = memory
        self._disconnection = disconnection
        self._delay_ns = delay_ns

    def send(self) -> None:
        """Send the queues that have something new and are neither paused nor delayed."""
        listed = self._listed
        work_left = ROUND_WORK_MAX
        # Disconnecting a client adds updates of its DotsClient to other queues.
        index = 0
        delayed: list[Client] = []
        is_batch_sent = False
        while index < len(listed):
            queue = listed[index]
            index += 1
            queue.unlisted()
            client = self._by_id.get(int(queue.client_id))
            if client is None:
                queue.expire()
            elif queue.wire.unsendable:
                self._disconnection.drop_if_unsendable(client)
            elif queue.is_paused or queue.is_flooded:
                self._memory.check_queue(client)
            elif queue.is_delayed(self._clock.now_ns, self._delay_ns):
                delayed.append(client)
            elif queue.size:
                is_batch_sent = is_batch_sent or queue.batch_due_ns != 0
                work_left -= self._flush(client, work_left)
        listed.clear()
        self.due_ns = None
        for client in delayed:
            queue = client.queue
            if is_batch_sent:
                # The updates that ended one delay usually arrived with those for the other
                # clients. Waking up again for those alone would cost more than it could gain.
                work_left -= self._flush(client, work_left)
                continue
            queue.list_again()
            due_ns = int(queue.batch_due_ns)
            if self.due_ns is None or due_ns < self.due_ns:
                self.due_ns = due_ns

    def end_delays(self) -> None:
        """Send all delayed updates with the next call of `send`."""
        for queue in self._listed:
            queue.end_delay()

    def _flush(self, client: Client, work_max: int) -> int:
        work = self._output.flush(client, work_max)
        if client.queue.wire.unsendable:
            self._disconnection.drop_if_unsendable(client)
        return work
