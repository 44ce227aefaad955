"""Files that no table names any more: of old versions, and of batches that never ended."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.spark.lake import Lake

__all__ = ["KEEP_HOURS", "Vacuumed", "vacuum"]

KEEP_HOURS: Final = 168.0
"""A week: readers of old versions have ended by then, and so has every batch."""
_HOUR_NS: Final = 3_600_000_000_000
_SAFE_HOURS: Final = 1.0
"""A batch takes less: younger files may be those of one that is being made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    """What was deleted."""

    file_count: int
    byte_count: int


def vacuum(lake: Lake, keep_hours: float = KEEP_HOURS, *, dry_run: bool = False) -> Vacuumed:
    """Delete files that have been in no table for so long.

    With less than an hour nobody may be writing: files of a batch in the making look the same.
    """
    if keep_hours < 0:
        raise PipelineError(f"cannot keep files for {keep_hours} hours")
    is_alone = keep_hours < _SAFE_HOURS
    with lake.writing() if is_alone else nullcontext():
        if is_alone:
            lake.carry_out(lake.last_plan())
        before_ns = wall_ns() - int(keep_hours * _HOUR_NS)
        planned = _planned(lake)
        files = bytes_ = 0
        for name in lake.names():
            counts = _vacuum_table(lake, name, before_ns, planned, dry_run=dry_run)
            files, bytes_ = files + counts[0], bytes_ + counts[1]
    return Vacuumed(file_count=files, byte_count=bytes_)


def _planned(lake: Lake) -> set[str]:
    """Files of the last plan, which may not be in their tables yet."""
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
        # A file leaves its table long after it was written.
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
    """By file, when the log says that it was taken out of the table."""
    removed: dict[str, int] = {}
    for stored in lake.store.listed(f"{name}/_delta_log"):
        if not stored.path.endswith(".json"):
            continue
        for line in (lake.store.read_text(stored.path) or "").splitlines():
            action = json.loads(line).get("remove")
            if action is not None:
                removed[unquote(action["path"])] = action["deletionTimestamp"] * 1_000_000
    return removed
