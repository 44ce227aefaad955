"""Goby logs as bytes: what is written is read, and damage only costs what it hits."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.protocol.portal.identifiers import Scheme
from skerry.recording.goby import reader as reader_module
from skerry.recording.goby import writer as writer_module
from skerry.recording.goby.entries import (
    GOBY_ENTRY_BYTES_MAX,
    MAGIC,
    NUMBERS,
    TYPE_INDEX,
    WORD,
    GobyLogEntry,
    encode_entry,
)
from skerry.recording.goby.reader import GOBY_DAMAGE_REPORT_MAX, GobyLogReader
from skerry.recording.goby.writer import GobyLogWriter

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12
)
entries = st.builds(
    GobyLogEntry,
    scheme=st.integers(0, TYPE_INDEX - 1),
    group=names,
    type_name=names,
    time_us=st.integers(0, 2**64 - 1),
    data=st.binary(max_size=60),
)


def entry(number: int, *, scheme: int = Scheme.CSTR, data: bytes = b"x") -> GobyLogEntry:
    return GobyLogEntry(
        scheme=scheme, group=f"g{number % 7}", type_name=f"t{number % 5}", time_us=number, data=data
    )


def log_of(items: list[GobyLogEntry]) -> bytes:
    writer = GobyLogWriter()
    return writer.head() + b"".join(writer.encode(item) for item in items)


@given(st.lists(entries, max_size=12))
def test_what_is_written_is_read(items: list[GobyLogEntry]) -> None:
    reader = GobyLogReader(log_of(items))
    assert list(reader) == items
    assert reader.damages == []
    assert reader.version == 3
    assert not reader.is_newer


def test_random_damage_costs_only_the_entries_that_it_hits() -> None:
    items = [entry(number, data=bytes(40) + b"%d" % number) for number in range(1000)]
    writer = GobyLogWriter()
    pieces = [writer.head(), *(writer.encode(item) for item in items)]
    log = bytearray(b"".join(pieces))
    rng = random.Random(4)
    # The names are in the first entries; without them, all entries would have other names.
    first = sum(map(len, pieces[:8]))
    hit = set()
    for at in rng.sample(range(first, len(log)), 100):
        log[at] ^= 0x55
        end = 0
        for index, piece in enumerate(pieces):
            end += len(piece)
            if at < end:
                hit.add(index - 1)
                break
    reader = GobyLogReader(bytes(log))
    found = list(reader)
    assert found == [item for index, item in enumerate(items) if index not in hit]
    assert 0 < reader.damage_count <= 200
    assert reader.lost_byte_count >= 100


@given(st.binary(max_size=300), st.randoms(use_true_random=False))
def test_any_bytes_are_read_to_their_end(noise: bytes, rng: random.Random) -> None:
    log = bytearray(log_of([entry(number) for number in range(4)]))
    for _ in range(6):
        at = rng.randrange(len(log) + 1)
        log[at : at + rng.randrange(4)] = noise[: rng.randrange(30)]
    reader = GobyLogReader(bytes(log))
    list(reader)
    assert reader.offset == len(log)
    list(GobyLogReader(noise))
    list(GobyLogReader(MAGIC + noise))


@given(st.integers(0, 400))
def test_a_log_that_ends_early_has_the_entries_before(size: int) -> None:
    items = [entry(number) for number in range(6)]
    log = log_of(items)[:size]
    reader = GobyLogReader(log)
    found = list(reader)
    assert found == items[: len(found)]
    assert len(found) < 6 or size >= len(log_of(items))
    assert reader.damage_count <= 1
    assert reader.offset == len(log)


def test_bytes_between_entries_are_reported() -> None:
    writer = GobyLogWriter()
    log = writer.head() + b"noise" + writer.encode(entry(1)) + b"GBY"
    reader = GobyLogReader(log)
    assert list(reader) == [entry(1)]
    assert [str(damage) for damage in reader.damages] == [
        "offset 4: no entry begins here; 5 bytes are left out",
        f"offset {len(log) - 3}: no entry begins here; 3 bytes are left out",
    ]


def test_a_magic_word_inside_a_damaged_entry_is_tried() -> None:
    """The size of an entry is wrong, so that it seems to contain the next one."""
    writer = GobyLogWriter()
    log = bytearray(writer.head() + writer.encode(entry(1)))
    first, second = writer.encode(entry(1)), writer.encode(entry(1, data=b"second"))
    log += first + second
    at = len(log) - len(second) - len(first) + len(MAGIC)
    for size in (len(first) + len(second) - 8, 3, 0xFFFFFFFF, GOBY_ENTRY_BYTES_MAX - 5):
        log[at : at + 4] = WORD.pack(size)
        reader = GobyLogReader(bytes(log))
        assert [item.data for item in reader] == [b"x", b"second"]
        assert reader.damage_count == 1


def test_entries_without_names_get_numbers_as_names() -> None:
    reader = GobyLogReader(b"\0\0\0\3" + encode_entry(0, 7, 9, 5, b"a\0"))
    (found,) = reader
    assert (found.group, found.type_name) == ("_unknown7_", "_unknown9_")
    assert reader.unnamed_count == 2


def test_a_name_without_its_scheme_is_damage() -> None:
    reader = GobyLogReader(b"\0\0\0\3" + encode_entry(0xFFFF, 1, 0, 5, b"a"))
    assert list(reader) == []
    assert reader.damages[0].detail == "a name has no scheme"


def old_entry(scheme: int, group: int, type_: int, data: bytes) -> bytes:
    """An entry of version 1 or 2, which has no time."""
    body = NUMBERS.pack(scheme, group, type_) + data
    head = MAGIC + WORD.pack(len(body) + 4) + body
    return head + WORD.pack(zlib.crc32(head))


def test_logs_of_version_1_are_read() -> None:
    log = b"".join(
        (
            old_entry(0xFFFF, 1, 0, b"group"),
            old_entry(0xFFFE, 0, 1, b"CSTR"),
            old_entry(0, 1, 1, b"hi\0"),
        )
    )
    reader = GobyLogReader(log)
    assert (reader.version, reader.has_times) == (1, False)
    (found,) = reader
    assert found == GobyLogEntry(scheme=0, group="group", type_name="CSTR", time_us=0, data=b"hi\0")


def test_logs_of_version_2_are_read() -> None:
    log = WORD.pack(2) + b"".join(
        (
            old_entry(0xFFFF, 1, 0, b"\0\0group"),
            old_entry(0xFFFE, 0, 1, b"\0\0CSTR"),
            old_entry(0, 1, 1, b"hi\0"),
        )
    )
    reader = GobyLogReader(log)
    assert reader.version == 2
    assert [item.group for item in reader] == ["group"]


def test_a_later_version_is_read_as_the_current_one() -> None:
    log = WORD.pack(4) + log_of([entry(1)])[4:]
    reader = GobyLogReader(log)
    assert list(reader) == [entry(1)]
    assert reader.is_newer


def test_a_damaged_version_is_reported() -> None:
    log = b"\xff\xff\xff\xff" + log_of([entry(1)])[4:]
    reader = GobyLogReader(log)
    assert list(reader) == [entry(1)]
    assert "is not a version" in reader.damages[0].detail
    assert list(GobyLogReader(b"")) == []
    assert GobyLogReader(b"\0\0").damages[0].detail == "the file ends in its version"


def test_only_some_damages_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "GOBY_DAMAGE_REPORT_MAX", 3)
    assert GOBY_DAMAGE_REPORT_MAX > 3
    bad = bytearray(encode_entry(0, 1, 1, 1, b""))
    bad[-1] ^= 1
    reader = GobyLogReader(b"\0\0\0\3" + bytes(bad) * 9)
    assert list(reader) == []
    assert (len(reader.damages), reader.damage_count) == (3, 9)


def test_descriptors_precede_the_first_entry_of_their_type() -> None:
    writer = GobyLogWriter(lambda name: [("base.proto", b"base"), (f"{name}.proto", b"own")])
    one = entry(1, scheme=Scheme.PROTOBUF)
    two = entry(2, scheme=Scheme.DCCL)
    log = writer.head() + b"".join(map(writer.encode, (one, two, one, entry(3))))
    found = list(GobyLogReader(log))
    assert [item.data if item.is_descriptor else item for item in found] == [
        b"base",
        b"own",
        one,
        b"own",
        two,
        one,
        entry(3),
    ]


def test_a_scheme_or_time_that_a_log_cannot_have_is_refused() -> None:
    writer = GobyLogWriter()
    for scheme in (-1, 0xFFFE, 0xFFFF):
        with pytest.raises(LocalProtocolError, match="scheme"):
            writer.encode(entry(1, scheme=scheme))
    with pytest.raises(LocalProtocolError, match="time"):
        writer.encode(GobyLogEntry(scheme=0, group="g", type_name="t", time_us=-1, data=b""))


def test_an_entry_that_is_refused_leaves_the_writer_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "GOBY_INDEX_MAX", 2)
    writer = GobyLogWriter(lambda _name: [("a.proto", b"a")])
    twin = GobyLogWriter()
    assert writer.encode(entry(1)) == twin.encode(entry(1))
    with pytest.raises(LimitExceeded, match="groups"):
        # Its own names fit, those of the descriptor do not.
        writer.encode(entry(2, scheme=Scheme.PROTOBUF))
    assert writer.encode(entry(2)) == twin.encode(entry(2))
    with pytest.raises(LimitExceeded):
        writer.encode(entry(3))


def test_an_entry_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.recording.goby.entries.GOBY_ENTRY_BYTES_MAX", 10)
    writer = GobyLogWriter()
    writer.encode(entry(1, data=bytes(10)))
    with pytest.raises(LimitExceeded, match="Goby log"):
        writer.encode(entry(1, data=bytes(11)))
    monkeypatch.setattr(reader_module, "GOBY_ENTRY_BYTES_MAX", 5)
    reader = GobyLogReader(log_of([entry(1, data=bytes(10))]))
    assert list(reader) == []
    assert "above the limit of 5" in reader.damages[0].detail


def test_internal_groups_are_known() -> None:
    hold = GobyLogEntry(
        scheme=1,
        group="goby::zeromq::_internal_manager_request",
        type_name="goby.zeromq.protobuf.ManagerRequest",
        time_us=1,
        data=b"",
    )
    assert hold.is_internal
    assert not entry(1).is_internal
