"""Unpacking of datagrams: updates with subscribers, and no byte beyond the end is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.distributor.receiving.unpacking import scan, unpack
from skerry.protocol.distributor.receiving.updates import Packed
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE, DatagramWire

Updates = list[tuple[str, bytes]]


def packed(updates: Updates, *, wire: DatagramWire = JAVA_WIRE, count: int | None = None) -> bytes:
    body = b"".join(
        wire.subject_head(subject.encode()) + len(data).to_bytes(4, "big") + data
        for subject, data in updates
    )
    return bytes(24) + (len(updates) if count is None else count).to_bytes(4, "big") + body


def unpacked(datagram: bytes, *patterns: str, width: int = 4) -> Updates | None:
    subjects = Subjects()
    for pattern in patterns or ("/...",):
        subjects.add(pattern, None)
    found: Updates = [("/before", b"")]
    is_sound = unpack(datagram, width, subjects.memo, subjects, found)
    assert found[0] == ("/before", b"")
    return found[1:] if is_sound else None


UPDATES: Updates = [("/a", b"1"), ("/b/c", b""), ("/a", b"22"), ("/å", bytes(300))]


@pytest.mark.parametrize(("wire", "width"), [(JAVA_WIRE, 4), (PYCAST_WIRE, 2)])
def test_all_updates_are_unpacked_in_order(wire: DatagramWire, width: int) -> None:
    assert unpacked(packed(UPDATES, wire=wire), width=width) == UPDATES


def test_only_updates_with_subscribers_are_unpacked() -> None:
    assert unpacked(packed(UPDATES), "/a") == [("/a", b"1"), ("/a", b"22")]
    assert unpacked(packed(UPDATES), "/x") == []


def test_a_datagram_without_updates_is_sound() -> None:
    assert unpacked(packed([])) == []


def test_data_that_is_absent_is_empty() -> None:
    datagram = bytes(27) + b"\x01" + b"\x01\x00\x00\x00\x02/a" + b"\x00"
    assert unpacked(datagram) == [("/a", b"")]
    twice = bytes(27) + b"\x02" + 2 * (b"\x01\x00\x00\x00\x02/a" + b"\x00")
    assert unpacked(twice) == [("/a", b""), ("/a", b"")]


def test_any_other_byte_than_zero_marks_a_present_value() -> None:
    datagram = bytes(27) + b"\x01" + b"\x09\x00\x00\x00\x02/a" + b"\x02\x00\x00\x00\x01x"
    assert unpacked(datagram) == [("/a", b"x")]


def test_a_datagram_cut_anywhere_is_not_sound() -> None:
    whole = packed(UPDATES)
    for size in range(len(whole)):
        assert unpacked(whole[:size]) is None


@pytest.mark.parametrize("count", [0, 3, 5, 2**31, 2**32 - 1])
def test_another_count_than_there_are_updates_is_not_sound(count: int) -> None:
    assert unpacked(packed(UPDATES, count=count)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"\x00",
        b"\x01\x00\x01\x00\x02/a\x01\x00\x00\x00\x00",
        b"\x01\x01\x00\x00\x02/a\x01\x00\x00\x00\x00",
        b"\x01\x00\x00\x00\x02/a\x01\x01\x00\x00\x00",
        b"\x01\x00\x00\x00\x02/a\x01\x00\x01\x00\x00",
        b"\x01\x00\x00\xff\xff/a\x01\x00\x00\x00\x00",
        b"\x01\x00\x00\x00\x02/a\x01\x00\x00\xff\xff",
        b"\x01\xff\xff\xff\xff/a\x01\x00\x00\x00\x00",
    ],
)
def test_lengths_beyond_the_datagram_are_rejected(body: bytes) -> None:
    assert unpacked(bytes(27) + b"\x01" + body) is None


def test_a_fault_does_not_remove_earlier_updates() -> None:
    subjects = Subjects()
    subjects.add("/...", None)
    found: Updates = [("/before", b"")]
    assert not unpack(packed(UPDATES)[:-1], 4, subjects.memo, subjects, found)
    assert found[0] == ("/before", b"")


def scanned(data: bytes, first: int, stop: int, *patterns: str, width: int = 4) -> list[str] | None:
    subjects = Subjects()
    for pattern in patterns or ("/...",):
        subjects.add(pattern, None)
    for subject, _ in UPDATES:
        subjects.resolve(subject.encode())
    found: list[str] = []
    return found if scan(data, first, stop, width, subjects.memo, found) else None


@pytest.mark.parametrize(("wire", "width"), [(JAVA_WIRE, 4), (PYCAST_WIRE, 2)])
def test_a_datagram_of_the_usual_form_is_known_by_its_subjects(
    wire: DatagramWire, width: int
) -> None:
    datagram = packed(UPDATES, wire=wire)
    subjects = [subject for subject, _ in UPDATES]
    assert scanned(datagram, 0, len(datagram), width=width) == subjects
    among = b"before" + datagram + b"behind"
    assert scanned(among, 6, 6 + len(datagram), width=width) == subjects


@pytest.mark.parametrize(
    "datagram",
    [
        packed([]),
        packed([("/new", b"1")]),
        packed(UPDATES, count=5),
        packed(UPDATES, count=3),
        packed(UPDATES, count=2**16 + 4),
        packed(UPDATES, count=2**31 + 4),
        bytes(27) + b"\x01" + b"\x01\x00\x00\x00\x02/a" + b"\x00",
    ],
)
def test_a_datagram_of_another_form_is_not_scanned(datagram: bytes) -> None:
    assert scanned(datagram, 0, len(datagram)) is None


def test_a_datagram_with_an_update_without_subscribers_is_not_of_the_usual_form() -> None:
    assert scanned(packed(UPDATES), 0, len(packed(UPDATES)), "/a") is None


def test_no_byte_after_the_datagram_is_read() -> None:
    datagram = packed(UPDATES)
    for stop in range(len(datagram)):
        assert scanned(datagram, 0, stop) is None
        assert scanned(datagram[:stop], 0, len(datagram)) is None


@given(st.lists(st.sampled_from(["/a", "/a", "/b/c", "/å"]), min_size=1))
def test_subjects_are_listed_one_by_one_unless_all_are_equal(subjects: list[str]) -> None:
    updates = [(subject, b"%d" % number) for number, subject in enumerate(subjects)]
    datagram = packed(updates)
    found = scanned(datagram, 0, len(datagram))
    assert found == (subjects if len(set(subjects)) > 1 else subjects[:1])
    pairs: list[tuple[str, bytes]] = []
    Packed(datagram, 28, 4, found, len(updates)).take_into(pairs)
    assert pairs == updates


@given(st.binary(max_size=80), st.sampled_from([2, 4]))
def test_a_scanned_datagram_is_valid(data: bytes, width: int) -> None:
    datagram = bytes(27) + b"\x02" + data
    found = scanned(datagram, 0, len(datagram), width=width)
    if found is not None:
        pairs: list[tuple[str, bytes]] = []
        Packed(datagram, 28, width, found, 2).take_into(pairs)
        assert unpacked(datagram, width=width) == pairs


@pytest.mark.parametrize("width", [2, 4])
def test_an_update_without_any_subject_is_counted_and_harms_no_other(width: int) -> None:
    wire = JAVA_WIRE if width == 4 else PYCAST_WIRE
    good = wire.subject_head(b"/a") + b"\0\0\0\1x"
    for body in (b"\0" + b"\1\0\0\0\2yz", b"\0\0", b"\0" + b"\2\0\0\0\0"):
        datagram = bytes(27) + b"\3" + good + body + good
        subjects, found = Subjects(), Updates()
        subjects.add("/...", None)
        assert unpack(datagram, width, subjects.memo, subjects, found)
        assert found == [("/a", b"x"), ("/a", b"x")]
        assert subjects.refused_count == 1
        assert not scan(datagram, 0, len(datagram), width, subjects.memo, [])
    for stop in range(1, len(body)):
        cut = bytes(27) + b"\2" + good + body[:stop]
        assert not unpack(cut, width, subjects.memo, subjects, Updates())
