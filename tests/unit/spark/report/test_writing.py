"""The report as a file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from skerry.spark.report.findings import TableSize
from skerry.spark.report.writing import report


class Nothing:
    """A folder without tables."""

    def names(self) -> Sequence[str]:
        return []

    def frame(self, name: str) -> NoReturn:
        raise AssertionError(f"there is no table {name}")


@pytest.mark.slow
def test_page_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    sizes = [TableSize(name="raw", rows=3, files=1, byte_count=99)]
    findings = report(Nothing(), path, sizes=sizes, made=datetime(2026, 11, 15, 14, tzinfo=UTC))
    text = path.read_text(encoding="utf-8")
    assert "report of 2026-11-15 14:00:00" in text
    assert "99 B" in text
    assert findings.summary is None
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
