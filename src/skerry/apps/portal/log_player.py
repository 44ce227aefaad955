"""Plays a Goby log: publishes its entries in a portal again, when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from skerry.apps.replayer.pacing import Pacer
from skerry.client.portal.portal_link import PortalLink
from skerry.codec.envelope import CREATE
from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.recording.goby.entries import GobyLogEntry
from skerry.runtime.clock import monotonic_ns

_POLL_S: Final = 0.05
"""Interval at which requests to stop are polled."""
_WAITING_COUNT_MAX: Final = 500
"""Publications that wait to be sent before the playback waits: the buffer drops at its limit."""


@dataclass(frozen=True, slots=True)
class PlayedEntry:
    """An entry as the clock of a playback sees it."""

    entry: GobyLogEntry
    operation: int = CREATE

    @property
    def time_ns(self) -> int:
        return self.entry.time_us * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlayback:
    """What was played."""

    played: int
    rounds: int
    left_out: dict[str, int] = field(default_factory=dict)
    """Entries that a portal cannot have, by reason."""


async def play_log(
    entries: Callable[[], Iterable[GobyLogEntry]],
    link: PortalLink,
    *,
    is_stopped: Callable[[], bool],
    speed: float | None = 1.0,
    is_looping: bool = False,
    show: Callable[[str], None] = lambda _text: None,
) -> LogPlayback:
    """Publish the entries until the end or until stopped; without `speed`, as fast as possible."""

    def begin() -> Iterator[PlayedEntry]:
        return (PlayedEntry(entry) for entry in entries())

    pacer = Pacer(begin, speed=speed, is_looping=is_looping)
    played = 0
    left_out: dict[str, int] = {}
    while not is_stopped():
        for due in pacer.take_due(monotonic_ns()):
            entry = due.entry
            while link.session.waiting_count >= _WAITING_COUNT_MAX:
                await asyncio.sleep(_POLL_S / 10)
                if is_stopped():
                    break
            try:
                frame = link.frame_of(entry.group, entry.data, entry.scheme, entry.type_name)
            except (LocalProtocolError, LimitExceeded) as error:
                left_out[str(error)] = left_out.get(str(error), 0) + 1
                continue
            link.publish(frame)
            played += 1
        show(f"{played:,} entries played")
        if pacer.is_over:
            break
        now_ns = monotonic_ns()
        due_ns = pacer.deadline_ns(now_ns)
        wait_s = _POLL_S if due_ns is None else (due_ns - now_ns) / 1e9
        await asyncio.sleep(min(max(wait_s, 0.0), _POLL_S))
    await link.flush(10.0)
    return LogPlayback(played=played, rounds=pacer.round_count, left_out=left_out)
