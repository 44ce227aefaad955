"""Updates in a row: some as pairs, some still in their datagrams, and all in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.distributor.receiving.updates import Packed, Updates
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE, DatagramWire

Pairs = list[tuple[str, bytes]]


def packed(pairs: Pairs, *, wire: DatagramWire = JAVA_WIRE, before: bytes = b"") -> Packed:
    body = b"".join(
        wire.subject_head(subject.encode()) + len(data).to_bytes(4, "big") + data
        for subject, data in pairs
    )
    subjects = [subject for subject, _ in pairs]
    if len(set(subjects)) == 1:
        subjects = subjects[:1]
    data = before + body + b"behind"
    return Packed(data, len(before), wire.text_length_bytes, subjects, len(pairs))


some_pairs = st.lists(
    st.tuples(st.sampled_from(["/a", "/b/c", "/å"]), st.binary(max_size=300)), max_size=5
)


@given(
    st.lists(st.tuples(st.sampled_from(["packed", "pairs"]), some_pairs), max_size=4),
    st.sampled_from([JAVA_WIRE, PYCAST_WIRE]),
    st.binary(max_size=3),
)
def test_updates_are_equal_whether_packed_or_not(
    parts: list[tuple[str, Pairs]], wire: DatagramWire, before: bytes
) -> None:
    updates, expected = Updates(), Pairs()
    for kind, pairs in parts:
        if kind == "packed":
            updates.pack(packed(pairs, wire=wire, before=before))
        else:
            updates.extend(pairs)
        expected += pairs
    assert len(updates) == updates.count == len(expected)
    assert updates.pairs() == expected
    assert updates.pairs() is updates.pairs()
    assert len(updates) == len(expected)
    assert updates == Updates(expected)
    assert updates == expected
    assert list(updates) == expected
    assert repr(updates) == f"Updates({expected!r})"


def test_updates_are_a_sequence_but_not_a_key() -> None:
    updates = Updates([("/a", b"1"), ("/b", b"2")])
    assert updates[1] == ("/b", b"2")
    assert updates != [("/a", b"1")]
    with pytest.raises(TypeError, match="cannot be a key"):
        hash(updates)


def test_the_oldest_updates_can_be_removed() -> None:
    updates = Updates([("/a", b"1")])
    updates.pack(packed([("/b", b"2"), ("/c", b"3")]))
    updates.drop_first(2)
    assert updates == [("/c", b"3")]


def test_the_rest_of_a_part_precedes_other_parts() -> None:
    updates = Updates([("/c", b"3")])
    updates.left = iter([("/a", b"1"), ("/b", b"2")])
    next(updates.left)
    assert len(updates) == 2
    assert updates.pairs() == [("/b", b"2"), ("/c", b"3")]


def test_parts_that_were_taken_are_not_counted() -> None:
    updates = Updates([("/a", b"1")])
    updates.pack(packed([("/b", b"2"), ("/b", b"3")]))
    updates.place = 1
    assert (len(updates), updates.count) == (2, 3)
    assert updates.pairs() == [("/b", b"2"), ("/b", b"3")]
    assert (len(updates), updates.count) == (2, 2)
    updates.place = 1
    updates.extend([("/c", b"4")])
    assert updates == [("/c", b"4")]


def test_a_datagram_gives_each_update_once() -> None:
    part, found = packed([("/a", b"1"), ("/a", b"2")]), Pairs()
    assert len(part) == 2
    part.take_into(found)
    part.take_into(found)
    assert found == [("/a", b"1"), ("/a", b"2")]
    assert len(part) == 0
