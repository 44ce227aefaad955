"""Entries of a log that a Goby logger wrote: read completely, and written with the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.bson import decode_bson, encode_bson
from skerry.recording.goby.entries import GobyLogEntry, encode_entry
from skerry.recording.goby.reader import GobyLogReader
from skerry.recording.goby.writer import GobyLogWriter

VECTORS = json.loads((Path(__file__).parent / "goby" / "log-v3.json").read_text())
ENTRIES: list[dict[str, Any]] = VECTORS["entries"]
HEAD = bytes.fromhex(VECTORS["version_word_hex"])


def numbers_of(raw: bytes) -> tuple[int, int, int, int, bytes]:
    scheme, group, type_ = (int.from_bytes(raw[at : at + 2], "big") for at in (8, 10, 12))
    return scheme, group, type_, int.from_bytes(raw[14:22], "big"), raw[22:-4]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["offset"]))
def test_an_entry_is_written_with_the_captured_bytes(entry: dict[str, Any]) -> None:
    raw = bytes.fromhex(entry["hex"])
    assert encode_entry(*numbers_of(raw)) == raw
    assert int.from_bytes(raw[4:8], "big") == entry["size_field"]


def test_the_captured_entries_are_read() -> None:
    reader = GobyLogReader(HEAD + b"".join(bytes.fromhex(e["hex"]) for e in ENTRIES))
    assert [(e.scheme, e.group, e.type_name, e.data) for e in reader] == [
        (7, "grp_json", "nlohmann::json", bytes.fromhex("0c000000106b000500000000")),
        (1, "grp_pb", "goby.middleware.protobuf.TerminateResponse", b"\n\x03abc\x10\x07"),
        (0, "grp_str", "CSTR", b"hello\0"),
        (450, "grp;12", "own_type", b"\0\1\2\0"),
    ]
    assert not reader.damages
    assert not reader.unnamed_count


def test_a_writer_makes_the_captured_bytes() -> None:
    """The entries before the captured ones only give the same numbers to names."""
    writer = GobyLogWriter()
    assert writer.head() == HEAD
    for number in range(1, 5):
        writer.encode(
            GobyLogEntry(scheme=9, group=f"g{number}", type_name="t1", time_us=0, data=b"")
        )
    for number in range(2, 7):
        writer.encode(
            GobyLogEntry(scheme=9, group="g1", type_name=f"t{number}", time_us=0, data=b"")
        )
    captured = [bytes.fromhex(e["hex"]) for e in ENTRIES if e["offset"] > 1000]
    reader = GobyLogReader(HEAD + b"".join(captured))
    assert b"".join(writer.encode(entry) for entry in reader) == b"".join(captured)


def test_the_captured_json_is_read_and_written() -> None:
    data = bytes.fromhex("0c000000106b000500000000")
    assert decode_bson(data) == {"k": 5}
    assert encode_bson({"k": 5}) == data
