"""Maintains tables after a batch: makes snapshots, compacts small files, deletes unused files."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.spark.lake.buckets import DAY_NS, HOUR_NS, bucket_start_ns
from skerry.spark.lake.catalog import OBJECT
from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.lake import KEEP_HOURS, SAFE_HOURS, Lake, change_of, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.merging.files import read_rows, write_file
from skerry.spark.transforms.asof import edges, snapshot_at

_LOG = logging.getLogger(__name__)

_CLEANED: Final = "_skerry/cleaned"
"""File with the time of the last automatic vacuum, ns since 1970."""


def maintain(lake: Lake, plan: Plan) -> None:
    """Make due snapshots and compact crowded parts of the tables that a batch changed."""
    tables = {change.table for change in plan.changes}
    with lake.batch():
        for table in sorted(tables):
            kind, _, name = table.partition("/")
            if kind == "history":
                make_snapshots(lake, plan.types[name])
            crowded = crowded_parts(lake.table(table).files(), lake.config.compact_files)
            if crowded:
                compact_table(lake, table, crowded)


def clean_up(lake: Lake) -> None:
    """Once a day, delete files that no table names any more; a failure is only logged.

    If files are kept for less than a day, the interval is as short: a job that follows replaces
    files every second. Must not be called within `Lake.batch`: it needs the current logs.
    """
    hours = lake.config.vacuum_hours
    if hours is None:
        return
    now_ns = wall_ns()
    last_ns = _cleaned_ns(lake)
    period_ns = min(DAY_NS, int(hours * DAY_NS / 24))
    if last_ns is not None and 0 <= now_ns - last_ns < period_ns:
        return
    if last_ns is not None:
        try:
            done = vacuum(lake, hours)
        except (OSError, PipelineError) as error:
            _LOG.warning("automatic vacuum failed", extra={"detail": str(error)})
        else:
            _LOG.info("vacuum", extra={"files": done.file_count, "bytes": done.byte_count})
    # Also for a new lake, which has nothing to delete yet.
    lake.store.write_text(_CLEANED, str(now_ns))


def _cleaned_ns(lake: Lake) -> int | None:
    """The time of the last vacuum, or None if there was none."""
    try:
        text = lake.store.read_text(_CLEANED)
        return None if text is None else int(text)
    except ValueError:
        # A damaged file: one more vacuum does no harm.
        return 0


def make_snapshots(lake: Lake, state: TypeState) -> int:
    """Make the missing snapshots of a type, if it is large enough; returns their number."""
    history = lake.table(f"history/{state.table}").files()
    if sum(file.rows for file in history) < lake.config.snapshot_rows:
        return 0
    length = lake.config.bucket_ns
    last_end_ns = max(file.high["valid_to_ns"] for file in history)
    made = lake.table(f"snapshots/{state.table}").files()
    last = max((int(file.parts["until_ns"] or 0) for file in made), default=None)
    live = sum(file.rows for file in lake.table(f"latest/{state.table}").files())
    counts: Counter[int] = Counter()
    for file in history:
        counts[bucket_start_ns(file.low["valid_from_ns"], length)] += file.rows
    wanted = edges(
        counts,
        rows_min=max(live, lake.config.snapshot_rows // 8),
        after_ns=last,
        until_ns=bucket_start_ns(last_end_ns, length),
    )
    file_count = 1 + live // lake.config.part_rows
    for edge_ns, until_ns in wanted:
        _make_snapshot(lake, state, edge_ns, until_ns, file_count)
    return len(wanted)


def _make_snapshot(
    lake: Lake, state: TypeState, edge_ns: int, until_ns: int, file_count: int
) -> None:
    old = lake.rows(
        "history",
        state,
        lambda file: file.low["valid_from_ns"] <= edge_ns < file.high["valid_to_ns"],
    )
    now = lake.rows("latest", state)
    columns = [name for name in now.columns if name != "part"]
    states = old.select(*columns).unionByName(now.select(*columns))
    # Few sorted files: opening one costs a query as much as some thousand rows.
    rows = snapshot_at(states, edge_ns, until_ns).repartition(file_count, *OBJECT)
    rows = rows.sortWithinPartitions(*OBJECT)
    files = lake.stage("snapshots", state, rows, label=f"s{edge_ns}")
    lake.table(f"snapshots/{state.table}").rewrite(change_of("snapshots", state, files))


# -- compaction


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
    """Compact all tables that have small files; returns the counts of the compacted tables.

    The rows stay the same, in sorted order.
    """
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


# -- vacuum


_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_ENTRY: Final = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    file_count: int
    byte_count: int


def vacuum(lake: Lake, keep_hours: float = KEEP_HOURS, *, dry_run: bool = False) -> Vacuumed:
    """Delete files that no table has named for `keep_hours`; with `dry_run`, only count them.

    They are those of old versions, and of batches that were aborted.
    Below one hour the writer lock is held, because files of an unfinished batch look the same.
    """
    if keep_hours < 0:
        raise PipelineError(f"cannot keep files for {keep_hours} hours: the number is negative")
    is_alone = keep_hours < SAFE_HOURS
    with lake.writing() if is_alone else nullcontext():
        if is_alone:
            lake.commit_plan(lake.last_plan())
        before_ns = wall_ns() - int(keep_hours * HOUR_NS)
        planned = _planned(lake)
        files = bytes_ = 0
        for name in lake.names():
            counts = _vacuum_table(lake, name, before_ns, planned, dry_run=dry_run)
            files, bytes_ = files + counts[0], bytes_ + counts[1]
    return Vacuumed(file_count=files, byte_count=bytes_)


def _planned(lake: Lake) -> set[str]:
    """Files of the last plan, which may not be committed yet."""
    plan = lake.last_plan()
    return {f"{change.table}/{file.path}" for change in plan.changes for file in change.added}


def _vacuum_table(
    lake: Lake, name: str, before_ns: int, planned: set[str], *, dry_run: bool
) -> tuple[int, int]:
    table = lake.table(name)
    named = {f"{name}/{file.path}" for file in table.files()} | planned
    removed_ns = _removals(lake, name)
    count = size = 0
    folders: set[str] = set()
    for stored in lake.store.listed(name):
        inner = stored.path[len(name) + 1 :]
        if inner.startswith("_delta_log/") or stored.path in named:
            continue
        # A file may be removed from its table long after it was written.
        if max(stored.changed_ns, removed_ns.get(inner, 0)) > before_ns:
            continue
        count, size = count + 1, size + stored.byte_count
        folders.add(f"{name}/{inner.partition('/')[0]}")
        if not dry_run:
            lake.store.delete(stored.path)
    if not dry_run:
        for folder in folders:
            if not lake.store.listed(folder):
                lake.store.delete_folder(folder)
    return count, size


def _removals(lake: Lake, name: str) -> dict[str, int]:
    """By file, when it was removed from the table according to the log.

    A checkpoint has the removals of the last week, so entries before the last checkpoint are not
    read.
    """
    removed: dict[str, int] = {}
    stored = {
        file.path.rpartition("/")[2]: file for file in lake.store.listed(f"{name}/_delta_log")
    }
    checkpoints = [found for found in map(_CHECKPOINT.fullmatch, stored) if found is not None]
    last = max(checkpoints, key=lambda found: found[1], default=None)
    if last is not None:
        removed |= _removals_in(lake, stored[last[0]].path)
    for entry in filter(None, map(_ENTRY.fullmatch, stored)):
        if last is None or entry[1] > last[1]:
            for line in (lake.store.read_text(stored[entry[0]].path) or "").splitlines():
                action = json.loads(line).get("remove")
                if action is not None:
                    removed[unquote(action["path"])] = action["deletionTimestamp"] * 1_000_000
    return removed


def _removals_in(lake: Lake, checkpoint: str) -> dict[str, int]:
    """By file, when it was removed from the table according to a checkpoint."""
    import pyarrow.parquet as pq

    path = lake.store.arrow_path(checkpoint)
    with pq.ParquetFile(path, filesystem=lake.store.files) as file:
        rows = file.read(columns=["remove.path", "remove.deletionTimestamp"])
    # A checkpoint without removals may not have the column.
    actions = rows.column("remove").to_pylist() if "remove" in rows.column_names else []
    return {
        unquote(action["path"]): (action["deletionTimestamp"] or 0) * 1_000_000
        for action in actions
        if action is not None
    }
