from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.lake.updates import slices
from skerry.spark.lake.data_files import DataFile

FIRST_NS, STOP_NS = -50, 300


def file(low: int | None, high: int | None, rows: int = 10, size: int = 1000) -> DataFile:
    return DataFile(
        path="x",
        byte_count=size,
        rows=rows,
        parts={},
        low={} if low is None else {"order_ns": low},
        high={} if high is None else {"order_ns": high},
    )


ranges = st.lists(st.tuples(st.integers(-100, 400), st.integers(0, 200), st.integers(0, 50)))


@given(ranges, st.integers(1, 60), st.integers(1, 20), st.booleans())
def test_every_instant_of_the_files_is_in_one_slice(
    found: list[tuple[int, int, int]], rows_max: int, step: int, is_bounded: bool
) -> None:
    files = [file(low, low + length, rows) for low, length, rows in found]
    bounds = {"first_ns": FIRST_NS, "stop_ns": STOP_NS} if is_bounded else {}
    made = slices(files, "order_ns", step_ns=step, rows_max=rows_max, **bounds)
    for (_, stop), (first, _) in pairwise(made):
        assert stop <= first
    for first, stop in made:
        assert first < stop
        assert first % step == stop % step == 0
    for low, length, _ in found:
        for instant in range(low, low + length + 1):
            wanted = not is_bounded or FIRST_NS <= instant < STOP_NS
            inside = sum(first <= instant < stop for first, stop in made)
            # Beyond the bounds a slice may reach, up to the end of its step.
            assert inside == 1 or (not wanted and inside <= 1)


def test_a_slice_has_as_many_rows_or_bytes_as_fit() -> None:
    files = [file(100 * n, 100 * n + 99, rows=1000) for n in range(8)]
    assert len(slices(files, "order_ns", rows_max=8000)) == 1
    assert len(slices(files, "order_ns", rows_max=1000)) == 8
    assert len(slices(files, "order_ns", rows_max=8000, bytes_max=2000)) == 4


def test_rows_of_one_instant_are_never_parted() -> None:
    assert slices([file(7, 7, rows=10**9)], "order_ns") == [(7, 8)]


@pytest.mark.parametrize("bounds", [{}, {"first_ns": 5, "stop_ns": 9}])
def test_files_that_tell_no_times_may_have_any(bounds: dict[str, int]) -> None:
    (piece,) = slices([file(None, None)], "order_ns", **bounds)
    assert piece[0] <= 5
    assert piece[1] >= 9


def test_no_files_and_no_time_have_no_slice() -> None:
    assert slices([], "order_ns") == []
    assert slices([file(0, 9)], "order_ns", first_ns=20) == []
