"""Exporting recordings as JSON lines and MCAP."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader
from mcap.writer import Writer

from skerry.codec.envelope import CREATE, GAP, Update
from skerry.errors import LimitExceeded, RecordingError
from skerry.objects.base import key_of
from skerry.objects.typeset import define_types
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.selection import selection_of
from skerry.runtime.recordings import exports
from skerry.runtime.recordings.exports import (
    RECORDING_CHANNEL_COUNT_MAX,
    export_json_lines,
    export_mcap,
    json_lines,
)
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    updates = [
        *(update_of(n, sent_ns=n * 10) for n in range(1, 6)),
        gap_update(Gap(count=2, first_ns=update_of(6).time_ns), space="local"),
        update_of(8, type_name="Unknown", fingerprint=5, subject="/x"),
    ]
    return recorded(tmp_path / "r", updates)


def messages(path: Path) -> list[tuple[Any, Any, Any, dict[str, Any]]]:
    with path.open("rb") as file:
        return [
            (schema, channel, message, json.loads(message.data))
            for schema, channel, message in make_reader(file).iter_messages()
        ]


def test_lines_have_fields_by_name_and_no_descriptions(recording: Recording) -> None:
    lines = [json.loads(line) for line in json_lines([recording])]
    assert [line["_operation"] for line in lines] == ["update"] * 5 + ["gap", "update"]
    assert (lines[0]["mmsi"], lines[0]["lat"], lines[0]["_subject"]) == (1, 1.0, "/Vessel/1")
    assert lines[5]["_count"] == 2
    assert lines[6]["_payload"]


def test_file_of_lines_has_the_selected_rows(
    recording: Recording, tmp_path: Path, update_of: UpdateOf
) -> None:
    target = tmp_path / "out.jsonl"
    reported: list[tuple[int, int]] = []
    count = export_json_lines(
        [recording],
        target,
        selection_of(
            from_ns=update_of(2).time_ns,
            to_ns=update_of(5).time_ns,
            types=["Vessel"],
            subjects=["/Vessel/...", "/x"],
        ),
        on_progress=lambda *now: reported.append(now),
    )
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert count == 3
    assert [line["_key"] for line in lines] == [2, 3, 4]
    assert reported[-1][0] == reported[-1][1]


def test_new_export_is_private_and_one_that_is_replaced_keeps_its_mode(
    recording: Recording, tmp_path: Path
) -> None:
    paths = [tmp_path / "new.jsonl", tmp_path / "old.jsonl"]
    paths[1].touch()
    paths[1].chmod(0o640)
    for path in paths:
        export_json_lines([recording], path)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o640]


def test_mcap_has_a_channel_for_each_type(
    recording: Recording, tmp_path: Path, update_of: UpdateOf
) -> None:
    target = tmp_path / "out.mcap"
    assert export_mcap([recording], target) == 7
    found = messages(target)
    assert [channel.topic for _, channel, _, _ in found] == [
        *["/Vessel"] * 5,
        "/gaps",
        "/Unknown",
    ]
    schema, channel, message, content = found[1]
    assert (channel.message_encoding, schema.encoding, schema.name) == (
        "json",
        "jsonschema",
        "Vessel",
    )
    assert json.loads(schema.data)["properties"]["lat"] == {"type": "number"}
    assert (message.log_time, message.publish_time) == (update_of(2).time_ns, 20)
    assert content["mmsi"] == 2
    assert found[5][0] is None, "a gap has no schema"


def test_compatible_definitions_of_a_type_are_exported_as_one(tmp_path: Path) -> None:
    old = define_types("enum Kind { 1: tug } struct Boat { 1: [key] uint32 id; 2: Kind kind; }")
    new = define_types(
        "enum Kind { 1: tug, 2: sub } struct Boat { 1: [key] uint32 id; 2: Kind kind; 3: bool b; }"
    )
    strange = define_types("struct Boat { 1: [key] uint32 id; 2: string kind; }")
    late = new.Boat(id=3, kind=new.Kind.sub, b=False)
    reported: list[tuple[Any, Any]] = [
        (old.Boat(id=1, kind=old.Kind.tug), old.Boat),
        (new.Boat(id=2, kind=new.Kind.sub, b=True), new.Boat),
        # As a recorder notes it that knows the old definition only.
        (late, old.Boat),
        (strange.Boat(id=4, kind="?"), strange.Boat),
    ]
    with RecordingWriter(tmp_path / "r", space="local") as writer:
        for number, (obj, cls) in enumerate(reported, 1):
            writer.describe(cls.descriptor)
            writer.append(
                Update(
                    type_name="Boat",
                    subject="/Boat",
                    operation=CREATE,
                    key=key_of(obj),
                    present=int(obj.attributes),
                    payload=obj.encode(),
                    fingerprint=fingerprint(cls.descriptor),
                    time_ns=number,
                )
            )
    export_mcap([Recording(tmp_path / "r")], tmp_path / "out.mcap")
    found = messages(tmp_path / "out.mcap")
    rows = [{k: v for k, v in row.items() if not k.startswith("_")} for *_, row in found]
    assert rows == [
        {"id": 1, "kind": "tug"},
        {"id": 2, "kind": "sub", "b": True},
        {"id": 3, "kind": "sub", "b": False},
        {"id": 4, "kind": "?"},
    ]
    assert [channel.id for _, channel, _, _ in found] == [1, 1, 1, 2]
    assert "b" in json.loads(found[0][0].data)["properties"]


def test_mcap_has_a_channel_for_each_subject_on_request(
    recording: Recording, tmp_path: Path
) -> None:
    target = tmp_path / "out.mcap"
    export_mcap([recording], target, selection_of(types=["Vessel"]), channels_by="subject")
    assert [channel.topic for _, channel, _, _ in messages(target)] == [
        *(f"/Vessel/{n}" for n in range(1, 6)),
        "/gaps",
    ]
    with target.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert len(summary.schemas) == 1


def test_mcap_without_messages_can_be_opened(recording: Recording, tmp_path: Path) -> None:
    target = tmp_path / "out.mcap"
    assert export_mcap([recording], target, selection_of(to_ns=5)) == 0
    assert messages(target) == []


def test_times_before_1970_become_zero_in_mcap(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recording = recorded(tmp_path / "r", [update_of(1, time_ns=-5, sent_ns=-7)])
    export_mcap([recording], tmp_path / "out.mcap")
    ((_, _, message, content),) = messages(tmp_path / "out.mcap")
    assert (message.log_time, message.publish_time) == (0, 0)
    assert content["_time_ns"] == -5


@pytest.mark.slow
def test_number_of_mcap_channels_is_limited(update_of: UpdateOf) -> None:
    writer = Writer(BytesIO())
    writer.start()
    channels = exports._Channels(writer, "subject")
    update = update_of(1)
    for number in range(RECORDING_CHANNEL_COUNT_MAX):
        update.subject = f"/x/{number}"
        assert channels._channel(update, None) == number + 1
    channels.add_message(update, None)
    update.subject = "/one/more"
    with pytest.raises(LimitExceeded, match="channels") as caught:
        channels.add_message(update, None)
    assert caught.value.hint


def test_failed_export_leaves_nothing(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "RECORDING_CHANNEL_COUNT_MAX", 5)
    with pytest.raises(LimitExceeded):
        export_mcap([recording], tmp_path / "out.mcap", channels_by="subject")
    assert list(tmp_path.glob("*out*")) == []


def test_full_disk_keeps_the_old_file(
    recording: Recording,
    tmp_path: Path,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    with file_size_limit(500), pytest.raises(RecordingError, match="cannot write"):
        export_json_lines([recording], target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.jsonl"]


def test_missing_package_is_named(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcap.writer", None)
    with pytest.raises(RecordingError, match="mcap") as caught:
        export_mcap([recording], tmp_path / "out.mcap")
    assert caught.value.hint == "install skerry[recording]"


def test_gap_keeps_its_operation(recording: Recording, tmp_path: Path) -> None:
    export_mcap([recording], tmp_path / "out.mcap", selection_of(types=[]))
    ((_, _, _, content),) = messages(tmp_path / "out.mcap")
    assert content["_operation"] == "gap"
    assert GAP == 4
