"""What a sink has published."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.sink.sink import PublishedParts


def test_a_part_that_was_published_is_known_from_then_on(tmp_path: Path) -> None:
    PublishedParts(tmp_path, "q").add(3, 1)
    ledger = PublishedParts(tmp_path, "q")
    assert ledger.has(3, 1)
    assert not ledger.has(3, 0)
    assert not ledger.has(4, 1)
    assert not PublishedParts(tmp_path, "other").has(3, 1)


def test_a_whole_batch_makes_its_parts_and_all_before_it_known(tmp_path: Path) -> None:
    ledger = PublishedParts(tmp_path, "q")
    assert ledger.last_batch() == -1
    for batch in (9, 10):
        ledger.add(batch, 0)
        ledger.finish(batch)
    assert ledger.last_batch() == 10
    assert ledger.has(10, 5)
    assert ledger.has(2, 0)
    assert not ledger.has(11, 0)
    # Only the last is kept: files do not pile up.
    assert [path.name for path in (tmp_path / "q").iterdir()] == ["10.done"]


def test_a_query_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    for name in ("../q", "..", ".", ""):
        with pytest.raises(PipelineError, match="cannot be the name"):
            PublishedParts(tmp_path, name)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    ledger = PublishedParts(tmp_path, "q")
    ledger.add(1, 0)
    for name in (".nfs0001", "notes", "1-x"):
        (tmp_path / "q" / name).touch()
    ledger.finish(1)
    assert ledger.last_batch() == 1
    assert {path.name for path in (tmp_path / "q").iterdir()} == {
        *("1.done", ".nfs0001", "notes", "1-x")
    }


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("a file, no folder")
    with pytest.raises(PipelineError, match="cannot record"):
        PublishedParts(tmp_path, "q").add(1, 1)
