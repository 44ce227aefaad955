"""Recordings give back what was put in, whatever that is, and lose only what was damaged."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.codec.envelope import GAP, OPERATION_NAMES, Update
from skerry.errors import RecordingError
from skerry.recording.format import (
    END_OF_STREAM,
    decode_block,
    encode_block,
    encode_head,
    head_at,
    to_record_batch,
)
from skerry.recording.gaps import gap_of
from skerry.recording.index import NO_CRC
from skerry.recording.rows import Rows
from skerry.recording.scanning import scan
from skerry.recording.updates import updates_of
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter

pytestmark = pytest.mark.slow

ID = "0123456789abcdef"
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

updates = st.builds(
    Update,
    type_name=TEXT,
    subject=TEXT,
    operation=st.integers(1, len(OPERATION_NAMES) - 1),
    present=st.integers(0, 2**32 - 1),
    key=st.binary(max_size=9),
    payload=st.binary(max_size=40),
    space=TEXT,
    fingerprint=INT64,
    sender=INT64,
    node=INT64,
    sequence=INT64,
    position=INT64,
    sent_ns=INT64,
    time_ns=INT64,
    source=st.sampled_from(["access", "distributor", "internal"]),
)


def batch_of(rows_in: Sequence[Update]) -> pa.RecordBatch:
    rows = Rows()
    for update in rows_in:
        rows.append_update(update)
    return to_record_batch(rows.take())


@given(st.lists(updates, max_size=20))
def test_rows_become_bytes_and_rows_again(rows: list[Update]) -> None:
    block, _ = encode_block(batch_of(rows), recording=ID, segment=1, number=0)
    batch = decode_block(bytes(block))
    batch.validate(full=True)
    assert list(updates_of(batch)) == rows


segments = st.lists(st.lists(updates, min_size=1, max_size=4), min_size=1, max_size=4)


def stream_of(batches: Sequence[Sequence[Update]]) -> tuple[bytes, list[tuple[int, int]]]:
    data = encode_head(ID, 1)
    places = []
    for number, rows in enumerate(batches):
        block, _ = encode_block(batch_of(rows), recording=ID, segment=1, number=number)
        places.append((len(data), len(data) + len(block)))
        data += bytes(block)
    return data + END_OF_STREAM, places


@settings(deadline=None)
@given(segments, st.data())
def test_one_flipped_byte_costs_at_most_its_batch(
    batches: list[list[Update]], data: st.DataObject
) -> None:
    stream, places = stream_of(batches)
    place = data.draw(st.integers(0, len(stream) - 1), label="place")
    damaged = bytearray(stream)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    found = scan(memoryview(damaged))
    whole = [(c.batch.offset, c.batch.stop) for c in found.contents if c.batch.crc != NO_CRC]
    assert whole == [span for span in places if not span[0] <= place < span[1]]
    lost = [content for content in found.contents if content.batch.crc == NO_CRC]
    head = head_at(memoryview(damaged))
    assert lost or found.tail or not found.has_end or head is None


@settings(deadline=None)
@given(segments, st.data())
def test_every_cut_leaves_all_whole_batches(
    batches: list[list[Update]], data: st.DataObject
) -> None:
    stream, places = stream_of(batches)
    size = data.draw(st.integers(0, len(stream)), label="size")
    found = scan(memoryview(stream[:size]))
    whole = [(content.batch.offset, content.batch.stop) for content in found.contents]
    assert whole == [span for span in places if span[1] <= size]


actions = st.lists(
    st.sampled_from(
        ["append", "append", "append", "flush", "seal", "reopen", "crash", "full", "give up"]
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(actions)
def test_whatever_happens_each_row_is_there_or_in_a_gap(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = play(folder, steps)
        recording = Recording(folder)
        found = list(read_updates([recording]))
        missed = sum(gap_of(update.payload).count for update in found if update.operation == GAP)
        positions = [update.position for update in found if update.operation != GAP]
        assert positions == expected
        # Rows that waited when the recorder died are gone without a gap; all others have one.
        assert missed + len(expected) + crashed_away(steps) == steps.count("append")
        assert verify_recording(recording).is_sound == (not missed)


def play(folder: Path, steps: Sequence[str]) -> list[int]:
    """Do it; the positions that have to be in the recording."""
    writer = RecordingWriter(folder, RecordingConfig(), space="local")
    written: list[int] = []
    waiting: list[int] = []
    number = 0
    for step in [*steps, "close"]:
        if step == "append":
            number += 1
            writer.append(row(number))
            waiting.append(number)
            continue
        if step in ("full", "give up"):
            fill_up(writer)
            if step == "give up":
                writer.leave_out(writer.rows.take(), "the disk is full")
                waiting = []
            continue
        if step == "crash":
            writer = crash(folder, writer)
            waiting = []
            continue
        {"flush": writer.flush, "seal": writer.seal}.get(step, writer.close)()
        written, waiting = written + waiting, []
        if step == "reopen":
            writer = RecordingWriter(folder, RecordingConfig(), space="local")
    return written


def crashed_away(steps: Sequence[str]) -> int:
    """Rows, and gaps that were not reported yet, that a crash took from memory."""
    gone = waiting = untold = 0
    for step in steps:
        if step == "append":
            waiting += 1
        elif step == "full":
            continue
        elif step == "give up":
            untold, waiting = untold + waiting, 0
        elif step == "crash":
            gone, waiting, untold = gone + waiting + untold, 0, 0
        else:
            # A gap is recorded before the next rows, or at the end.
            if waiting or step == "reopen":
                untold = 0
            waiting = 0
    return gone


def row(number: int) -> Update:
    return Update(
        type_name="T",
        subject="/T",
        operation=2,
        present=0,
        key=b"",
        payload=bytes(number % 7),
        node=1,
        sender=2,
        sequence=number,
        position=number,
        time_ns=number,
    )


def fill_up(writer: RecordingWriter) -> None:
    """Try to write while no file can grow."""
    if writer.rows.count:
        with no_room(), pytest.raises(RecordingError):
            writer.flush()


@contextmanager
def no_room() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def crash(folder: Path, writer: RecordingWriter) -> RecordingWriter:
    """Leave the folder as a killed process does, with half a batch and half a line, and go on."""
    if writer._segment is not None:
        writer._segment.close()
    writer._closing.close()
    for path in (*folder.glob("*.open"), *folder.glob(MANIFEST_NAME)):
        with path.open("ab") as file:
            file.write(b'{"half')
    return RecordingWriter(folder, RecordingConfig(), space="local")
