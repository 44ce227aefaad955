"""The resume point: where the next recorder continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skerry.codec.envelope import DISTRIBUTOR, SNAPSHOT, Update
from skerry.recording.gaps import Gap
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.resume_point import ResumePoint
from skerry.runtime.recordings.writer import RecordingWriter

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


def ending(folder: Path) -> ResumePoint | None:
    with RecordingWriter(folder, space="local") as writer:
        return writer.resume_point


def test_new_recording_has_no_resume_point(tmp_path: Path) -> None:
    assert ending(tmp_path) is None
    assert ending(tmp_path) is None, "nor has one without rows"


def test_resume_point_is_the_last_update_with_a_position(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    last = update_of(15, node=4)
    after = [
        update_of(90, operation=SNAPSHOT),
        update_of(91, position=0),
        update_of(92, source=DISTRIBUTOR),
    ]
    recorded(tmp_path, [update_of(1), last, *after], rows_per_batch=2, batches_per_segment=1)
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append_gap(Gap(count=1, first_ns=1, last_ns=1))
        for update in after:
            writer.append(update)
    assert ending(tmp_path) == ResumePoint(node=0, position=0, time_ns=after[-1].time_ns)
    recorded(tmp_path, [last, *after], rows_per_batch=2)
    assert ending(tmp_path) == ResumePoint(node=4, position=15, time_ns=last.time_ns)


def test_updates_of_a_gap_at_the_end_are_not_counted_again(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    last_ns = update_of(9).time_ns
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append_gap(Gap(count=3, first=90, stop=93, last_ns=last_ns), node=-9)
        writer.append(update_of(5))
        writer.append_gap(Gap(count=4, first=6, stop=10, last_ns=last_ns), node=-9)
        writer.append_gap(Gap(count=4, first=6, stop=20), node=8)
        writer.append_gap(Gap(count=4, first=6, stop=20), node=-9, sender=4)
    assert ending(tmp_path) == ResumePoint(node=-9, position=9, time_ns=last_ns)


def test_resume_point_after_a_crash_is_in_the_last_complete_batch(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    writer = RecordingWriter(tmp_path, space="local")
    writer.append(update_of(1))
    writer.flush()
    writer.append(update_of(2))
    assert writer._segment is not None
    writer._segment.close()
    writer._closing.close()
    assert ending(tmp_path) == ResumePoint(node=-9, position=1, time_ns=update_of(1).time_ns)


def test_copied_segments_have_no_resume_point(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "here", [update_of(1)])
    (theirs,) = recorded(tmp_path / "there", [update_of(5, node=4)]).segments()
    (tmp_path / "here" / theirs.name).write_bytes(theirs.path.read_bytes())
    assert len(Recording(tmp_path / "here").segments()) == 2
    found = ending(tmp_path / "here")
    assert found is not None
    assert (found.node, found.position) == (-9, 1)


def test_missing_segment_has_no_resume_point(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    (segment,) = recorded(tmp_path, [update_of(1)]).segments()
    segment.path.unlink()
    assert ending(tmp_path) is None
