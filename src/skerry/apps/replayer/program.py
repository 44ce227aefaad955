"""Replay as a program: rows of a recording, a clock, and somebody who takes them again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.apps.replayer.pacing import Pacer
from skerry.apps.replayer.row_reader import ReplayWishes, RowReader
from skerry.apps.replayer.targets import ReplayTarget
from skerry.codec.envelope import GAP, Update
from skerry.recording.gaps import readable_gap
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.reader import Recording

__all__ = ["ReplaySummary", "Replayer"]

_LOOK_S: Final = 0.05
"""How soon a request to stop, to pause or to step is seen."""
_PATIENCE_S: Final = 0.5
"""How long an update that waits for the target may take when all is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """What became of a replay."""

    played: int
    """Updates that were played, what was there at first included."""
    gaps: int
    missing: int
    """Updates that gaps tell of, as far as those know."""
    rounds: int
    left_out: dict[str, int] = field(default_factory=dict)
    """Updates that could not be played, by reason."""


class Replayer:
    """Plays recordings to a target. `tell` hears of gaps and of what goes wrong."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        target: ReplayTarget,
        wishes: ReplayWishes,
        *,
        speed: float | None = 1.0,
        is_looping: bool = False,
        is_paused: bool = False,
        stays: bool = False,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._rows = RowReader(recordings, wishes)
        self._target = target
        self._tell = tell
        self.pacer = Pacer(self._begin, speed=speed, is_looping=is_looping, is_paused=is_paused)
        """To be paused, stepped and watched."""
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
        show: Callable[[Pacer], None] = lambda _pacer: None,
        played: Callable[[Update], None] = lambda _update: None,
    ) -> ReplaySummary:
        """Play to the end, or until stopped; all that was played has arrived when this returns.

        Who is stopped while the target is away does not wait for it: Disconnected.
        """
        await self._target.open()
        is_given_up = False
        try:
            is_given_up = await _unless_stopped(self._run(is_stopped, show, played), is_stopped)
        finally:
            await self._target.close(waits=not is_given_up)
        return ReplaySummary(
            played=self._played_count,
            gaps=self._gap_count,
            missing=self._missing_count,
            rounds=self._round_count,
            left_out=dict(self._target.left_out),
        )

    def do_soon(self, action: Callable[[], None]) -> None:
        """Do something with the pacer between two updates. From any thread."""
        self._actions.append(action)

    def finish(self) -> None:
        """End when nothing is due any more: no more steps will come. From any thread."""
        self._is_finishing = True

    async def _run(
        self,
        is_stopped: Callable[[], bool],
        show: Callable[[Pacer], None],
        played: Callable[[Update], None],
    ) -> None:
        while not is_stopped():
            # Looked at before the actions are done: whoever finishes has asked for all of them.
            is_finishing = self._is_finishing
            while self._actions:
                self._actions.popleft()()
            for update in self.pacer.take_due(monotonic_ns()):
                if is_stopped():
                    return
                await self._play(update)
                played(update)
            show(self.pacer)
            now_ns = monotonic_ns()
            due_ns = self.pacer.deadline_ns(now_ns)
            if self.pacer.is_over and not self._stays:
                return
            if is_finishing and due_ns is None:
                return
            wait_s = _LOOK_S if due_ns is None else (due_ns - now_ns) / 1e9
            await asyncio.sleep(min(max(wait_s, 0.0), _LOOK_S))

    def _begin(self) -> Iterator[Update]:
        return iter(self._rows)

    async def _play(self, update: Update) -> None:
        if update.operation == GAP:
            self._note_gap(update)
            return
        if self.pacer.taken_round != self._round_count:
            self._round_count = self.pacer.taken_round
            await self._target.begin_round()
        type_ = self._rows.types.get(update.fingerprint)
        self._played_count += await self._target.play(update, type_)

    def _note_gap(self, update: Update) -> None:
        gap = readable_gap(update.payload)
        self._gap_count += 1
        self._missing_count += gap.count
        count = str(gap.count) if gap.count else "an unknown number of"
        self._tell(f"{count} updates are missing here: {gap.reason}")


async def _unless_stopped(
    playing: Coroutine[Any, Any, None], is_stopped: Callable[[], bool]
) -> bool:
    """Play; whether that was given up, because it waited for somebody when it was to stop."""
    task = asyncio.ensure_future(playing)
    try:
        while not (await asyncio.wait({task}, timeout=_PATIENCE_S))[0]:
            if is_stopped() and not (await asyncio.wait({task}, timeout=_PATIENCE_S))[0]:
                return True
        task.result()
        return False
    finally:
        task.cancel()
        # What it ended with is known, or of no interest any more.
        await asyncio.gather(task, return_exceptions=True)
