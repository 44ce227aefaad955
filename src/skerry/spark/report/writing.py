"""The report as a file.

findings = report(skerry.spark.tables(spark, "lake/"), "report.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from skerry.runtime.whole_files import replace_files
from skerry.spark.report.findings import SLOW_MS, Findings, Source, TableSize, gather
from skerry.spark.report.page import page

__all__ = ["report"]


def report(
    tables: Source,
    path: str | Path,
    *,
    sizes: Sequence[TableSize] = (),
    made: datetime | None = None,
    slow_ms: float = SLOW_MS,
    has_own: bool = False,
) -> Findings:
    """Write the page, and give back what stands in it.

    `sizes` are those of the tables (`skerry.spark.report.sizes`), and `made` says when it was made;
    `slow_ms` and `has_own` are those of `gather`.
    """
    findings = gather(tables, sizes, slow_ms=slow_ms, has_own=has_own)
    text = page(findings, made=made or datetime.now(UTC))
    replace_files({Path(path): text.encode()})
    return findings
