"""Compacts many small files into few large ones, with the same rows in sorted order.

Arrow reads, sorts and writes as many files at a time as fit into memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import uuid4

import pyarrow as pa

from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.lake import Lake, delta_schema
from skerry.spark.merging.files import read_rows, write_file

Compacted = tuple[int, int]
"""The number of files before and after."""
_Part = tuple[tuple[str, str | None], ...]

_FULL_ROWS: Final = 50_000
_FULL_BYTES: Final = 4 * 1024 * 1024
"""A file of this size is not compacted: a larger one would not be read faster."""
_TOGETHER_ROWS: Final = 500_000
_TOGETHER_BYTES: Final = 24 * 1024 * 1024
"""Size of one compaction, which needs about ten times as much memory."""
_LEFT_OVER: Final = 4
"""Number of small files at which a part that gets no more rows is compacted."""
_ORDERS: Final = {
    "updates": ("order_ns", "node", "position"),
    "history": ("space", "key", "valid_from_ns", "position"),
    "snapshots": ("space", "key"),
    "latest": ("space", "key"),
    "gone": ("space", "key"),
    "raw": ("order_ns",),
}


def compact(lake: Lake) -> dict[str, Compacted]:
    """Compact all tables that have small files; returns the counts of the compacted tables."""
    with lake.writing():
        # An uncommitted plan refers to files that compaction would remove.
        lake.commit_plan(lake.last_plan())
        made = {name: compact_table(lake, name) for name in lake.names()}
    return {name: counts for name, counts in made.items() if counts[0]}


def crowded_parts(files: Iterable[DataFile], count_max: int) -> list[_Part]:
    """Parts with at least `count_max` small files; for parts before the newest, a few suffice."""
    parts = _small(files)
    newest = max(parts, key=str, default=None)
    return [
        part
        for part, small in parts.items()
        if len(small) >= (count_max if part == newest else min(count_max, _LEFT_OVER))
    ]


def compact_table(lake: Lake, name: str, parts: Iterable[_Part] | None = None) -> Compacted:
    """Compact the parts of one table with several small files, optionally only some parts."""
    contents = lake.table(name).contents()
    if contents is None:
        return 0, 0
    small = _small(contents.files)
    wanted = small.keys() if parts is None else set(parts)
    before = after = 0
    for part, files in small.items():
        if part in wanted and len(files) > 1:
            for group in _together(files):
                _compact_files(lake, name, contents, group, dict(part))
                before, after = before + len(group), after + 1
    return before, after


def _small(files: Iterable[DataFile]) -> dict[_Part, list[DataFile]]:
    parts: defaultdict[_Part, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.rows < _FULL_ROWS and file.byte_count < _FULL_BYTES:
            parts[tuple(sorted(file.parts.items()))].append(file)
    return parts


def _together(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Groups of files to compact together, at least two each."""
    group: list[DataFile] = []
    rows = size = 0
    for file in files:
        is_full = rows + file.rows > _TOGETHER_ROWS or size + file.byte_count > _TOGETHER_BYTES
        if len(group) > 1 and is_full:
            yield group
            group, rows, size = [], 0, 0
        group.append(file)
        rows, size = rows + file.rows, size + file.byte_count
    if len(group) > 1:
        yield group


def _compact_files(
    lake: Lake, name: str, contents: Contents, files: list[DataFile], part: dict[str, str | None]
) -> None:
    inside = pa.schema([f for f in contents.schema if f.name not in contents.divided_by])
    lake.trace(f"compact {name}")
    rows = pa.concat_tables([read_rows(lake.store, name, file, inside) for file in files])
    order = _ORDERS.get(name.partition("/")[0], ())
    keys = [(column, "ascending") for column in order if column in inside.names]
    rows = rows.sort_by(keys) if keys else rows
    values = {column: part[column] for column in contents.divided_by}
    added = write_file(lake.store, name, f"c-{uuid4().hex[:12]}", rows, values)
    lake.trace(f"commit {name}")
    lake.table(name).rewrite(
        TableChange(
            table=name,
            schema=delta_schema(contents.schema),
            divided_by=contents.divided_by,
            added=(added,),
            removed=tuple(file.path for file in files),
        )
    )
