"""Reads batches of segments as rows for Spark; runs in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP
from skerry.errors import PipelineError
from skerry.recording.format import block_at
from skerry.runtime.recordings.files.segment_files import read_blocks
from skerry.runtime.recordings.reader import read_block
from skerry.schema.model import StructType
from skerry.spark.lake.schema import ENVELOPE, PAYLOAD_BYTES, RAW, ROW_ORIGIN, payload_schema
from skerry.spark.source.columnar_decoder import decode_payloads
from skerry.spark.source.planning import Run, Wanted

_PIECE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Maximum size of payloads that are decoded at once: larger batches are cut. One byte can become an
enum name of 128 bytes, and a column of text is limited to two gigabytes."""
_ORIGIN_NAMES: Final = frozenset(field.name for field in ROW_ORIGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The columns and the selection of rows."""

    wanted: Wanted
    columns: tuple[str, ...]
    reader: StructType | None = None
    """Decodes the type whose fields become columns; None for rows as recorded."""
    is_strict: bool = False

    @property
    def schema(self) -> pa.Schema:
        typed = None if self.reader is None else [*ENVELOPE, *payload_schema(self.reader)]
        known = RAW if typed is None else pa.schema(typed)
        return pa.schema([known.field(name) for name in self.columns])


def read_runs(runs: Iterable[Run], shape: RowShape) -> Iterator[pa.RecordBatch]:
    """The rows of the runs, in recorded order."""
    for run in runs:
        batches = run.segment.batches
        wanted = [i for i in range(run.first, run.stop) if shape.wanted.has_batch(batches[i])]
        blocks = read_blocks(run.segment, (batches[index] for index in wanted))
        for index, (noted, block) in zip(wanted, blocks, strict=True):
            batch = read_block(block, noted, space=run.space)
            if shape.is_strict and _is_damaged(batch, block):
                raise _damage(run, index)
            yield from rows_of(batch, shape, (run.recording, run.segment.name, index))


def rows_of(
    batch: pa.RecordBatch, shape: RowShape, origin: tuple[str, str, int]
) -> Iterator[pa.RecordBatch]:
    """The wanted rows of one recorded batch; `origin` has the values of ROW_ORIGIN."""
    schema = shape.schema
    for piece in pieces_of(_selected(batch, shape)):
        columns: dict[str, pa.Array] = {}
        if shape.reader is not None:
            fields = [name for name in shape.columns if name not in ENVELOPE.names]
            if fields:
                decoded = decode_payloads(shape.reader, piece.column("payload"), fields)
                columns = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        constants = dict(zip((field.name for field in ROW_ORIGIN), origin, strict=True))
        for name in shape.columns:
            if name in _ORIGIN_NAMES:
                value = pa.scalar(constants[name], RAW.field(name).type)
                columns[name] = pa.repeat(value, piece.num_rows)
            elif name == PAYLOAD_BYTES:
                columns[name] = pc.binary_length(piece.column("payload")).cast(pa.int64())
            elif name not in columns:
                # The types that Spark has: no dictionaries, no unsigned integers.
                columns[name] = piece.column(name).cast(RAW.field(name).type)
        yield pa.RecordBatch.from_arrays([columns[name] for name in shape.columns], schema=schema)


def _selected(batch: pa.RecordBatch, shape: RowShape) -> pa.RecordBatch:
    """The wanted rows; the batch itself if all are wanted."""
    masks = [mask for mask in _masks(batch, shape) if not mask.all()]
    if not masks:
        return batch
    return batch.filter(pa.array(np.logical_and.reduce(masks)))


def _masks(batch: pa.RecordBatch, shape: RowShape) -> Iterator[np.ndarray]:
    wanted = shape.wanted
    if wanted.types is not None:
        yield _has_name(batch.column("type"), wanted.types)
    if shape.reader is not None:
        # A gap row may name the type, but has none of its fields.
        yield batch.column("operation").to_numpy() != GAP
    if wanted.fingerprints is not None:
        numbers = batch.column("fingerprint").to_numpy()
        yield np.isin(numbers, np.fromiter(wanted.fingerprints, np.int64))
    times = batch.column("time_ns").to_numpy()
    if wanted.from_ns is not None:
        yield times >= wanted.from_ns
    if wanted.to_ns is not None:
        yield times < wanted.to_ns


def _has_name(column: pa.DictionaryArray, names: frozenset[str]) -> np.ndarray:
    """Which rows have one of these names; compares the distinct names only."""
    is_named = np.array([name in names for name in column.dictionary.to_pylist()], bool)
    found: np.ndarray = is_named[column.indices.to_numpy()]
    return found


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, cut into pieces of limited payload size; nothing if it has no rows."""
    if batch.num_rows == 0:
        return
    payload = batch.column("payload")
    if payload.nbytes <= _PIECE_BYTES_MAX:
        yield batch
        return
    sizes = pc.binary_length(payload).to_numpy()
    start, size = 0, 0
    for index, length in enumerate(sizes.tolist()):
        if index > start and size + length > _PIECE_BYTES_MAX:
            yield batch.slice(start, index - start)
            start, size = index, 0
        size += length
    yield batch.slice(start)


def _is_damaged(batch: pa.RecordBatch, block: memoryview) -> bool:
    """Whether the batch is the gap row that replaces a damaged batch."""
    # A recorded gap row looks the same, but its block is intact.
    is_gap = batch.num_rows == 1 and batch.column("operation")[0].as_py() == GAP
    return is_gap and block_at(block, 0) is None


def _damage(run: Run, index: int) -> PipelineError:
    error = PipelineError(f"batch {index} of {run.segment.uri} is damaged")
    error.hint = "read without the option strict; the missing updates become a gap row"
    return error
