"""A recorder on a disk whose calls fail at random: every row is written once, or in one gap."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.codec.envelope import GAP, UPDATE, Update
from skerry.recording.gaps import gap_of
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter

CALLS = ("pwrite", "write", "ftruncate", "fdatasync", "fsync", "rename", "open")


class Disk:
    """Lets calls of the operating system fail; a write that fails may have written a part."""

    def __init__(self, patch: pytest.MonkeyPatch, chance: Random) -> None:
        self._chance = chance
        self.fault_share = 0.0
        for name in CALLS:
            patch.setattr(os, name, self._failing(name, getattr(os, name)))

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self._chance.random() >= self.fault_share:
                return real(*arguments, **options)
            if name == "pwrite" and self._chance.random() < 0.5:
                handle, data, offset = arguments
                return real(handle, data[: max(len(data) // 2, 1)], offset)
            code = self._chance.choice([errno.ENOSPC, errno.EIO])
            raise OSError(code, os.strerror(code))

        return call


def append(queue: RowQueue, position: int) -> None:
    queue.rows.append_update(
        Update(
            type_name="Vessel",
            subject=f"/Vessel/{position}",
            operation=UPDATE,
            present=2,
            key=b"\x81\x01",
            payload=bytes(position % 300),
            node=1 + position % 2,
            sender=2,
            sequence=position,
            position=position,
            time_ns=position,
        )
    )


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    durability=st.sampled_from(list(Durability)),
    waiting_bytes_max=st.sampled_from([1, 2000, 10**6]),
    fault_share=st.sampled_from([0.02, 0.3, 1.0]),
)
@settings(max_examples=8, deadline=None)
def test_every_row_is_written_once_or_named_by_a_gap(
    seed: int, durability: Durability, waiting_bytes_max: int, fault_share: float
) -> None:
    chance = Random(seed)
    config = RecordingConfig(durability=durability, segment_bytes=4000)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name, "r")
        writer = RecordingWriter(folder, config, space="local")
        queue = RowQueue(space="local", row_count_max=5, waiting_bytes_max=waiting_bytes_max)
        writing = WritingThread(queue, writer, retry_s=(0.0, 0.0))
        disk = Disk(patch, chance)
        position = 0
        for step in range(60):
            disk.fault_share = fault_share if step % 20 < 12 else 0.0
            for _ in range(chance.randrange(6)):
                position += 1
                append(queue, position)
            queue.hand_over()
            for _ in range(chance.randrange(3)):
                if queue.waiting_bytes:
                    writing._turn()
        disk.fault_share = 0.0
        queue.close()
        writing.start()
        writing.stop()
        found = list(read_updates(open_recordings(folder)))
        report = verify_recording(open_recordings(folder)[0])
    written = [update.position for update in found if update.operation != GAP]
    gaps = [gap_of(update.payload) for update in found if update.operation == GAP]
    assert written == sorted(set(written))
    assert len(written) + sum(gap.count for gap in gaps) == position
    assert queue.lost_count + writer.lost_row_count == sum(gap.count for gap in gaps)
    assert report.lost_row_count == position - len(written)
    assert all("the recorder dropped updates" in item.detail for item in report.findings)
