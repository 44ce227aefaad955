"""Verifies every byte of a recording against its manifest.

A **fault** is lost or wrong data: a damaged batch, a missing file, updates that the recorder
dropped. A **note** may be correct, but a reader may want to know it: a type without a description,
rows of a node out of order, the losses of a crash, updates published while no recorder was
connected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP, SNAPSHOT
from skerry.errors import RecordingError
from skerry.limits import RECORDING_FINDING_COUNT_MAX
from skerry.recording.descriptions import described_types, description_rows
from skerry.recording.format import END_OF_STREAM, block_at, decode_block, head_at
from skerry.recording.gaps import readable_gap
from skerry.recording.index import NO_CRC, RecordedBatch, Segment, batch_of_rows
from skerry.recording.json_rows import time_text
from skerry.recording.scanning import scan
from skerry.runtime.recordings.files.segment_files import read_open
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFinding:
    is_fault: bool
    segment: str
    """Name of the segment; empty if the finding concerns the recording."""
    batch: int
    """Index of the batch in the segment; -1 if the finding concerns the segment."""
    rows: int
    """Number of lost rows; 0 if none is lost or the number is unknown."""
    detail: str

    def __str__(self) -> str:
        subject = f"{self.segment}: " if self.segment else ""
        subject += f"batch {self.batch}: " if self.batch >= 0 else ""
        lost = f" ({self.rows} rows are lost)" if self.rows else ""
        return f"{subject}{self.detail}{lost}"


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """The findings of a verification."""

    segment_count: int = 0
    batch_count: int = 0
    row_count: int = 0
    """Batches and rows that can be read."""
    byte_count: int = 0
    lost_row_count: int = 0
    findings: list[VerifyFinding] = field(default_factory=list)
    """The first findings, up to a limit."""
    finding_count: int = 0
    fault_count: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost or wrong."""
        return self.fault_count == 0

    def fault(self, detail: str, *, segment: str = "", batch: int = -1, rows: int = 0) -> None:
        self.fault_count += 1
        self.lost_row_count += rows
        self._add(detail, segment, batch, rows, is_fault=True)

    def note(self, detail: str, *, segment: str = "", batch: int = -1) -> None:
        self._add(detail, segment, batch, 0, is_fault=False)

    def _add(self, detail: str, segment: str, batch: int, rows: int, *, is_fault: bool) -> None:
        self.finding_count += 1
        if len(self.findings) < RECORDING_FINDING_COUNT_MAX:
            self.findings.append(
                VerifyFinding(
                    is_fault=is_fault, segment=segment, batch=batch, rows=rows, detail=detail
                )
            )


def verify_recording(recording: Recording, *, on_progress: Progress | None = None) -> VerifyReport:
    """Verify every byte of the sealed segments, and how much of the open one is readable."""
    segments = recording.segments()
    total = sum(segment.byte_count for segment in segments)
    found = VerifyReport(segment_count=len(segments), byte_count=total)
    if not recording.has_manifest:
        found.fault("there is no manifest, so nothing of it can be read")
    for line in recording.lines.unreadable:
        found.fault(f"line {line + 1} of the manifest cannot be read")
    if count := recording.lines.forgotten.unreadable:
        found.fault(f"{count} lines could not be read that were removed from the manifest since")
    if count := recording.lines.forgotten.repairs:
        found.note(f"crashes left {count} segments open whose lines were removed from the manifest")
    for repair in recording.lines.repairs:
        found.note(
            f"a crash left it open; {repair.kept_batches} batches with {repair.kept_rows} rows"
            f" were kept and {repair.lost_bytes} bytes behind them cut off",
            segment=repair.name,
        )
    for name in recording.unindexed:
        found.fault("it is not a segment, or is still being copied", segment=name)
    order = _Order()
    done = 0
    for segment in segments:
        _Check(recording, segment, found, order).run()
        done += segment.byte_count
        if on_progress is not None:
            on_progress(done, total)
    _check_open(recording, found)
    return found


