"""Maintains tables after a batch: makes snapshots, compacts small files, deletes unused files."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.spark.jobs.compact import compact_table, crowded_parts
from skerry.spark.jobs.vacuum import vacuum
from skerry.spark.lake.buckets import DAY_NS, bucket_start_ns
from skerry.spark.lake.catalog import DIVIDED_BY, OBJECT, table_schema
from skerry.spark.lake.data_files import TableChange
from skerry.spark.lake.lake import Lake, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.transforms.snapshots import edges, snapshot_at

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
    name = f"snapshots/{state.table}"
    files = lake.stage("snapshots", state, rows, label=f"s{edge_ns}")
    lake.table(name).rewrite(
        TableChange(
            table=name,
            schema=delta_schema(table_schema("snapshots", state.schema)),
            divided_by=DIVIDED_BY["snapshots"],
            added=tuple(files),
        )
    )
