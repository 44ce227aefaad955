"""The work of the tasks of a batch, as the driver derives it from manifests and a survey.

The rows of a table are divided into *slots* by the hash of their object, so that each slot is small
enough for one task and has all rows of its objects. A slot of a cached type owns whole parts of
`latest` and `gone`, which it reads and rewrites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.schema import TypedSchema
from skerry.spark.merging.duplicates import RowDecisions
from skerry.spark.merging.survey import TableAssignment
from skerry.spark.source.planning import Run

SLOT_BYTES = 32 * 1024 * 1024
"""Recorded bytes of a slot; a task needs about five times as much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    name: str
    """The name below `updates/` and so on, or `raw`."""
    schema: TypedSchema | None = None
    """None for `raw`."""
    is_cached: bool = False
    first_slot: int = 0
    slot_count: int = 1
    part_count: int = 1
    part_count_before: int = 1
    latest: tuple[DataFile, ...] = ()
    gone: tuple[DataFile, ...] = ()
    known: tuple[DataFile, ...] = ()
    """For `raw`: files that may have rows of this batch."""
    decisions: RowDecisions = field(default_factory=RowDecisions)
    updates: tuple[DataFile, ...] = ()
    """If rows are late: files with updates that may be merged again."""
    history: tuple[DataFile, ...] = ()
    """If rows are late: files with states that may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    root: str
    folder: str
    """Name of the folder below each table that new files go to."""
    bucket_ns: int
    assignment: TableAssignment
    tables: Mapping[int, TableWork]
    """By number; rows of any other table are skipped."""
    tasks: Sequence[tuple[Run, ...]]
    partitions: Mapping[int, int] = field(default_factory=dict)
    """The writing task of each slot; small slots share a task."""

    def table_of(self, slot: int) -> int:
        for number, table in self.tables.items():
            if table.first_slot <= slot < table.first_slot + table.slot_count:
                return number
        raise KeyError(slot)

    def required(self) -> list[int]:
        """Slots that have work even without rows: files of all slots are written again."""
        return [
            table.first_slot + index
            for table in self.tables.values()
            if table.decisions.is_late
            or (table.is_cached and table.part_count != table.part_count_before)
            for index in range(table.slot_count)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """The files and the number of rows of one merged slot."""

    table: int
    rows: int = 0
    is_late: bool = False
    """Whether a row precedes a known change of its object; then nothing was written."""
    added: tuple[tuple[str, DataFile], ...] = ()
    """New files, each with the kind of its table."""
    removed: tuple[tuple[str, str], ...] = ()
    """Paths of replaced files, each with the kind of its table."""


def slot_count_for(byte_count: int, slot_bytes: int = SLOT_BYTES) -> int:
    """The number of slots for a table of this size: a power of two."""
    count = 1
    while count * slot_bytes < byte_count:
        count *= 2
    return count
