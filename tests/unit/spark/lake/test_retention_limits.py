from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.lake.retention_limits import KEPT_FILE, kept_from, require_kept, write_kept
from skerry.spark.lake.store import TableStore

HOUR_NS = 1_794_751_200 * 10**9


def test_instants_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    assert kept_from(store) == {}
    write_kept(store, {"Vessel": HOUR_NS})
    assert kept_from(store) == {"Vessel": HOUR_NS}


def test_queries_about_deleted_rows_are_rejected(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    require_kept(store, "Vessel", 0)
    write_kept(store, {"Vessel": HOUR_NS})
    require_kept(store, "Vessel", HOUR_NS)
    require_kept(store, "Buoy", 0)
    with pytest.raises(
        PipelineError, match="Vessel are kept only from 2026-11-15T14:00:00Z"
    ) as caught:
        require_kept(store, "Vessel", HOUR_NS - 1)
    assert "rollups/Vessel" in str(caught.value.hint)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kept_from_ns": []}', '{"kept_from_ns": {"V": "x"}}']
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "_skerry").mkdir()
    (tmp_path / KEPT_FILE).write_text(text)
    with pytest.raises(PipelineError, match="is damaged"):
        kept_from(TableStore(tmp_path))
