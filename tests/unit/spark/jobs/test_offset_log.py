from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.jobs.offset_log import offset_of, query_id, ranges_of
from skerry.spark.store import Store


def entry(store: Store, batch: int, offset: str) -> None:
    store.write_text(f"c/offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{offset}\n')


def test_batch_begins_where_the_one_before_ended(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry(store, 0, '{"a": 2}')
    entry(store, 1, '{"a": 2, "b": 1}')
    entry(store, 2, '{"a": 5, "b": 3}')
    assert [ranges_of(store, "c", batch) for batch in range(3)] == [
        [("a", 0, 2)],
        [("b", 0, 1)],
        [("a", 2, 5), ("b", 1, 3)],
    ]
    assert offset_of(store, "c", 3) is None


def test_missing_and_unreadable_entries_are_errors(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(PipelineError, match="batch 4 has no entry"):
        ranges_of(store, "c", 4)
    entry(store, 4, '{"a": 2}')
    with pytest.raises(PipelineError, match="batch 3 has no entry"):
        ranges_of(store, "c", 4)
    store.write_text("c/offsets/5", "v9\n")
    with pytest.raises(PipelineError, match="batch 5 in c/offsets is unreadable"):
        offset_of(store, "c", 5)


def test_query_has_the_identity_of_its_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(PipelineError, match="no checkpoint"):
        query_id(store, "c")
    store.write_text("c/metadata", '{"id":"5b1f"}')
    assert query_id(store, "c") == "5b1f"