class _Order:
    """The last position of each node; positions increase in the segments of one recorder."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def fault(self, recorder: str, rows: pa.RecordBatch) -> str | None:
        """The first row out of order as text, or None."""
        operations = rows.column("operation").to_numpy()
        positions = rows.column("position").to_numpy()
        nodes = rows.column("node").to_numpy()
        is_placed = (operations != GAP) & (operations != SNAPSHOT) & (positions > 0)
        for node in np.unique(nodes[is_placed]).tolist():
            own = positions[is_placed & (nodes == node)]
            last = self._last.get((recorder, node), 0)
            self._last[recorder, node] = max(last, int(own.max()))
            steps = np.diff(own, prepend=last)
            if (steps <= 0).any():
                at = int(own[int(np.argmax(steps <= 0))])
                return f"position {at} of node {node} follows a higher one or is repeated"
        return None


class _Check:
    def __init__(
        self, recording: Recording, segment: Segment, found: VerifyReport, order: _Order
    ) -> None:
        self._recording = recording
        self._segment = segment
        self._found = found
        self._order = order
        self._described: set[int] = set()
        self._missing: set[tuple[str, int]] = set()

    def run(self) -> None:
        name = self._segment.name
        try:
            data = self._recording.data(self._segment)
        except RecordingError as error:
            self._found.fault(str(error), segment=name, rows=self._segment.rows)
            return
        if data is None:
            return  # It was dropped since it was listed.
        if not data:
            self._found.fault("its file is missing", segment=name, rows=self._segment.rows)
            return
        self._check_frame(data)
        for index, batch in enumerate(self._segment.batches):
            self._check_batch(data, index, batch)
        for type_name, number in sorted(self._missing):
            self._found.note(
                f"{type_name} with fingerprint {number} is not described before its first row",
                segment=name,
            )

    def _check_frame(self, data: memoryview) -> None:
        """Check the bytes outside the batches."""
        segment = self._segment
        head = head_at(data)
        if head is None:
            self._found.fault("its header is damaged; the batches are not", segment=segment.name)
        if len(data) != segment.byte_count:
            self._found.fault(
                f"it has {len(data)} bytes; the manifest states {segment.byte_count}",
                segment=segment.name,
            )
        stop = head.stop if head is not None else None
        for index, batch in enumerate(segment.batches):
            if stop is not None and batch.offset != stop:
                self._found.fault(
                    f"{batch.offset - stop} bytes before it do not belong to a batch",
                    segment=segment.name,
                    batch=index,
                )
            stop = batch.stop
        if stop is not None and bytes(data[stop:]) != END_OF_STREAM:
            self._found.fault("its end marker is missing or damaged", segment=segment.name)

    def _check_batch(self, data: memoryview, index: int, batch: RecordedBatch) -> None:
        name = self._segment.name
        block = block_at(data[: batch.stop], batch.offset)
        if batch.crc == NO_CRC or block is None or block.crc != batch.crc:
            self._found.fault("it is damaged", segment=name, batch=index, rows=batch.rows)
            return
        try:
            rows = decode_block(data[batch.offset : batch.stop], is_checked=False)
        except RecordingError as error:
            self._found.fault(str(error), segment=name, batch=index, rows=batch.rows)
            return
        self._found.batch_count += 1
        self._found.row_count += rows.num_rows
        content = batch_of_rows(rows, offset=batch.offset, size=batch.size, crc=batch.crc)
        if content.batch != batch:
            self._found.fault(
                "its content differs from what the manifest states", segment=name, batch=index
            )
        if batch.has_descriptors:
            self._described |= described_types(description_rows(rows)).keys()
        self._missing |= {
            pair for pair in content.definitions if pair[1] not in self._described and pair[1]
        }
        if fault := self._order.fault(name.rpartition("-")[0], rows):
            self._found.note(fault, segment=name, batch=index)
        self._report_gaps(rows, index)

    def _report_gaps(self, rows: pa.RecordBatch, index: int) -> None:
        gaps = rows.filter(pc.equal(rows.column("operation"), GAP))
        for payload, node in zip(gaps.column("payload"), gaps.column("node"), strict=True):
            gap, name = readable_gap(payload.as_py()), self._segment.name
            when = f"from {time_text(gap.first_ns)} to {time_text(gap.last_ns)}"
            where = f"of node {node.as_py()}, {when}: {gap.reason}"
            if gap.is_dropped:
                detail = f"the recorder dropped updates {where}"
                self._found.fault(detail, segment=name, batch=index, rows=gap.count)
            else:
                count = f"{gap.count:,}" if gap.count else "an unknown number of"
                self._found.note(f"{count} updates are missing {where}", segment=name, batch=index)


def _check_open(recording: Recording, found: VerifyReport) -> None:
    if recording.is_being_written:
        return
    for name in recording.open_names:
        try:
            scanned = scan(read_open(recording.folder / name))
        except RecordingError as error:
            if (recording.folder / name).exists():
                found.fault(str(error), segment=name)
            continue  # A recorder has started and sealed it.
        complete = sum(content.batch.crc != NO_CRC for content in scanned.contents)
        rows = sum(content.batch.rows for content in scanned.contents)
        found.fault(
            f"its recorder crashed: {complete} batches with {rows} rows are complete,"
            f" {scanned.tail} bytes behind them are not; the next recorder seals it",
            segment=name,
        )
