"""Rows of a batch as updates."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from skerry.codec.envelope import ACCESS, SNAPSHOT, Update
from skerry.objects.typeset import define_types
from skerry.recording.descriptions import description_updates
from skerry.recording.updates import is_description, updates_of

BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


def test_rows_are_updates_in_their_order(batch_of: BatchOf, update_of: UpdateOf) -> None:
    updates = [
        update_of(1, sent_ns=-1),
        update_of(2, subject="", key=b"", payload=b"", type_name=""),
        update_of(3, subject="/ß/€", space="other", source="link"),
        update_of(4, present=0xFFFFFFFF),
    ]
    assert list(updates_of(batch_of(*updates))) == updates


def test_slice_of_a_batch_is_read(batch_of: BatchOf, update_of: UpdateOf) -> None:
    updates = [update_of(number, sent_ns=-1 if number % 2 else 5) for number in range(20)]
    assert list(updates_of(batch_of(*updates).slice(7, 5))) == updates[7:12]


def test_filtered_rows_are_read_too(batch_of: BatchOf, update_of: UpdateOf) -> None:
    updates = [update_of(number) for number in range(20)]
    mask = pa.array([number % 3 == 0 for number in range(20)])
    assert list(updates_of(batch_of(*updates).filter(mask))) == updates[::3]


def test_rows_without_any_bytes_are_read(batch_of: BatchOf, update_of: UpdateOf) -> None:
    updates = [update_of(number, subject="", key=b"", payload=b"") for number in range(3)]
    assert list(updates_of(batch_of(*updates))) == updates


def test_only_what_the_recorder_wrote_itself_is_a_description(update_of: UpdateOf) -> None:
    type_ = define_types("struct A { 1: string s; }").A.descriptor
    (ours,) = description_updates(type_, space="local", time_ns=1)
    assert is_description(ours)
    assert not is_description(ours.replace(source=ACCESS, sequence=4, node=7))
    assert not is_description(update_of(1, operation=SNAPSHOT))
