"""Many small files become few large ones, with the same rows in a good order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from skerry.spark.delta import Change, DataFile
from skerry.spark.file_systems import require_file_system
from skerry.spark.lake import Lake, delta_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Compacted", "compact", "compact_table"]

Compacted = tuple[int, int]
"""How many files became how many."""

_LARGE_BYTES: Final = 64 * 1024 * 1024
"""Files of this size are left alone."""
_ROWS_MAX: Final = 2_000_000
"""In one file, so that reading a table uses several cores."""
_ORDERS: Final = {
    "updates": ("order_ns", "node", "position"),
    "history": ("space", "key", "valid_from_ns", "position"),
    "snapshots": ("space", "key"),
    "latest": ("space", "key"),
    "gone": ("space", "key"),
    "raw": ("order_ns",),
}


def compact(lake: Lake) -> dict[str, Compacted]:
    """Compact all tables that gain by it."""
    require_file_system(lake.spark, lake.store)
    with lake.writing():
        # What a batch left to do counts on files that would be gone.
        lake.carry_out(lake.last_plan())
        made = {name: compact_table(lake, name) for name in lake.names()}
    return {name: counts for name, counts in made.items() if counts[0]}


def compact_table(lake: Lake, name: str) -> Compacted:
    """Compact the parts of one table that have several small files."""
    table = lake.table(name)
    contents = table.contents()
    files = [] if contents is None else _crowds(contents.files)
    if contents is None or not files:
        return 0, 0
    schema, divided = contents.schema, contents.divided_by
    rows = table.rows_of(lake.spark, replace(contents, files=tuple(files)))
    order = [column for column in _ORDERS.get(name.partition("/")[0], ()) if column in rows.columns]
    lake.trace(f"compact {name}")
    # One task for each part: within it the rows are in order, and few files come of it.
    together = rows.repartition(*divided).sortWithinPartitions(*divided, *order)
    added = table.stage(together, divided, label="c", rows_max=_ROWS_MAX)
    lake.trace(f"commit {name}")
    table.rewrite(_change(name, schema, divided, files, added))
    return len(files), len(added)


def _crowds(files: Iterable[DataFile]) -> list[DataFile]:
    parts: defaultdict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.byte_count < _LARGE_BYTES:
            parts[tuple(file.parts.items())].append(file)
    return [file for crowd in parts.values() if len(crowd) > 1 for file in crowd]


def _change(
    name: str,
    schema: pa.Schema,
    divided: tuple[str, ...],
    files: list[DataFile],
    added: list[DataFile],
) -> Change:
    return Change(
        table=name,
        schema=delta_schema(schema),
        divided_by=divided,
        added=tuple(added),
        removed=tuple(file.path for file in files),
    )
