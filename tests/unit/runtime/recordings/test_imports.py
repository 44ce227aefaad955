"""Recordings of Goby logs and of records of DOTS programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.bson import encode_bson
from skerry.codec.envelope import ACCESS, CREATE, GAP, PORTAL, REMOVE, UPDATE, Update
from skerry.errors import RecordingError
from skerry.protocol.portal.mapping.rules import PortalRule
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.goby.entries import GobyLogEntry
from skerry.recording.selection import selection_of
from skerry.recording.updates import is_description
from skerry.runtime.goby_logs import GobyLogFile, load_descriptor_sets, new_goby_log
from skerry.runtime.recordings import imports
from skerry.runtime.recordings.exports import export_dots, json_lines
from skerry.runtime.recordings.imports import (
    IMPORTED_OBJECT_COUNT_MAX,
    import_dots_record,
    import_goby_log,
)
from skerry.runtime.recordings.reader import Recording, open_recordings
from skerry.runtime.recordings.updates import read_updates
from tests.unit.protocol.portal.mapping.descriptors import descriptor_set, fleet, message

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]
START_US = 1_700_000_000_000_000


def report(number: int, name: str, text: str = "") -> GobyLogEntry:
    data = message("Report", f'name: "{name}" {text}').SerializeToString()
    return entry(number, "nav", 1, "fleet.Report", data)


def entry(number: int, group: str, scheme: int, type_name: str, data: bytes) -> GobyLogEntry:
    return GobyLogEntry(
        scheme=scheme, group=group, type_name=type_name, time_us=START_US + number, data=data
    )


ENTRIES = [
    entry(0, "goby::zeromq::_internal_manager_request", 1, "goby.zeromq.protobuf.M", b""),
    report(1, "a", "late: 1"),
    report(2, "b", "position { lat: 1 lon: 2 }"),
    report(3, "a", "late: 2"),
    entry(4, "ais", 7, "nlohmann::json", encode_bson({"mmsi": 5})),
    entry(5, "text", 0, "CSTR", b"hello\0"),
    entry(6, "link", 2, "fleet.Report", b"\1\2"),
    entry(7, "nav", 1, "fleet.Report", b"\xff"),
    entry(8, "nav", 1, "not.Known", b"\1"),
]


def log_of(path: Path, entries: list[GobyLogEntry] = ENTRIES) -> Path:
    with new_goby_log(path, fleet().files_of) as log:
        for item in entries:
            log.append(item)
    return path


def imported(path: Path, target: Path, **given: Any) -> tuple[imports.Imported, list[Update]]:
    with GobyLogFile(path) as log:
        done = import_goby_log(log, target, **given)
    return done, updates_of(target)


def updates_of(folder: Path) -> list[Update]:
    return [
        update for update in read_updates(open_recordings(folder)) if not is_description(update)
    ]


def test_messages_become_objects_and_the_rest_bytes(tmp_path: Path) -> None:
    reports: list[str] = []
    done, updates = imported(
        log_of(tmp_path / "a.goby"), tmp_path / "r", report=reports.append, space="auv"
    )
    assert (done.rows, done.objects, done.unmapped, done.damaged) == (8, 3, 2, 0)
    assert [update.subject for update in updates] == [
        *["/fleet_Report"] * 3,
        "/goby/ais/JSON/nlohmann%3A%3Ajson",
        "/goby/text/CSTR/CSTR",
        "/goby/link/DCCL/fleet.Report",
        "/goby/nav/PROTOBUF/fleet.Report",
        "/goby/nav/PROTOBUF/not.Known",
    ]
    assert {(u.source, u.operation, u.space, u.sent_ns) for u in updates} == {
        (PORTAL, CREATE, "auv", -1)
    }
    assert [u.position for u in updates] == list(range(1, 9))
    assert updates[0].time_ns == (START_US + 1) * 1000
    lines = [line for line in json_lines(open_recordings(tmp_path / "r")) if "fleet_Rep" in line]
    assert '"position": {"lat": 1.0, "lon": 2.0}' in lines[1]
    assert len(reports) == 2
    assert "become bytes" in reports[0]


def test_with_a_key_objects_are_created_and_updated(tmp_path: Path) -> None:
    rule = PortalRule(scheme="PROTOBUF", type="fleet.Report", object="Report", key=("name",))
    _, updates = imported(log_of(tmp_path / "a.goby"), tmp_path / "r", rules=(rule,))
    reports = [update for update in updates if update.type_name == "Report"]
    assert [(u.operation, u.subject) for u in reports] == [
        (CREATE, "/Report/a"),
        (CREATE, "/Report/b"),
        (UPDATE, "/Report/a"),
    ]
    # A publication is the whole object: what it lacks becomes unset.
    assert all(u.present.bit_count() == 10 for u in reports)


def test_a_second_import_has_the_same_origins(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.goby")
    imported(log, tmp_path / "r" / "1")
    imported(log, tmp_path / "r" / "2")
    assert len(updates_of(tmp_path / "r")) == 8


def test_times_that_a_recording_cannot_have_are_replaced_and_reported(tmp_path: Path) -> None:
    wrong = [entry(time_us - START_US, "t", 0, "CSTR", b"\0") for time_us in (2**63, 2**64 - 1)]
    log = log_of(tmp_path / "a.goby", [wrong[0], ENTRIES[5], wrong[1], ENTRIES[5]])
    reports: list[str] = []
    _, updates = imported(log, tmp_path / "r", report=reports.append)
    known_ns = ENTRIES[5].time_us * 1000
    assert [update.time_ns for update in updates] == [0, known_ns, known_ns, known_ns]
    assert "2 entries have times after the year 2262" in reports[0]


def test_damage_becomes_a_gap(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.goby", [report(number, f"n{number}") for number in range(20)])
    content = bytearray(log.read_bytes())
    at = content.index(b"n10")
    content[at] ^= 1
    content += b"end"
    log.chmod(0o600)
    log.write_bytes(content)
    reports: list[str] = []
    done, updates = imported(log, tmp_path / "r", report=reports.append)
    assert (done.rows, done.damaged) == (19, 2)
    assert [u.operation for u in updates].count(GAP) == 2
    assert sum("left out" in text for text in reports) == 2


def test_descriptor_sets_describe_what_the_log_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.goby"
    with new_goby_log(path, lambda _name: ()) as log:
        log.append(report(1, "a"))
    assert imported(path, tmp_path / "1")[0].objects == 0
    sets = tmp_path / "fleet.desc"
    sets.write_bytes(descriptor_set())
    assert imported(path, tmp_path / "2", descriptor_sets=(sets,))[0].objects == 1
    with pytest.raises(RecordingError, match="cannot read"):
        load_descriptor_sets([tmp_path / "absent"])


def test_faulty_descriptors_in_a_log_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.goby"
    with new_goby_log(path, lambda _name: [("x.proto", b"\xff")]) as log:
        log.append(report(1, "a"))
    reports: list[str] = []
    done, _ = imported(path, tmp_path / "r", report=reports.append)
    assert (done.objects, done.rows, done.skipped) == (0, 1, 1)
    assert "descriptor" in reports[0]


def test_a_log_file_is_read_only_and_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "a.goby"
    log_of(path)
    assert path.stat().st_mode & 0o777 == 0o440
    with (
        pytest.raises(RecordingError, match="cannot write"),
        new_goby_log(tmp_path / "b" / "c", fleet().files_of),
    ):
        pass
    with pytest.raises(ZeroDivisionError), new_goby_log(tmp_path / "d.goby", fleet().files_of):
        raise ZeroDivisionError
    assert [item.name for item in tmp_path.iterdir()] == ["a.goby"]
    with pytest.raises(RecordingError, match="cannot read"):
        GobyLogFile(tmp_path / "absent.goby")


def test_an_empty_log_is_an_empty_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.goby"
    path.write_bytes(b"")
    done, updates = imported(path, tmp_path / "r")
    assert (done.rows, updates) == (0, [])


def test_an_import_remembers_a_bounded_number_of_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert IMPORTED_OBJECT_COUNT_MAX > 1
    monkeypatch.setattr(imports, "IMPORTED_OBJECT_COUNT_MAX", 1)
    rule = PortalRule(scheme="PROTOBUF", key=("name",))
    entries = [report(number, name) for number, name in enumerate("aabb")]
    _, updates = imported(log_of(tmp_path / "a.goby", entries), tmp_path / "r", rules=(rule,))
    assert [u.operation for u in updates] == [CREATE, UPDATE, UPDATE, UPDATE]


# -- records of DOTS programs


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    updates = [
        *(update_of(n, sent_ns=n * 1000, sender=7) for n in range(1, 5)),
        gap_update(Gap(count=2, first_ns=update_of(5).time_ns), space="local"),
        update_of(6, type_name="Unknown", fingerprint=5, subject="/x"),
        update_of(7, operation=REMOVE),
        update_of(8, subject="/elsewhere"),
    ]
    return recorded(tmp_path / "r", updates)


def test_a_record_is_read_as_it_was_exported(recording: Recording, tmp_path: Path) -> None:
    target = tmp_path / "a.dots.rec"
    assert export_dots([recording], target) == (6, 2)
    done = import_dots_record(target, tmp_path / "back")
    assert (done.rows, done.objects, done.damaged) == (6, 6, 0)
    before = [
        u
        for u in read_updates([recording])
        if not is_description(u) and u.type_name == "Vessel" and u.operation != GAP
    ]
    after = updates_of(tmp_path / "back")

    def facts(u: Update) -> tuple[Any, ...]:
        is_remove = u.operation == REMOVE
        return (u.subject, u.key, u.payload, u.present, u.sent_ns, u.fingerprint, is_remove)

    assert [facts(u) for u in after] == [facts(u) for u in before]
    assert [u.sender for u in after] == [u.sender for u in before]
    assert {u.source for u in after} == {ACCESS}


def test_a_record_of_a_selection_begins_with_its_header(
    recording: Recording, tmp_path: Path
) -> None:
    target = tmp_path / "a.dots.rec"
    assert export_dots([recording], target, selection_of(types=["Vessel"]))[0] == 6
    content = target.read_bytes()
    assert content[5:].startswith(b"\xa3\x01\x70DotsRecordHeader")
    assert content.count(b"StructDescriptorData") == 1
    assert content.index(b"StructDescriptorData") < content.index(b"\x66Vessel\x02")


def test_a_torn_record_has_the_frames_before(recording: Recording, tmp_path: Path) -> None:
    target = tmp_path / "a.dots.rec"
    export_dots([recording], target)
    content = target.read_bytes()
    target.write_bytes(content[:-3])
    reports: list[str] = []
    done = import_dots_record(target, tmp_path / "1", report=reports.append)
    assert (done.rows, done.damaged) == (5, 1)
    assert "ends in a frame" in reports[0]
    target.write_bytes(content + b"\0" * 9)
    done = import_dots_record(target, tmp_path / "2", report=reports.append)
    assert (done.rows, done.damaged, done.lost_bytes) == (6, 1, 9)
    with pytest.raises(RecordingError, match="cannot read"):
        import_dots_record(tmp_path / "absent", tmp_path / "3")


def test_objects_without_descriptions_are_left_out(recording: Recording, tmp_path: Path) -> None:
    target = tmp_path / "a.dots.rec"
    export_dots([recording], target)
    content = target.read_bytes().replace(b"StructDescriptorData", b"StructDescriptorDate")
    target.write_bytes(content)
    reports: list[str] = []
    done = import_dots_record(target, tmp_path / "1", report=reports.append)
    assert done.rows == 0
    assert any("not described" in text for text in reports)
