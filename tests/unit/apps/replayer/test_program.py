"""Replay as a whole: rows, clock and target together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.replayer.program import Replayer
from skerry.codec.envelope import CREATE, GAP, Update
from skerry.recording.gaps import Gap
from skerry.recording.selection import RowSelection
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

TYPE = skerry.define_types("struct Ping [cached=false] { 1: [key] uint32 id; }").Ping.descriptor
MS = 1_000_000


class Listener:
    """Collects updates, and leaves some out."""

    def __init__(self, refused: tuple[int, ...] = ()) -> None:
        self.left_out: Counter[str] = Counter()
        self.events: list[str] = []
        self._refused = refused

    async def open(self) -> None:
        self.events.append("open")

    async def play(self, update: Update, type_: Any) -> bool:
        assert type_ == TYPE
        if update.sequence in self._refused:
            self.left_out["refused"] += 1
            return False
        self.events.append(str(update.sequence))
        return True

    async def begin_round(self) -> None:
        self.events.append("round")

    async def close(self, *, waits: bool = True) -> None:
        self.events.append("close" if waits else "leave")


@pytest.fixture
def recordings(tmp_path: Path) -> Any:
    with RecordingWriter(tmp_path / "r", space="local") as writer:
        writer.describe(TYPE)
        for number in (1, 2, 3):
            writer.append(
                Update(
                    type_name="Ping",
                    subject=f"/Ping/{number}",
                    operation=CREATE,
                    present=2,
                    key=b"\x81" + bytes([number]),
                    payload=b"\xa1\x01" + bytes([number]),
                    fingerprint=fingerprint(TYPE),
                    node=7,
                    sender=2,
                    sequence=number,
                    position=number,
                    time_ns=number * 10 * MS,
                )
            )
        writer.append_gap(Gap(count=4, first=4, stop=8, reason="lost", first_ns=31 * MS))
    return open_recordings(tmp_path / "r")


def played(
    recordings: Any,
    target: Listener,
    is_stopped: Callable[[], bool] = lambda: False,
    **options: Any,
) -> tuple[Any, Replayer]:
    replayer = Replayer(recordings, target, RowSelection(), **options)
    return asyncio.run(replayer.run(is_stopped)), replayer


def test_all_updates_are_played_and_gaps_reported(recordings: Any) -> None:
    messages: list[str] = []
    target = Listener(refused=(2,))
    summary, _ = played(recordings, target, speed=None, report=messages.append)
    assert target.events == ["open", "1", "3", "close"]
    assert (summary.played, summary.gaps, summary.missing, summary.rounds) == (2, 1, 4, 1)
    assert summary.left_out == {"refused": 1}
    assert messages == ["4 updates are missing here: lost"]


def test_playback_keeps_the_original_duration(recordings: Any) -> None:
    from time import monotonic

    started = monotonic()
    played(recordings, Listener(), speed=0.5)
    assert monotonic() - started >= 0.04


def test_a_loop_starts_each_round_at_its_target(recordings: Any) -> None:
    target = Listener()
    summary, _ = played(
        recordings,
        target,
        lambda: target.events.count("round") >= 2,
        speed=None,
        is_looping=True,
    )
    assert target.events[:6] == ["open", "1", "2", "3", "round", "1"]
    assert summary.rounds == 3


def test_steps_play_one_update_each_and_finish_ends_the_playback(recordings: Any) -> None:
    target = Listener()
    replayer = Replayer(recordings, target, RowSelection(), is_paused=True)
    for _ in range(2):
        replayer.do_soon(replayer.pacer.step)
    replayer.finish()
    summary = asyncio.run(replayer.run(lambda: False))
    assert target.events == ["open", "1", "2", "close"]
    assert summary.played == 2


def test_a_playback_that_stays_ends_when_stopped(recordings: Any) -> None:
    target = Listener()
    looks: list[bool] = []

    def is_stopped() -> bool:
        looks.append("3" in target.events)
        return looks.count(True) > 2

    summary, _ = played(recordings, target, is_stopped, speed=None, stays=True)
    assert summary.played == 3


def test_the_target_is_closed_also_when_it_fails(recordings: Any) -> None:
    class Broken(Listener):
        async def play(self, update: Update, type_: Any) -> bool:
            raise OSError("no net")

    target = Broken()
    with pytest.raises(OSError, match="no net"):
        played(recordings, target, speed=None)
    assert target.events == ["open", "close"]


def test_the_callback_receives_the_clock(recordings: Any) -> None:
    target = Listener()
    replayer = Replayer(recordings, target, RowSelection(), speed=None)
    shown: list[int] = []
    asyncio.run(replayer.run(lambda: False, show=lambda pacer: shown.append(pacer.played_count)))
    assert shown[-1] == 3


@pytest.mark.slow
def test_a_blocked_target_does_not_delay_a_stop(recordings: Any) -> None:
    class Away(Listener):
        async def play(self, update: Update, type_: Any) -> bool:
            self.events.append("waits")
            await asyncio.Event().wait()
            return True

    target = Away()
    summary, _ = played(recordings, target, lambda: "waits" in target.events, speed=None)
    assert target.events == ["open", "waits", "leave"]
    assert summary.played == 0


def test_a_stop_is_handled_between_two_updates(recordings: Any) -> None:
    target = Listener()
    played(recordings, target, lambda: "2" in target.events, speed=None)
    assert target.events == ["open", "1", "2", "close"]


def test_an_unreadable_gap_is_reported_and_does_not_end_the_playback(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append(
            Update(type_name="", subject="", operation=GAP, present=0, key=b"", payload=b"\xff")
        )
    messages: list[str] = []
    summary, _ = played(open_recordings(tmp_path), Listener(), speed=None, report=messages.append)
    assert summary.gaps == 1
    assert "unknown number" in messages[0]
