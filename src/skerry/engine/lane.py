"""The way from the node to one client: what waits there, and what became of it.

Every update that somebody asked for is put on a lane, so this is compiled. What was put there is
accounted for until it is handed to the transport or dropped for a reason that is counted: see
`engine.ledger`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.codec.swift import Relay
from skerry.limits import (
    CACHE_BYTES_MAX,
    CACHE_OBJECT_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    SELECT_SLICE_COUNT,
)
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire

__all__ = ["TIME_S_MAX", "Lane", "Tally"]

TIME_S_MAX: Final = 9_000_000_000.0
"""The nanoseconds of times much further from 1970 do not fit into 64 bits."""


class Tally:
    """What became of the updates that were due to somebody."""

    def __init__(self) -> None:
        self.due: i64 = 0
        """Updates times those who asked for them."""
        self.delivered: i64 = 0
        """Handed to the transport."""
        self.filtered: i64 = 0
        """Not wanted after all, by the condition of a view."""
        self.conflated: i64 = 0
        """Taken up in a later update of the same object, for a client that was slow."""
        self.expired: i64 = 0
        """Still waiting when the client was gone or was cut."""
        self.refused: i64 = 0
        """Not permitted to this client."""


class Lane(Outgoing):
    """One client, as the updates see it."""

    def __init__(self, client_id: int, wire: Wire, listed: list[Lane]) -> None:
        super().__init__()
        self.client_id: i64 = client_id
        self.wire: Wire = wire
        self.is_framed: bool = wire.version == 2
        """Whether it accepts the common frames of version 2."""
        self.is_old: bool = wire.version == 1
        """Whether it accepts the common frames of version 1; other frames are made for it alone."""
        self.has_subjects: bool = False
        """Whether the client understands subjects and our own types."""
        self.has_origin: bool = False
        """Whether the client wants to know where in the node's order an update stands."""
        self.sequence: i64 = 0
        """Updates of this client that were accepted."""
        self.stored_number: i64 = 0
        """Number of its last change in the journal, if it made one."""
        self.published: dict[str, None] = {}
        """Names of all types it published, in the order of their first object."""
        self.relay: Relay = Relay(wire.version, TIME_S_MAX)
        """The stencils of the headers that the client sent."""
        self.object_count_max: i64 = CACHE_OBJECT_COUNT_MAX
        self.object_bytes_max: i64 = CACHE_BYTES_MAX
        """What the objects that it made may take of the cache."""
        self.update_bytes_max: i64 = PAYLOAD_BYTES_MAX
        """The limit for one published object."""
        self.doubtful_types: set[str] | None = None
        """Types for which the client's own definition is not part of the served one: each of its
        updates is checked."""
        self.look_count_max: i64 = SELECT_SLICE_COUNT
        """Objects that may be examined for the client in one turn."""
        self.looks: i64 = SELECT_SLICE_COUNT
        """How many of them are left, before others have their turn."""
        self.is_paused: bool = False
        """Whether the transport has more than it likes already."""
        self.tally: Tally = Tally()
        self.waiting_count: i64 = 0
        """Updates among the frames; the rest are messages of the protocol."""
        self.size_peak: i64 = 0
        self.sent_count: i64 = 0
        self.sent_bytes: i64 = 0
        self._listed: list[Lane] = listed
        self._is_listed: bool = False
        self._run: Tally | None = None
        self._run_count: i64 = 0
        self._others: dict[Tally, int] = {}
        """How many of the waiting updates each type has: the last one, and all others."""

    def add(self, frame: bytes) -> None:
        """A message of the protocol."""
        self.frames.add(frame)
        self.frame_count += 1
        if not self._is_listed:
            self._is_listed = True
            self._listed.append(self)

    def deliver(self, frame: bytes, tally: Tally) -> None:
        """An update, counted as due already; `tally` is that of its type."""
        self.frames.add(frame)
        self.frame_count += 1
        self._note(tally, 1)

    def deliver_run(self, frames: bytes, count: i64, tally: Tally) -> None:
        """Updates of one type, one after the other, that were not counted as due yet."""
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
        if not self._is_listed:
            self._is_listed = True
            self._listed.append(self)
        if self._run is tally:
            self._run_count += count
        else:
            self._start_run(tally, count)

    def note_published(self, type_name: str) -> None:
        """The first update of a type."""
        self.published[type_name] = None

    def begin_turn(self) -> None:
        """Others had their turn, and it is the client's again."""
        self.looks = self.look_count_max

    def unlisted(self) -> None:
        """Whoever looks after the listed lanes has looked at this one."""
        self._is_listed = False

    def relist(self) -> None:
        """There is room again for what waits."""
        if self.frame_count and not self._is_listed:
            self._is_listed = True
            self._listed.append(self)

    def take(self) -> bytes:
        """All that waits, as bytes for the stream; from now on it counts as delivered."""
        size = self.size
        self.sent_count += self.frame_count
        self.sent_bytes += size
        if size > self.size_peak:
            self.size_peak = size
        for tally, count in self._take_runs():
            tally.delivered += count
            self.tally.delivered += count
        return super().take()

    def expire(self) -> None:
        """The client disconnected: drop its queue and the headers that it sent."""
        self.relay.forget()
        for tally, count in self._take_runs():
            tally.expired += count
            self.tally.expired += count
        super().take()

    def runs(self) -> list[tuple[Tally, int]]:
        """How many of the waiting updates each type has; a type may be there twice."""
        runs = list(self._others.items())
        if self._run is not None:
            runs.append((self._run, int(self._run_count)))
        return runs

    def _start_run(self, tally: Tally, count: i64) -> None:
        run = self._run
        if run is not None:
            self._others[run] = self._others.get(run, 0) + int(self._run_count)
        self._run = tally
        self._run_count = count

    def _take_runs(self) -> list[tuple[Tally, int]]:
        runs = self.runs()
        self._others.clear()
        self._run = None
        self._run_count = 0
        self.waiting_count = 0
        return runs
