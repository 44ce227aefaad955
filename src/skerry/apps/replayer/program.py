"""The replayer: reads rows, waits until they are due, and publishes them to a target."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.apps.replayer.pacing import Pacer
from skerry.apps.replayer.targets import ReplayTarget
from skerry.codec.envelope import GAP, Update
from skerry.recording.gaps import readable_gap
from skerry.recording.selection import RowSelection
from skerry.recording.updates import is_description
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import range_updates, read_united_types, read_updates
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType

_POLL_S: Final = 0.05
"""Interval at which requests to stop, pause or step are polled."""
_STOP_S_MAX: Final = 0.5
"""Time that a blocked update may take after a stop request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    played: int
    """Updates that were played, snapshot rows included."""
    gaps: int
    missing: int
    """Missing updates, according to the gaps that state a number."""
    rounds: int
    left_out: dict[str, int] = field(default_factory=dict)


class RowReader:
    """Iterates over the updates of recordings, any number of times, and holds their types."""

    def __init__(
        self, recordings: Sequence[Recording], selection: RowSelection, *, has_state: bool
    ) -> None:
        """With `has_state`, begin with the objects that existed at the start of the time range,
        which reads all rows before it."""
        self._recordings = recordings
        self._has_state = has_state
        self._selection = selection
        self.types: dict[int, StructType] = read_united_types(recordings)
        """The union of compatible definitions by the fingerprint of each definition, and by its own
        fingerprint, which an object has that was updated with several definitions."""
        self.types |= {fingerprint(type_): type_ for type_ in self.types.values()}

    def __iter__(self) -> Iterator[Update]:
        """The selected rows and gaps, without type descriptions."""
        if self._has_state:
            return range_updates(self._recordings, self.types, self._selection)
        found = read_updates(self._recordings, self._selection)
        return (update for update in found if not is_description(update))


class Replayer:
    """Plays recordings to a target. `report` receives messages about gaps and problems."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        target: ReplayTarget,
        selection: RowSelection,
        *,
        has_state: bool = True,
        speed: float | None = 1.0,
        is_looping: bool = False,
        is_paused: bool = False,
        stays: bool = False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._rows = RowReader(recordings, selection, has_state=has_state)
        self._target = target
        self._report = report
        self.pacer: Pacer[Update] = Pacer(
            self._rows.__iter__, speed=speed, is_looping=is_looping, is_paused=is_paused
        )
        """The clock, which callers can pause, step and read."""
        self._stays = stays
        """Whether to stay connected at the end, until stopped."""
        self._is_finishing = False
        self._actions: deque[Callable[[], None]] = deque()
        self._round_count = 1
        self._played_count = 0
        self._gap_count = 0
        self._missing_count = 0

    async def run(
        self,
        is_stopped: Callable[[], bool],
        *,
        show: Callable[[Pacer[Update]], None] = lambda _pacer: None,
    ) -> ReplaySummary:
        """Play to the end or until stopped; the target has received all updates when this returns.

        Disconnected if it is stopped while the target is not connected.
        """
        await self._target.open()
        is_aborted = False
        try:
            is_aborted = await _run_or_abort(self._run(is_stopped, show), is_stopped)
        finally:
            await self._target.close(waits=not is_aborted)
        return ReplaySummary(
            played=self._played_count,
            gaps=self._gap_count,
            missing=self._missing_count,
            rounds=self._round_count,
            left_out=dict(self._target.left_out),
        )

    def do_soon(self, action: Callable[[], None]) -> None:
        """Call `action` between two updates. May be called from any thread."""
        self._actions.append(action)

    def finish(self) -> None:
        """End when no update is due any more: no steps follow. May be called from any thread."""
        self._is_finishing = True

    async def _run(
        self, is_stopped: Callable[[], bool], show: Callable[[Pacer[Update]], None]
    ) -> None:
        while not is_stopped():
            # Read before the actions are called: those that precede `finish` must be called.
            is_finishing = self._is_finishing
            while self._actions:
                self._actions.popleft()()
            for update in self.pacer.take_due(monotonic_ns()):
                if is_stopped():
                    return
                await self._play(update)
            show(self.pacer)
            now_ns = monotonic_ns()
            due_ns = self.pacer.deadline_ns(now_ns)
            if self.pacer.is_over and not self._stays:
                return
            if is_finishing and due_ns is None:
                return
            wait_s = _POLL_S if due_ns is None else (due_ns - now_ns) / 1e9
            await asyncio.sleep(min(max(wait_s, 0.0), _POLL_S))

    async def _play(self, update: Update) -> None:
        if update.operation == GAP:
            self._note_gap(update)
            return
        if self.pacer.played_round != self._round_count:
            self._round_count = self.pacer.played_round
            await self._target.begin_round()
        type_ = self._rows.types.get(update.fingerprint)
        self._played_count += await self._target.play(update, type_)

    def _note_gap(self, update: Update) -> None:
        gap = readable_gap(update.payload)
        self._gap_count += 1
        self._missing_count += gap.count
        count = str(gap.count) if gap.count else "an unknown number of"
        self._report(f"{count} updates are missing here: {gap.reason}")


async def _run_or_abort(playing: Coroutine[Any, Any, None], is_stopped: Callable[[], bool]) -> bool:
    """Run `playing`; True if it was still blocked after a stop request and was cancelled."""
    task = asyncio.ensure_future(playing)
    try:
        while not (await asyncio.wait({task}, timeout=_STOP_S_MAX))[0]:
            if is_stopped() and not (await asyncio.wait({task}, timeout=_STOP_S_MAX))[0]:
                return True
        task.result()
        return False
    finally:
        task.cancel()
        # Its exception was raised above, or does not matter after a cancellation.
        await asyncio.gather(task, return_exceptions=True)
