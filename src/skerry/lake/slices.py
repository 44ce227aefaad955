"""Slices of time whose rows fit into memory, by the statistics of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skerry.spark.lake.data_files import DataFile

SLICE_ROWS: Final = 500_000
SLICE_BYTES: Final = 32 * 1024 * 1024
"""Size of compressed files; in memory the rows need several times as much."""

_Slice = tuple[int, int]


def slices(
    files: Sequence[DataFile],
    column: str,
    *,
    first_ns: int | None = None,
    stop_ns: int | None = None,
    step_ns: int = 1,
    rows_max: int = SLICE_ROWS,
    bytes_max: int = SLICE_BYTES,
) -> list[_Slice]:
    """Consecutive half-open ranges of `column` that together cover all rows of the files.

    Each has at most about `rows_max` rows and `bytes_max` bytes, estimated from the lowest and
    highest values of the files, and begins and ends at a multiple of `step_ns`. `first_ns` and
    `stop_ns` limit the ranges; None leaves that end open.
    """
    lows = [file.low[column] for file in files if column in file.low]
    highs = [file.high[column] for file in files if column in file.high]
    if not files or (not lows and (first_ns is None or stop_ns is None)):
        return [] if not files else [(_LOWEST, _HIGHEST)]
    low = min(lows) if len(lows) == len(files) else _LOWEST
    high = max(highs) + 1 if len(highs) == len(files) else _HIGHEST
    first = low if first_ns is None else max(low, first_ns)
    stop = high if stop_ns is None else min(high, stop_ns)
    if first >= stop:
        return []
    first -= first % step_ns
    stop += -stop % step_ns
    found: list[_Slice] = []
    _divide(list(files), column, (first, stop), step_ns, (rows_max, bytes_max), found)
    return found


_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


def _divide(
    files: list[DataFile],
    column: str,
    piece: _Slice,
    step_ns: int,
    bounds: tuple[int, int],
    found: list[_Slice],
) -> None:
    first, stop = piece
    inside = [file for file in files if file.may_have(column, first, stop - 1)]
    if not inside:
        return
    rows = sum(_share(file, column, piece) * file.rows for file in inside)
    size = sum(_share(file, column, piece) * file.byte_count for file in inside)
    middle = first + (stop - first) // 2 // step_ns * step_ns
    if (rows <= bounds[0] and size <= bounds[1]) or middle == first:
        found.append(piece)
        return
    _divide(inside, column, (first, middle), step_ns, bounds, found)
    _divide(inside, column, (middle, stop), step_ns, bounds, found)


def _share(file: DataFile, column: str, piece: _Slice) -> float:
    """The estimated share of the rows of a file in a slice."""
    first, stop = piece
    low, high = file.low.get(column, first), file.high.get(column, stop - 1)
    length = high - low + 1
    return float(max(0, min(high + 1, stop) - max(low, first)) / length)
