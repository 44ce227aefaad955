"""The client queue: the frames that wait to be sent to one client, and its counters.

Each update is added to the queues of all its subscribers, so the module is compiled. An update in a
queue is accounted for until it is passed to the transport or dropped for a counted reason
(`engine.dispatch.ledger`).

The source of updates is a client of this node, or one of another node. An update from another node
takes the same path as one of a client. Permissions and quotas were applied where it entered the
system, so a source of another node has no limits of its own.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.codec.frame import LARGE_FRAME_BYTES
from skerry.codec.hot_loops import FrameRelay
from skerry.limits import (
    CACHE_BYTES_MAX,
    CACHE_OBJECT_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    SELECT_SLICE_COUNT,
)
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire


class Source:
    """What the dispatcher needs to know about a publisher."""

    def __init__(self, client_id: int) -> None:
        self.client_id: i64 = client_id
        """The id under which the clients of this node receive its updates."""
        self.has_subjects: bool = False
        """Whether its headers may name a subject."""
        self.sequence: i64 = 0
        """Updates of it that were accepted."""
        self.stored_number: i64 = 0
        """Number of its last change in the journal; 0 if there is none."""
        self.published: dict[str, None] = {}
        """Names of all types that it published, in the order of their first object."""
        self.object_count_max: i64 = CACHE_OBJECT_COUNT_MAX
        self.object_bytes_max: i64 = CACHE_BYTES_MAX
        """What the objects that it created may use of the cache."""
        self.update_bytes_max: i64 = PAYLOAD_BYTES_MAX
        """The limit for one published object."""
        self.doubtful_types: set[str] | None = None
        """Types for which its own definition is not part of the served one: each of its updates is
        checked."""

    def note_published(self, type_name: str) -> None:
        """Note the first update of a type."""
        self.published[type_name] = None


BATCH_COUNT_MIN: Final = 8
"""A client receives a stream of updates if this many were sent to it within `BATCH_GAP_NS`. Fewer
are sent at once, since a program that reacts to single updates must not wait."""

BATCH_BYTES: Final = 32 * 1024
"""Queued bytes of one client that are sent at once, also while updates are delayed: a write of this
size costs little for each update."""
BATCH_COUNT: Final = 256
"""The same for queued updates. At the rates of most clients the delay ends first: a smaller count
would end it after each publisher's turn, and wake up the client more often."""
BATCH_GAP_NS: Final = 10_000_000
"""A stream of updates has ended after such a pause. The next update is sent at once."""
BATCH_UNDELAYED_COUNT_MIN: Final = 4
BATCH_UNDELAYED_COUNT_MAX: Final = 60
"""Writes that are not delayed after a delay in which no other update arrived: few after the first
such delay, since publishers that are sometimes late still gain from the others, and three times as
many after each further one. The next delay follows a prime number of writes later, so that with
publishers in turn a different one is first each time."""

TIME_S_MAX: Final = 9_000_000_000.0
"""The largest time in seconds; the nanoseconds of much larger ones do not fit into 64 bits."""


class Tally:
    """What became of the updates that were due to a client, or of a type to all clients."""

    def __init__(self) -> None:
        self.due: i64 = 0
        """Updates, each counted once for each subscriber."""
        self.delivered: i64 = 0
        """Passed to the transport."""
        self.queued: i64 = 0
        """In the queues and conflation slots of clients. Only counted for types: a client counts
        what is in its own queue and slots."""
        self.filtered: i64 = 0
        """Not sent because of the condition of a filtered subscription."""
        self.conflated: i64 = 0
        """Replaced by a later update of the same object, for a slow client."""
        self.expired: i64 = 0
        """Still queued when the client disconnected."""
        self.refused: i64 = 0
        """Not sent because the client may not receive them."""


