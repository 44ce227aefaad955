"""`skerry portal log`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.bson import encode_bson
from skerry.recording.goby.entries import GobyLogEntry
from skerry.recording.goby.reader import GobyLogReader
from skerry.runtime.goby_logs import new_goby_log
from tests.unit.protocol.portal.mapping.descriptors import descriptor_set, fleet, message

Run = Callable[..., Any]
START_US = 1_763_215_387_000_000


def entry(number: int, group: str, scheme: int, type_name: str, data: bytes) -> GobyLogEntry:
    return GobyLogEntry(
        scheme=scheme, group=group, type_name=type_name, time_us=START_US + number, data=data
    )


REPORT = message("Report", 'name: "a" late: 3 position { lat: 1 lon: 2 }').SerializeToString()
ENTRIES = [
    entry(0, "goby::zeromq::_internal_manager_request", 1, "goby.M", b"\1"),
    entry(1, "nav", 1, "fleet.Report", REPORT),
    entry(2, "ais", 7, "nlohmann::json", encode_bson({"mmsi": 5, "data": b"\xff"})),
    entry(3, "text", 0, "CSTR", b"hello\0"),
    entry(4, "link", 2, "fleet.Report", b"\1\2"),
    entry(5, "nav", 1, "not.Known", b"\3"),
    entry(6, "nav", 1, "fleet.Report", b"\xff"),
    entry(7, "text", 0, "CSTR", b"no end"),
]


@pytest.fixture
def log(clean_place: Path) -> Path:
    path = clean_place / "auv.goby"
    with new_goby_log(path, fleet().files_of) as new:
        for item in ENTRIES:
            new.append(item)
    return path


def entries_of(path: Path) -> list[GobyLogEntry]:
    return [item for item in GobyLogReader(path.read_bytes()) if not item.is_descriptor]


def test_info_lists_groups_and_types(run: Run, log: Path) -> None:
    done = run("portal", "log", "info", log)
    assert done.code == 0, done.err
    assert "version 3" in done.out
    assert "10 entries" in done.out  # with two descriptors
    assert "nlohmann::json" in done.out
    row = json.loads(run("portal", "log", "info", log, "--json").out)
    assert row["first_ns"] == START_US * 1000
    assert row["last_ns"] == (START_US + 7) * 1000
    assert {"group": "ais", "scheme": "JSON", "type": "nlohmann::json", "entries": 1}.items() <= {
        key: value
        for item in row["content"]
        if item["group"] == "ais"
        for key, value in item.items()
    }.items()


def test_cat_prints_the_content_of_each_entry(run: Run, log: Path) -> None:
    lines = run("portal", "log", "cat", log).out.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("PROTOBUF | nav | fleet.Report | 2025-11-15T14:03:07.000001")
    assert 'name: "a" position { lat: 1.0 lon: 2.0 } late: 3' in lines[0]
    contents = [line.rpartition(" | ")[2] for line in lines[1:]]
    assert contents == ['{"mmsi": 5, "data": "ff"}', "hello", "0102", "03", "ff", "no end"]


def test_cat_prints_json(run: Run, log: Path) -> None:
    out = run("portal", "log", "cat", log, "--json", "--internal").out
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 8
    assert rows[1]["position"] == {"lat": 1.0, "lon": 2.0}
    assert rows[1]["_scheme_"] == "PROTOBUF"
    assert rows[1]["_utime_"] == START_US + 1
    assert rows[2]["mmsi"] == 5
    assert rows[3]["_text_"] == "hello"
    assert [row["_data_"] for row in rows[4:]] == ["0102", "03", "ff", b"no end".hex()]


def test_entries_are_chosen_by_whole_names(run: Run, log: Path) -> None:
    def count(*options: str) -> int:
        return len(run("portal", "log", "cat", log, *options).out.splitlines())

    assert count("--group", "na.") == 3
    assert count("--group", "na") == 0
    assert count("--type", r"fleet\..*") == 3
    assert count("--group", "nav", "--type", "not.*") == 1
    assert run("portal", "log", "cat", log, "--group", "(").code == 2


def test_raw_json_converts_back_to_the_same_log(run: Run, log: Path, clean_place: Path) -> None:
    assert run("portal", "log", "convert", log, "a.jsonl", "--raw", "--internal").code == 0
    (clean_place / "fleet.desc").write_bytes(descriptor_set())
    done = run(
        "portal", "log", "convert", "a.jsonl", "b.goby", "--internal", "--descriptors", "fleet.desc"
    )
    assert done.out == "b.goby: 8 entries\n"
    assert (clean_place / "b.goby").read_bytes() == log.read_bytes()


def test_edited_json_becomes_a_log(run: Run, log: Path, clean_place: Path) -> None:
    run("portal", "log", "convert", log, "a.jsonl", "--group", "nav|ais|text")
    (clean_place / "fleet.desc").write_bytes(descriptor_set())
    text = (clean_place / "a.jsonl").read_text().replace('"late": 3', '"late": 4')
    (clean_place / "a.jsonl").write_text(text)
    done = run("portal", "log", "convert", "a.jsonl", "b.goby", "--descriptors", "fleet.desc")
    assert done.code == 0, done.err
    found = entries_of(clean_place / "b.goby")
    assert found[0].data == REPORT.replace(b"\xa0\x06\x03", b"\xa0\x06\x04")
    assert found[2].data == b"hello\0"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[]", "not an object"),
        ("{", "line 1"),
        ('{"_scheme_": "CSTR"}', "_utime_"),
        ('{"_scheme_": "XML", "_utime_": 1, "_group_": "g", "_type_": "t"}', "scheme"),
        ('{"_scheme_": "CSTR", "_utime_": "1", "_group_": "g", "_type_": "t"}', "integer"),
        ('{"_scheme_": "DCCL", "_utime_": 1, "_group_": "g", "_type_": "t"}', "_data_"),
        ('{"_scheme_": 9, "_utime_": 1, "_group_": "g", "_type_": "t", "_data_": "x"}', "hexa"),
        ('{"_scheme_": -2, "_utime_": 1, "_group_": "g", "_type_": "t", "_data_": ""}', "scheme"),
    ],
)
def test_faulty_lines_are_reported(run: Run, clean_place: Path, line: str, fault: str) -> None:
    (clean_place / "a.jsonl").write_text(line + "\n")
    done = run("portal", "log", "convert", "a.jsonl", "b.goby")
    assert done.code == 1
    assert fault in done.err
    assert not (clean_place / "b.goby").exists()


def test_a_damaged_log_is_converted_to_a_whole_one(run: Run, log: Path, clean_place: Path) -> None:
    content = bytearray(log.read_bytes())
    content[content.index(b"hello")] ^= 1
    (clean_place / "bad.goby").write_bytes(content + b"torn")
    done = run("portal", "log", "convert", "bad.goby", "good.goby")
    assert done.code == 0
    assert done.err.count("left out") == 2
    reader = GobyLogReader((clean_place / "good.goby").read_bytes())
    assert len([item for item in reader if not item.is_descriptor]) == 6
    assert not reader.damages
    info = run("portal", "log", "info", "bad.goby")
    assert "2 damaged places" in info.out


def test_text_and_standard_output(run: Run, log: Path, clean_place: Path) -> None:
    assert run("portal", "log", "convert", log, "a.txt").code == 0
    assert len((clean_place / "a.txt").read_text().splitlines()) == 7
    done = run("portal", "log", "convert", log, "-", "--format", "jsonl")
    assert len(done.out.splitlines()) == 7
    assert run("portal", "log", "convert", log, "-", "--format", "goby").code == 2
    assert run("portal", "log", "convert", log, "a.xyz").code == 2


def test_play_needs_a_portal(run: Run, log: Path, clean_place: Path) -> None:
    at = ("--socket-name", clean_place / "none", "--timeout", "0.1")
    done = run("portal", "log", "play", log, *at)
    assert done.code == 3
    assert "timed out" in done.err
    assert "hint:" in done.err
    assert run("portal", "log", "play", log, "--fast", "--speed", "2", *at).code == 2
