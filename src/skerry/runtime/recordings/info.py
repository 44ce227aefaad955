"""Summary of the content of a recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP
from skerry.limits import RECORDING_FINDING_COUNT_MAX
from skerry.recording.gaps import Gap, readable_gap
from skerry.recording.index import Segment
from skerry.recording.manifest_lines import Repair
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSender:
    """A sender, and the number of its rows."""

    node: int
    sender: int
    source: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingInfo:
    id: str
    space: str
    created_ns: int
    is_being_written: bool
    segment_count: int
    """Including the segment that is being written."""
    batch_count: int
    row_count: int
    byte_count: int
    time_min_ns: int
    time_max_ns: int
    types: dict[str, int]
    """Number of rows by type."""
    fingerprints: dict[str, tuple[int, ...]]
    dropped: dict[str, int]
    """Number of dropped segments by reason: `age` or `size`."""
    repairs: tuple[Repair, ...]
    """The last repairs, up to a limit."""
    gaps: tuple[Gap, ...]
    """The first gaps, up to a limit. Damaged batches are gaps."""
    gap_count: int
    senders: tuple[RecordedSender, ...]
    """The senders with most rows, in that order, up to a limit."""
    sender_count: int


def inspect_recording(
    recording: Recording, *, on_progress: Progress | None = None
) -> RecordingInfo:
    """Summarize a recording by reading all of it, including the segment that is being written."""
    segments = recording.segments(include_open=True)
    found = _Found()
    total = sum(segment.rows for segment in segments)
    done = 0
    for segment in segments:
        for batch, rows in recording.batches(segment):
            found.add(rows)
            done += batch.rows
            if on_progress is not None:
                on_progress(done, total)
    types: Counter[str] = Counter()
    for segment in segments:
        types.update(segment.types)
    dropped = Counter(recording.lines.dropped.values())
    filled = [segment for segment in segments if segment.rows]
    return RecordingInfo(
        id=recording.id,
        space=recording.space,
        created_ns=recording.identity.created_ns,
        is_being_written=recording.is_being_written,
        segment_count=len(segments),
        batch_count=sum(len(segment.batches) for segment in segments),
        row_count=total,
        byte_count=sum(segment.byte_count for segment in segments),
        time_min_ns=min((segment.time_min_ns for segment in filled), default=0),
        time_max_ns=max((segment.time_max_ns for segment in filled), default=0),
        types=dict(sorted(types.items())),
        fingerprints=_fingerprints(segments),
        dropped=dict(dropped + Counter(recording.lines.forgotten.segments)),
        repairs=tuple(recording.lines.repairs[-RECORDING_FINDING_COUNT_MAX:]),
        gaps=tuple(found.gaps),
        gap_count=found.gap_count,
        senders=found.senders(),
        sender_count=len(found.row_counts),
    )


class _Found:
    """Facts that are only found in the rows."""

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.gap_count = 0
        self.row_counts: Counter[tuple[int, int, str]] = Counter()

    def add(self, rows: pa.RecordBatch) -> None:
        names = ["node", "sender", "source"]
        columns = [rows.column("node"), rows.column("sender"), rows.column("source").cast("string")]
        groups = pa.table(columns, names).group_by(names).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            origin = (row["node"], row["sender"], row["source"])
            self.row_counts[origin] += row["count_all"]
        gaps = rows.filter(pc.equal(rows.column("operation"), GAP)).column("payload")
        self.gap_count += len(gaps)
        for payload in gaps.slice(0, RECORDING_FINDING_COUNT_MAX - len(self.gaps)).to_pylist():
            self.gaps.append(readable_gap(payload))

    def senders(self) -> tuple[RecordedSender, ...]:
        most = self.row_counts.most_common(RECORDING_FINDING_COUNT_MAX)
        return tuple(
            RecordedSender(node=node, sender=sender, source=source, rows=rows)
            for (node, sender, source), rows in most
        )


def _fingerprints(segments: Sequence[Segment]) -> dict[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for segment in segments:
        for name, numbers in segment.fingerprints.items():
            found.setdefault(name, set()).update(numbers)
    return {name: tuple(sorted(numbers)) for name, numbers in sorted(found.items())}
