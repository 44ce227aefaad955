"""Deletes files that no table names: those of old versions and of batches that were aborted."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.spark.lake.buckets import HOUR_NS
from skerry.spark.lake.lake import KEEP_HOURS, SAFE_HOURS, Lake

__all__ = ["KEEP_HOURS", "Vacuumed", "vacuum"]

_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_ENTRY: Final = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    """The number and size of the deleted files."""

    file_count: int
    byte_count: int


def vacuum(lake: Lake, keep_hours: float = KEEP_HOURS, *, dry_run: bool = False) -> Vacuumed:
    """Delete files that no table has named for `keep_hours`; with `dry_run`, only count them.

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
