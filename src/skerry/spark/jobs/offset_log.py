"""What a batch of a stream is to read: Spark writes it down before the batch begins.

The checkpoint of a query has a file for each batch under `offsets/`: a line with the version, a
line about the query, and a line for each source with the offset where the batch ends. It begins
where the one before ended. Our offsets say how many lines of each recording's manifest are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from skerry.errors import PipelineError
from skerry.spark.jobs.batch import Range
from skerry.spark.store import Store

__all__ = ["offset_of", "query_id", "ranges_of"]


def query_id(store: Store, checkpoint: str) -> str:
    """The identity of the query, which it keeps as long as its checkpoint."""
    text = store.read_text(f"{checkpoint}/metadata")
    if text is None:
        raise PipelineError(f"{store.root}/{checkpoint} is no checkpoint of a query")
    return str(json.loads(text)["id"])


def ranges_of(store: Store, checkpoint: str, batch: int) -> list[Range]:
    """The lines of the manifests that a batch consists of."""
    stop = offset_of(store, checkpoint, batch)
    if stop is None:
        raise PipelineError(f"batch {batch} has no entry in {store.root}/{checkpoint}/offsets")
    first = offset_of(store, checkpoint, batch - 1) if batch > 0 else {}
    if first is None:
        raise PipelineError(f"batch {batch - 1} has no entry in {store.root}/{checkpoint}/offsets")
    return [
        (name, first.get(name, 0), count)
        for name, count in sorted(stop.items())
        if count > first.get(name, 0)
    ]


def offset_of(store: Store, checkpoint: str, batch: int) -> Mapping[str, int] | None:
    """Where a batch ends; None if there is no entry of it."""
    text = store.read_text(f"{checkpoint}/offsets/{batch}")
    if text is None:
        return None
    lines = text.splitlines()
    if len(lines) < 3 or lines[0] not in ("v1", "v2"):
        raise PipelineError(f"the entry of batch {batch} in {checkpoint}/offsets is unreadable")
    plain = json.loads(lines[2])
    return {str(name): int(count) for name, count in plain.items()}