class ClientQueue(Outgoing):
    """The output of one client, and what the dispatcher needs to know about a subscriber."""

    def __init__(self, client_id: int, wire: Wire, listed: list[ClientQueue]) -> None:
        super().__init__()
        self.client_id: i64 = client_id
        self.source: Source = Source(client_id)
        """The same client as a publisher."""
        self.wire: Wire = wire
        self.is_framed: bool = wire.version == 2
        """Whether it accepts the common frames of version 2."""
        self.is_old: bool = wire.version == 1
        """Whether it accepts the common frames of version 1; other frames are made for it alone."""
        self.has_subjects: bool = False
        """Whether the client understands subjects and our own types."""
        self.has_origin: bool = False
        """Whether the client receives the position and the sequence number of updates."""
        self.relay: FrameRelay = FrameRelay(wire.version, TIME_S_MAX)
        """The header templates of the client, by which its frames are forwarded."""
        self.work_max: i64 = SELECT_SLICE_COUNT
        """Work units of one turn of the client (`limits.SELECT_SLICE_COUNT`)."""
        self.work_left: i64 = SELECT_SLICE_COUNT
        """Work units that are left before other clients have their turn."""
        self.is_paused: bool = False
        """Whether nothing is sent, since the transport is full or text is being written."""
        self.is_flooded: bool = False
        """Whether more was due in one turn than may be queued, so that some of it was dropped."""
        self.tally: Tally = Tally()
        self.waiting_count: i64 = 0
        """Updates among the frames; all other frames are messages of the protocol."""
        self.message_bytes: i64 = 0
        """Bytes of the messages of the protocol, without the largest one."""
        self._message_bytes_max: i64 = 0
        """Bytes of the largest one."""
        self.size_peak: i64 = 0
        self.sent_count: i64 = 0
        self.sent_bytes: i64 = 0
        self.batch_due_ns: i64 = 0
        """When the queued updates are sent at the latest; 0 if none is delayed."""
        self._window_ns: i64 = 0
        """Start of the current window of `BATCH_GAP_NS`, in which updates are counted."""
        self._window_count: i64 = 0
        """Updates that were sent in it so far."""
        self._stream_stop_ns: i64 = 0
        """Until when updates are part of a stream."""
        self._batch_sequence: i64 = 0
        """Updates that the client itself had published by its last batch."""
        self._delayed_count: i64 = 0
        """Updates that were queued when their delay began."""
        self._undelayed_count: i64 = 0
        """Batches that are not delayed, since a delay had no effect."""
        self._undelayed_next: i64 = BATCH_UNDELAYED_COUNT_MIN
        """The same after the next delay without an effect."""
        self._has_message: bool = False
        """Whether a message of the protocol is queued, which is never delayed."""
        self._listed: list[ClientQueue] = listed
        self._is_listed: bool = False
        self._tallies: list[Tally] = []
        self._counts: list[int] = []
        """The types of the queued updates in runs, and how many updates each run has. A run has an
        update at least, so the bound of the queue bounds their number."""
        self._writing: list[tuple[Tally, int]] = []
        """The updates that are being written as text."""
        self._writing_count: i64 = 0
        """Frames of them, messages of the protocol included."""
        self._writing_updates: i64 = 0

    def add(self, frame: bytes) -> None:
        """Queue a message of the protocol."""
        self.frames.add(frame)
        self.frame_count += 1
        self._has_message = True
        size: i64 = len(frame)
        self.message_bytes += min(size, self._message_bytes_max)
        self._message_bytes_max = max(size, self._message_bytes_max)
        if not self._is_listed:
            self._is_listed = True
            self._listed.append(self)

    def deliver(self, frame: bytes, tally: Tally) -> None:
        """Queue an update that is already counted as due; `tally` is that of its type."""
        if len(frame) >= LARGE_FRAME_BYTES:
            # Not copied if nothing is queued, so that subscribers share its bytes.
            self.add_run(frame, 1)
        else:
            self.frames.add(frame)
            self.frame_count += 1
        self._note(tally, 1)

    def deliver_run(self, frames: bytes, count: i64, tally: Tally) -> None:
        """Queue consecutive updates of one type, which are not yet counted as due."""
        self.tally.due += count
        self.add_run(frames, int(count))
        self._note(tally, count)

    def delivered(self, count: i64, tally: Tally) -> None:
        """Count updates of one type that publishers wrote to `frames`."""
        self.tally.due += count
        self.frame_count += count
        self._note(tally, count)

    def _note(self, tally: Tally, count: i64) -> None:
        self.waiting_count += count
        tally.queued += count
        if not self._is_listed:
            self._is_listed = True
            self._listed.append(self)
        tallies = self._tallies
        if tallies and tallies[-1] is tally:
            self._counts[-1] += int(count)
        else:
            tallies.append(tally)
            self._counts.append(int(count))

    def begin_turn(self) -> None:
        """Start another turn, after other clients had theirs."""
        self.work_left = self.work_max

    def unlisted(self) -> None:
        """Note that the node took the queue from the list of queues with something new."""
        self._is_listed = False

    def list_again(self) -> None:
        """Keep a delayed queue in the list of queues with something new."""
        self._is_listed = True
        self._listed.append(self)

    def relist(self) -> None:
        """List the queue if it has frames: it may be sent again, or has to be checked."""
        if self.frame_count and not self._is_listed:
            self._is_listed = True
            self._listed.append(self)

    def is_delayed(self, now_ns: i64, delay_ns: i64) -> bool:
        """Whether queued updates are delayed, because the client receives a stream of them.

        Each write wakes up the client, which costs more than the updates themselves. So in a
        stream of updates they are delayed: until there are enough of them, and for `delay_ns` at
        most. Messages of the protocol are never delayed, nor is a single update, nor an update
        for a client that published something since its last batch: it may be the answer to that.
        """
        count = self.waiting_count
        if self._has_message or self.size >= BATCH_BYTES:
            return False
        if self.batch_due_ns != 0:
            return now_ns < self.batch_due_ns and count < BATCH_COUNT
        if now_ns >= self._stream_stop_ns or self.source.sequence != self._batch_sequence:
            return False
        if self._undelayed_count > 0:
            self._undelayed_count -= 1
            return False
        self.batch_due_ns = now_ns + delay_ns
        self._delayed_count = count
        return delay_ns > 0

    def end_delay(self) -> None:
        """Send delayed updates with the next output of the node."""
        if self.batch_due_ns != 0:
            self.batch_due_ns = 1

    def note_batch(self, now_ns: i64) -> None:
        """Note a batch that is sent now, which decides whether the next one is delayed."""
        if self.batch_due_ns != 0:
            if self.waiting_count != self._delayed_count:
                self._undelayed_next = BATCH_UNDELAYED_COUNT_MIN
            else:
                # No other publisher sent anything to the client, so the delay was of no use.
                self._undelayed_count = self._undelayed_next
                self._undelayed_next = min(3 * self._undelayed_next, BATCH_UNDELAYED_COUNT_MAX)
        self.batch_due_ns = 0
        self._has_message = False
        self._batch_sequence = self.source.sequence
        if now_ns - self._window_ns > BATCH_GAP_NS:
            self._window_ns = now_ns
            self._window_count = 0
        self._window_count += self.waiting_count
        if self._window_count >= BATCH_COUNT_MIN:
            self._stream_stop_ns = now_ns + BATCH_GAP_NS

    def take(self) -> bytes:
        """Take all queued frames as bytes for the stream; they count as delivered."""
        self.sent_count += self.frame_count
        self.sent_bytes += self.size
        self._note_peak()
        counts = self._counts
        own = self.tally
        index: i64 = 0
        for tally in self._tallies:
            count: i64 = counts[index]
            tally.queued -= count
            tally.delivered += count
            own.delivered += count
            index += 1  # noqa: SIM113  slower with enumerate when compiled
        self._end_runs()
        return super().take()

    def begin_writing(self) -> bytes:
        """Take all queued frames, to write them as text; they count as queued until `written`."""
        self._writing_count = self.frame_count
        self._writing_updates = self.waiting_count
        self._note_peak()
        self._writing = list(zip(self._tallies, self._counts, strict=True))
        self._end_runs()
        return super().take()

    def written(self, is_last: bool, size: int) -> None:
        """Note `size` bytes of text that were sent; after the last, all frames are delivered."""
        self.sent_bytes += size
        if is_last:
            self.sent_count += self._writing_count
            for tally, count in self._writing:
                tally.queued -= count
                tally.delivered += count
                self.tally.delivered += count
            self._end_writing()

    def expire(self) -> None:
        """Drop all frames and header templates, since the client disconnected."""
        self.relay.forget()
        for tally, count in [*zip(self._tallies, self._counts, strict=True), *self._writing]:
            tally.queued -= count
            tally.expired += count
            self.tally.expired += count
        self._end_runs()
        self._end_writing()
        super().take()

    @property
    def queued_count(self) -> int:
        """The updates that are queued or being written as text."""
        return int(self.waiting_count + self._writing_updates)

    def _end_writing(self) -> None:
        self._writing = []
        self._writing_count = 0
        self._writing_updates = 0

    def _note_peak(self) -> None:
        size = self.size
        if size > self.size_peak:
            self.size_peak = size

    def _end_runs(self) -> None:
        self._tallies.clear()
        self._counts.clear()
        self.waiting_count = 0
        self.message_bytes = 0
        self._message_bytes_max = 0
