"""Selection of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from skerry.codec.envelope import GAP, Update
from skerry.errors import LocalProtocolError
from skerry.recording.index import batch_of_rows, damaged_content
from skerry.recording.selection import selection_of

BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


@pytest.fixture
def rows(batch_of: BatchOf, update_of: UpdateOf) -> pa.RecordBatch:
    return batch_of(
        update_of(1),
        update_of(2, type_name="Port", subject="/Port/2"),
        update_of(3, type_name="Port", subject="/harbour/north/3"),
        update_of(4, type_name="", subject="", operation=GAP),
        update_of(5),
    )


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"from_ns": 1002}, [2, 3, 4, 5]),
        ({"to_ns": 1002}, [1]),
        ({"from_ns": 1002, "to_ns": 1004}, [2, 3]),
        ({"types": ["Vessel"]}, [1, 4, 5]),
        ({"types": ["Vessel", "Port"]}, [1, 2, 3, 4, 5]),
        ({"types": []}, [4]),
        ({"subjects": ["/Port/*"]}, [2, 4]),
        ({"subjects": ["/harbour/...", "/Vessel/5"]}, [3, 4, 5]),
        ({"subjects": []}, [4]),
        ({"types": ["Port"], "subjects": ["/Port/*"], "from_ns": 0}, [2, 4]),
        ({"from_ns": 2000}, []),
    ],
)
def test_selected_rows_match(
    rows: pa.RecordBatch, asked: dict[str, Any], numbers: list[int]
) -> None:
    assert selection_of(**asked).rows_of(rows).column("sequence").to_pylist() == numbers


def test_gap_without_a_time_is_always_selected(batch_of: BatchOf, update_of: UpdateOf) -> None:
    rows = batch_of(update_of(1, operation=GAP, time_ns=0))
    assert selection_of(from_ns=10**18, types=["X"]).rows_of(rows).num_rows == 1


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({}, True),
        ({"from_ns": 1005}, True),
        ({"from_ns": 1006}, False),
        ({"to_ns": 1001}, False),
        ({"to_ns": 1002}, True),
        ({"types": ["Port"]}, True),
        ({"types": ["Other"]}, True),
    ],
)
def test_batches_are_selected_by_their_index(
    rows: pa.RecordBatch, asked: dict[str, Any], answer: bool
) -> None:
    """One that has a gap concerns every type."""
    noted = batch_of_rows(rows, offset=0, size=1, crc=1).batch
    assert selection_of(**asked).may_have(noted) is answer


def test_batch_of_other_types_is_left_out(batch_of: BatchOf, update_of: UpdateOf) -> None:
    noted = batch_of_rows(batch_of(update_of(1)), offset=0, size=1, crc=1).batch
    assert not selection_of(types=["Port"]).may_have(noted)


def test_damaged_batch_is_always_selected() -> None:
    assert selection_of(types=["Port"], from_ns=5).may_have(damaged_content(0, 8).batch)


def test_invalid_pattern_is_rejected() -> None:
    with pytest.raises(LocalProtocolError):
        selection_of(subjects=["no slash"])


def test_times_outside_the_column_are_limited(batch_of: BatchOf, update_of: UpdateOf) -> None:
    rows = batch_of(*(update_of(1, time_ns=time_ns) for time_ns in (-(2**63), 0, 2**63 - 2)))
    assert selection_of(from_ns=-(10**30), to_ns=10**30).rows_of(rows).num_rows == 3
    assert selection_of(from_ns=10**30).rows_of(rows).num_rows == 0
    assert selection_of(to_ns=-(10**30)).rows_of(rows).num_rows == 0
