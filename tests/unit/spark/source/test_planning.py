"""Which batches are read, and by which task."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.codec.envelope import Update
from skerry.errors import PipelineError, RecordingError
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.reader import open_recordings
from skerry.schema.fingerprint import fingerprint
from skerry.spark.source.options import ReadOptions, read_options
from skerry.spark.source.planning import (
    Recordings,
    Run,
    Runs,
    Wanted,
    definitions,
    dropped,
    pack,
    runs,
    segments,
)

TYPES = skerry.define_types("struct A { 1: [key] uint8 id; } struct B { 1: [key] uint8 id; }")
NEWER = skerry.define_types("struct A { 1: [key] uint8 id; 2: string name; }")
A: Any = TYPES.A
B: Any = TYPES.B


@pytest.fixture
def folder(tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]) -> Path:
    """Two segments: As at 10 and 20 and a B at 30; then a newer A at 40."""
    early = [[update_of(A(id=1), time_ns=10)], [update_of(A(id=2), time_ns=20)]]
    record(tmp_path, *early, [update_of(B(id=1), time_ns=30)], types=[A, B])
    record(tmp_path, [update_of(NEWER.A(id=1), time_ns=40)], types=[NEWER.A])
    return tmp_path


def options(folder: Path, **more: str) -> ReadOptions:
    return read_options({"path": str(folder), **more})


def read_times(folder: Path, wanted: Wanted) -> list[int]:
    """The earliest time of each batch that would be read, descriptions left out."""
    found = runs(segments(options(folder)), wanted)
    batches = [batch for run in found for batch in run.segment.batches[run.first : run.stop]]
    return [batch.time_min_ns for batch in batches if {"A", "B"} & set(batch.types)]


def test_everything_is_read_by_default(folder: Path) -> None:
    assert read_times(folder, Wanted()) == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("wanted", "times"),
    [
        (Wanted(from_ns=20), [20, 30, 40]),
        (Wanted(to_ns=20), [10]),
        (Wanted(from_ns=20, to_ns=31), [20, 30]),
        (Wanted(types=frozenset({"B"})), [30]),
        (Wanted(types=frozenset({"A"}), from_ns=15), [20, 40]),
        (Wanted(types=frozenset({"C"})), []),
        (Wanted(types=frozenset()), []),
    ],
)
def test_batches_without_a_wanted_row_are_left_out(
    folder: Path, wanted: Wanted, times: list[int]
) -> None:
    assert read_times(folder, wanted) == times


def test_segments_without_a_wanted_definition_are_left_out(folder: Path) -> None:
    number = fingerprint(NEWER.A.descriptor)
    wanted = Wanted(types=frozenset({"A"}), fingerprints=frozenset({number}))
    assert read_times(folder, wanted) == [40]


def test_no_segment_is_opened_for_planning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for recording in open_recordings(folder):
        for segment in recording.segments():
            size = segment.path.stat().st_size
            segment.path.unlink()
            # The remaining segments are unreadable, so a read of them would fail.
            segment.path.write_bytes(bytes(size))
    assert read_times(folder, Wanted(types=frozenset({"A"}))) == [10, 20, 40]


def test_lines_of_a_manifest_select_segments(folder: Path) -> None:
    recording = open_recordings(folder)[0]
    second = recording.segments()[1].line
    wanted = options(folder, range=f'[["{recording.id}", {second}, {second + 1}]]')
    assert [segment.line for _, segment in segments(wanted)] == [second]
    with pytest.raises(PipelineError, match="recording feed is missing") as caught:
        list(segments(options(folder, range='[["feed", 0, 1]]')))
    assert "restore it" in (caught.value.hint or "")


def test_segments_deleted_before_they_were_read_are_reported(folder: Path) -> None:
    (recording,) = open_recordings(folder)
    first, _ = recording.segments()
    manifest = Manifest(folder)
    with manifest.locked():
        manifest.add_dropped(first.name, "age", sync=False)
    first.path.unlink()
    (notified,) = dropped(options(folder, range=f'[["{recording.id}", 0, 3]]'))
    assert notified.startswith(f"{first.rows} rows of {folder} from 1970-01-01T00:00:00")
    assert notified.endswith("were dropped for their age before they were read")
    assert list(dropped(options(folder, range=f'[["{recording.id}", 1, 3]]'))) == []


def test_definitions_are_found_in_the_order_they_were_used(folder: Path) -> None:
    found = definitions("A", segments(options(folder)))
    assert found == [A.descriptor, NEWER.A.descriptor]
    number = fingerprint(NEWER.A.descriptor)
    assert definitions("A", segments(options(folder)), [number]) == [NEWER.A.descriptor]
    assert definitions("Z", segments(options(folder))) == []


def test_short_runs_are_combined_and_long_ones_are_cut(folder: Path) -> None:
    _, segment = next(iter(segments(options(folder))))
    batch = replace(segment.batches[0], size=1024 * 1024)

    def run(count: int) -> Run:
        longer = replace(segment, batches=(batch,) * count)
        return Run(recording="r", space="s", segment=longer, first=0, stop=count)

    tasks = pack([run(1), run(1), run(30), run(2)], 4 * 1024 * 1024)
    sizes = [sum(piece.stop - piece.first for piece in task) for task in tasks]
    assert sum(sizes) == 34
    assert max(sizes) <= 4
    assert len(tasks) <= 11
    # Each batch once, and in order.
    last = [(p.first, p.stop) for task in tasks for p in task if len(p.segment.batches) == 30]
    assert [first for first, _ in last[1:]] == [stop for _, stop in last[:-1]]
    assert pack([], 1) == []
    # A little is not spread over many tasks.
    assert len(pack([run(1)], 100)) == 1


def test_tasks_can_be_sent_to_executors(folder: Path) -> None:
    (task,) = pack(runs(segments(options(folder)), Wanted()), 1 << 20)
    again = pickle.loads(pickle.dumps(Runs(task)))
    assert again.runs == task


def test_later_recordings_are_found_and_each_counts_once(
    tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> None:
    first = record(tmp_path / "r" / "a", [update_of(A(id=1))], types=[A])
    recordings = Recordings([str(tmp_path / "r"), str(first)])
    assert len(recordings.all()) == 1
    second = record(tmp_path / "r" / "b", [update_of(A(id=1))], types=[A])
    assert len(recordings.all()) == 2
    assert recordings.folders() == [first, second]
    assert len(list(recordings.sealed())) == 2
    with pytest.raises(RecordingError):
        Recordings([str(tmp_path / "none")]).all()


def test_segments_missing_in_the_manifest_are_reported_with_a_limit(folder: Path) -> None:
    (recording,) = open_recordings(folder)
    first, second = recording.segments()
    manifest = Manifest(folder)
    with manifest.locked():
        manifest.add_dropped(first.name, "age", sync=False)
        first.path.unlink()
        manifest.shorten(kept=0)
        manifest.add_dropped(second.name, "size", sync=False)
    second.path.unlink()
    notified = [
        list(dropped(options(folder, range=f'[["{recording.id}", {first}, {stop}]]')))
        for first, stop in ((0, 1), (0, 2), (1, 2), (2, 9))
    ]
    assert [len(texts) for texts in notified] == [1, 1, 1, 0]
    # How much of what is forgotten was in a range is not known.
    assert notified[0][0].startswith(
        f"up to {first.rows} rows of {folder} from 1970-01-01T00:00:00"
    )
    assert notified[0][0].endswith("were dropped for their age before they were read")
    assert notified[1][0].startswith(f"up to {first.rows + second.rows} rows of")
    assert notified[1][0].endswith("were dropped for their age and size before they were read")
    assert notified[2][0].startswith(f"{second.rows} rows of")
