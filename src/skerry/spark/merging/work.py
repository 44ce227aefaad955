"""What the tasks of a batch have to do, as the driver decides it from manifests and a survey.

The rows of a table are divided into *slots* by the hash of their object, so that each slot is small
enough for one task and has all rows of its objects. A slot of a table of objects owns whole parts
of `latest` and `gone`, which it reads and writes again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skerry.spark.lake.delta import DataFile
from skerry.spark.lake.schema import TypedSchema
from skerry.spark.merging.identity import CounterGroup, Numbers
from skerry.spark.merging.survey import Placing
from skerry.spark.source.planning import Run

__all__ = ["SLOT_BYTES", "SlotResult", "TableWork", "Work", "slot_counts"]

SLOT_BYTES = 32 * 1024 * 1024
"""Recorded bytes of a slot: a task takes about five times as much memory for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    """What is to be done for one table."""

    name: str
    """Below `updates/` and so on; of `raw`, that."""
    schema: TypedSchema | None = None
    """None of `raw`."""
    is_cached: bool = False
    first_slot: int = 0
    slot_count: int = 1
    part_count: int = 1
    part_count_before: int = 1
    latest: tuple[DataFile, ...] = ()
    gone: tuple[DataFile, ...] = ()
    known: tuple[DataFile, ...] = ()
    """Of `raw`: files that may have rows that come again."""
    orders: Mapping[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    """By node, ascending positions with their `order_ns`; of other nodes it is the time."""
    drops: Mapping[CounterGroup, Numbers] = field(default_factory=dict)
    """Numbers of rows that are in the table already, in ascending order."""
    has_doubles: bool = False
    """Whether the batch may have a row twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A whole batch."""

    root: str
    """Where the tables are."""
    folder: str
    """Name of the folder below each table that new files go to."""
    bucket_ns: int
    placing: Placing
    tables: Mapping[int, TableWork]
    """By number; rows of any other table are passed over."""
    tasks: Sequence[tuple[Run, ...]]
    """What each reading task reads."""
    partitions: Mapping[int, int] = field(default_factory=dict)
    """The writing task of each slot; one task has several small ones."""

    def table_of(self, slot: int) -> int:
        """The number of the table that a slot belongs to."""
        for number, table in self.tables.items():
            if table.first_slot <= slot < table.first_slot + table.slot_count:
                return number
        raise KeyError(slot)

    @property
    def slots(self) -> range:
        """All slots."""
        return range(sum(table.slot_count for table in self.tables.values()))

    def required(self) -> list[int]:
        """Slots that have work to do also if no row comes to them: their parts are divided anew."""
        return [
            table.first_slot + index
            for table in self.tables.values()
            if table.is_cached and table.part_count != table.part_count_before
            for index in range(table.slot_count)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """What a task did for one slot."""

    table: int
    slot: int
    rows: int = 0
    """Rows that were new."""
    is_late: bool = False
    """Whether an object is known to have changed after a row of this batch; nothing is written."""
    added: tuple[tuple[str, DataFile], ...] = ()
    """Files by the kind of their table."""
    removed: tuple[tuple[str, str], ...] = ()
    """Paths of files whose place these take, by the kind of their table."""


def slot_counts(byte_count: int, slot_bytes: int = SLOT_BYTES) -> int:
    """How many slots a table gets: a power of two."""
    count = 1
    while count * slot_bytes < byte_count:
        count *= 2
    return count
