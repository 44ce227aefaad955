"""The files of a table, as its log describes them, and the changes a commit makes to them.

No file is opened here. `DataFile` and `TableChange` are written into plans by the names of their
fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

NULL_PART: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of a null partition value in paths."""
_TEXT_CHARS_MAX: Final = 32
"""Longer texts get no minimum and maximum in the log; they would have to be truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a table."""

    path: str
    """Relative to the table."""
    byte_count: int
    rows: int
    parts: Mapping[str, str | None]
    """Values of the columns the table is partitioned by."""
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    """Lowest and highest values of columns without nulls.

    A file that was read from a log has only those the pipeline uses, and only numbers.
    """

    def may_have(self, column: str, low: int, high: int) -> bool:
        """Whether a row may have a value between these, both included."""
        return bool(self.low.get(column, low) <= high and self.high.get(column, high) >= low)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What one commit changes in a table."""

    table: str
    schema: str
    """The columns, as Delta JSON."""
    divided_by: tuple[str, ...]
    added: tuple[DataFile, ...]
    removed: tuple[str, ...] = ()
    """Paths of files that the added ones replace."""
    is_replacing: bool = False
    """Whether all previous files are removed, which allows columns to change their types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The files and columns of a table when its log was read, or a selection of the files."""

    files: tuple[DataFile, ...]
    schema: pa.Schema
    divided_by: tuple[str, ...]

    def only(self, wanted: Callable[[DataFile], bool] | None) -> Contents:
        """The contents reduced to the files that match; None selects all."""
        if wanted is None:
            return self
        return replace(self, files=tuple(file for file in self.files if wanted(file)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    name: str
    rows: int
    files: int
    byte_count: int

    @classmethod
    def of(cls, name: str, contents: Contents) -> TableSize:
        return cls(
            name=name,
            rows=sum(file.rows for file in contents.files),
            files=len(contents.files),
            byte_count=sum(file.byte_count for file in contents.files),
        )


def column_ranges(footer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lowest and highest values in a Parquet footer, of the columns without nulls.

    Integers, short texts and timestamps are included, in the form of a Delta log. Floats are not:
    a footer does not state whether a column holds NaN, which engines sort above all other values.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    if footer.num_row_groups == 0:
        return low, high
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        groups = [footer.row_group(g).column(index) for g in range(footer.num_row_groups)]
        stats = [group.statistics for group in groups]
        if all(s is not None and s.has_min_max and s.null_count == 0 for s in stats):
            lowest, highest = min(s.min for s in stats), max(s.max for s in stats)
            if "." not in name and _is_loggable(lowest) and _is_loggable(highest):
                low[name], high[name] = _log_value(lowest), _log_value(highest, is_high=True)
    return low, high


def written_file(path: str, footer: Any, size: int, parts: Mapping[str, str | None]) -> DataFile:
    """A file that was just written, by its Parquet footer."""
    low, high = column_ranges(footer)
    return DataFile(
        path=path, byte_count=size, rows=footer.num_rows, parts=parts, low=low, high=high
    )


def _is_loggable(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _TEXT_CHARS_MAX
    return isinstance(value, int | datetime) and not isinstance(value, bool)


def _log_value(value: Any, *, is_high: bool = False) -> Any:
    """A value as logs hold it: timestamps in milliseconds, rounded outwards."""
    if not isinstance(value, datetime):
        return value
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if is_high and utc.microsecond % 1000:
        utc += timedelta(milliseconds=1)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03}Z"


def parts_of_path(path: str) -> dict[str, str | None]:
    """The partition values in the folder names of a path."""
    named = (piece.partition("=") for piece in path.split("/")[:-1])
    return {name: None if value == NULL_PART else unquote(value) for name, _, value in named}
