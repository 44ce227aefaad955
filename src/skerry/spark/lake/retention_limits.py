"""The instant from which the rows of each type are kept; retention has deleted earlier rows.

`_skerry/retention.json` has the instant for each type. It is written before rows are deleted, so
that a query about an earlier time is rejected rather than answered from incomplete rows. Spark is
not imported here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from skerry.errors import PipelineError
from skerry.spark.lake.store import TableStore

KEPT_FILE: Final = "_skerry/retention.json"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def kept_from(store: TableStore) -> dict[str, int]:
    """By table of a type, the instant from which its rows are kept; other tables are complete."""
    text = store.read_text(KEPT_FILE)
    if text is None:
        return {}
    try:
        return {str(table): int(ns) for table, ns in json.loads(text)["kept_from_ns"].items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        fault = PipelineError(f"{store.root}/{KEPT_FILE} is damaged")
        fault.hint = 'restore it; its form is {"kept_from_ns": {"Vessel": 1794751200000000000}}'
        raise fault from error


def write_kept(store: TableStore, kept: Mapping[str, int]) -> None:
    """Replace the stored instants atomically."""
    store.write_text(KEPT_FILE, json.dumps({"kept_from_ns": dict(sorted(kept.items()))}))


def require_kept(store: TableStore, table: str, at_ns: int) -> None:
    """PipelineError if retention has deleted the states of an instant."""
    since_ns = kept_from(store).get(table)
    if since_ns is None or at_ns >= since_ns:
        return
    since = _EPOCH + timedelta(microseconds=since_ns // 1000)
    error = PipelineError(f"states of {table} are kept only from {since:%Y-%m-%dT%H:%M:%SZ}")
    error.hint = f"rollups/{table} has figures by the minute for earlier times"
    raise error
