"""Turns: what the node does for one client before other clients are served.

The work of a turn is counted in work units (`limits.SELECT_SLICE_COUNT`). When they are used up,
the rest of the client's input and tasks waits in the `TurnQueue`.
"""

from __future__ import annotations

from typing import Final

from skerry.engine.admission.shared_quotas import Resource, SharedQuotas
from skerry.engine.clients import Client, Task
from skerry.engine.connections.client_output import ClientOutput
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.memory_bounds import MemoryBounds
from skerry.engine.connections.turn_queue import TurnQueue
from skerry.engine.delivery.backpressure import Backpressure
from skerry.engine.dispatch.frame_intake import FrameIntake
from skerry.limits import REPLAY_SLICE_BYTES, ROUND_WORK_MAX
from skerry.protocol.machine import Address

FRESH_TURN_WORK_MAX: Final = 200
"""Work units of a client whose first input arrived when an iteration of the driver's loop had
lasted too long. A client that sends little has its turn before those that send much."""

_BYTES_PER_WORK_UNIT: Final = 64
"""Bytes of a cache replay that take as long as one work unit."""


class ClientTurns:
    def __init__(
        self,
        clock: InputClock,
        turns: TurnQueue,
        intake: FrameIntake,
        output: ClientOutput,
        shares: SharedQuotas,
        memory: MemoryBounds,
        backpressure: Backpressure,
        disconnection: Disconnection,
    ) -> None:
        self.released: list[Address] = []
        """Clients whose queued input is processed; the driver reads from them again."""
        self._clock = clock
        self._turns = turns
        self._intake = intake
        self._output = output
        self._shares = shares
        self._memory = memory
        self._backpressure = backpressure
        self._disconnection = disconnection

    def start(self, client: Client, task: Task, now_ns: int) -> None:
        """Add a task to a client's agenda, and run its first slice if no other task waits."""
        client.agenda.append(task)
        if len(client.agenda) == 1 and not client.queue.is_paused:
            self.run_tasks(client, now_ns)
        else:
            self._turns.schedule(client)

    def run_tasks(self, client: Client, now_ns: int) -> None:
        """Send conflated updates and run tasks of a client, as far as its turn allows."""
        if client.is_under_review:
            self._turns.schedule(client)
            return
        queue, now_s = client.queue, self._clock.wall_s(now_ns)
        bytes_max = int(queue.size) + REPLAY_SLICE_BYTES
        if client.slots:
            client.slots.drain(bytes_max, now_s)
            self._shares.set(client.holder, Resource.CONFLATED, len(client.slots))
        while client.agenda and queue.size < bytes_max and queue.work_left > 0:
            if not client.agenda[0].step(now_s):
                break
            client.agenda.popleft()
        self._turns.schedule(client)

    def run_round(self, now_ns: int) -> None:
        """Run turns until the work of a round is done and the sockets have to be read again."""
        busy, fresh = self._turns.busy, self._turns.fresh
        work_left = ROUND_WORK_MAX
        for _ in range(len(fresh)):
            if not fresh or work_left <= 0:
                break
            _, client = fresh.popitem(last=False)
            work_left -= self._run(client, now_ns, FRESH_TURN_WORK_MAX)
        # At least one turn of these, so that none starves.
        for _ in range(len(busy)):
            if not busy:
                break
            _, client = busy.popitem(last=False)
            work_left -= self._run(client, now_ns, int(client.queue.work_max))
            if work_left <= 0:
                break

    def _run(self, client: Client, now_ns: int, work_max: int) -> int:
        """Run one turn of a client; returns the work units that it took."""
        queue, work, size = client.queue, 0, int(client.queue.size)
        if client.input.is_held:
            queue.work_left = work_max
            self._backpressure.begin()
            is_processed = self._intake.resume(client, now_ns)
            self._backpressure.end(client)
            work += work_max - int(queue.work_left)
            self._memory.check_unfinished(client)
            if is_processed and client.is_present:
                self.released.append(client.address)
                if client.input.is_last:
                    self._disconnection.forget(client, now_ns, "lost")
        if client.is_present and client.writing is not None and not client.is_full:
            work += self._output.write(client, work_max)
            self._disconnection.drop_if_unsendable(client)
        if client.is_present and (client.agenda or client.slots) and not queue.is_paused:
            # Input and tasks have work units of their own: a long cache replay does not delay the
            # client's input.
            queue.work_left = work_max
            self.run_tasks(client, now_ns)
            work += work_max - int(queue.work_left)
        self._turns.schedule(client)
        return max(work + (int(queue.size) - size) // _BYTES_PER_WORK_UNIT, 1)
