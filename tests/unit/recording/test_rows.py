"""Rows that wait for their batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skerry.codec.envelope import Update
from skerry.errors import LimitExceeded
from skerry.recording.format import to_record_batch
from skerry.recording.rows import RECORDING_ROWS_BYTES_MAX, ROW_BYTES, Rows
from skerry.recording.updates import updates_of

UpdateOf = Callable[..., Update]


def test_rows_are_read_back_unchanged(update_of: UpdateOf) -> None:
    updates = [update_of(number) for number in range(1, 20)]
    rows = Rows()
    for update in updates:
        rows.append_update(update)
    assert list(updates_of(to_record_batch(rows.take()))) == updates


def test_counts_and_ranges_are_those_of_the_rows(update_of: UpdateOf) -> None:
    rows = Rows()
    rows.append_update(update_of(5))
    rows.append_update(update_of(2))
    rows.append_update(update_of(9, position=0, time_ns=3000))
    assert (rows.count, rows.time_min_ns, rows.time_max_ns) == (3, 1002, 3000)
    assert (rows.position_min, rows.position_max) == (2, 5)
    columns = rows.take()
    assert (columns.count, columns.position_min, columns.position_max) == (3, 2, 5)


def test_size_is_about_that_of_the_batch(update_of: UpdateOf) -> None:
    rows = Rows()
    for number in range(1000):
        rows.append_update(update_of(number))
    notified = int(rows.byte_count)
    assert abs(to_record_batch(rows.take()).nbytes - notified) < 0.05 * notified
    assert notified >= 1000 * ROW_BYTES


def test_take_empties_the_rows(update_of: UpdateOf) -> None:
    rows = Rows()
    rows.append_update(update_of(1, type_name="Port", fingerprint=5))
    rows.take()
    assert (rows.count, rows.byte_count, rows.time_max_ns, rows.position_max) == (0, 0, 0, 0)
    rows.append_update(update_of(2))
    columns = rows.take()
    assert (columns.types, columns.definitions) == (["Vessel"], {("Vessel", 77)})


def test_large_payload_does_not_stay_in_memory_and_the_next_one_fits(update_of: UpdateOf) -> None:
    rows = Rows()
    large = update_of(1, payload=bytes(10_000_000))
    rows.append_update(large)
    assert list(updates_of(to_record_batch(rows.take()))) == [large]
    rows.append_update(update_of(2))
    assert list(updates_of(to_record_batch(rows.take()))) == [update_of(2)]


def test_definitions_have_each_fingerprint_of_each_type(update_of: UpdateOf) -> None:
    rows = Rows()
    for name, number in [("A", 1), ("B", 1), ("A", 2), ("A", 1), ("A", 2)]:
        rows.append_update(update_of(type_name=name, fingerprint=number))
    assert rows.take().definitions == {("A", 1), ("A", 2), ("B", 1)}


def test_property_set_uses_all_32_bits(update_of: UpdateOf) -> None:
    masks = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    rows = Rows()
    for mask in masks:
        rows.append_update(update_of(present=mask))
    assert to_record_batch(rows.take()).column("present").to_pylist() == masks


@pytest.mark.parametrize("name", ["time_ns", "node", "sender", "fingerprint", "position"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_number_outside_its_column_changes_nothing(
    update_of: UpdateOf, name: str, value: int
) -> None:
    rows = Rows()
    rows.append_update(update_of(1))
    with pytest.raises((ValueError, OverflowError)):
        rows.append_update(update_of(2, **{name: value}))
    rows.append_update(update_of(3))
    batch = to_record_batch(rows.take())
    batch.validate(full=True)
    assert list(updates_of(batch)) == [update_of(1), update_of(3)]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_numbers_at_the_limits_fit(update_of: UpdateOf, value: int) -> None:
    names = ["time_ns", "node", "sender", "fingerprint", "sequence", "sent_ns"]
    update = update_of(1, **dict.fromkeys(names, value))
    rows = Rows()
    rows.append_update(update)
    assert list(updates_of(to_record_batch(rows.take()))) == [update]


def test_text_that_is_not_utf_8_is_escaped(update_of: UpdateOf) -> None:
    rows = Rows()
    rows.append_update(update_of(subject="/a\udcff", type_name="T\udcff"))
    (update,) = updates_of(to_record_batch(rows.take()))
    assert (update.subject, update.type_name) == ("/a\\udcff", "T\\udcff")


@pytest.mark.slow
def test_size_of_unwritten_rows_is_limited(update_of: UpdateOf) -> None:
    rows = Rows()
    payload = bytes(10_000_000)
    count = RECORDING_ROWS_BYTES_MAX // (len(payload) + ROW_BYTES + 20)
    for _ in range(count):
        rows.append_update(update_of(payload=payload))
    with pytest.raises(LimitExceeded, match="rows waiting"):
        rows.append_update(update_of(payload=bytes(20_000_000)))
    assert rows.count == count
