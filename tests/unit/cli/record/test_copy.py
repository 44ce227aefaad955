"""`skerry record copy`, and the other commands with remote paths."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.object_store import ObjectStore

Run = Callable[..., Any]


def test_a_recording_is_copied_once(run: Run, recording: Path, bucket: str) -> None:
    done = run("record", "copy", recording, f"{bucket}/r", "--json")
    row = json.loads(done.out)
    assert (row["folder"], row["segments"], row["skipped"]) == (f"{bucket}/r", 1, 0)
    assert row["byte_count"] > 0
    done = run("record", "copy", recording, f"{bucket}/r")
    assert done.out == f"{bucket}/r: 0 segments and 0 B copied, 1 existed already\n"


def test_each_recording_of_a_folder_is_copied_to_a_folder_of_its_name(
    run: Run, made: Any, clean_place: Path, bucket: str, object_store: ObjectStore
) -> None:
    made("all/a", 2)
    made("all/b", 3)
    assert run("record", "copy", clean_place / "all", f"{bucket}/all").code == 0
    names = {name.partition("/")[0] for name in object_store.names(f"{bucket}/all")}
    assert names == {"a", "b"}
    rows = [json.loads(line) for line in lines(run("record", "info", f"{bucket}/all", "--json"))]
    assert [row["folder"] for row in rows] == [f"{bucket}/all/a", f"{bucket}/all/b"]


def test_recordings_are_not_copied_into_a_recording(
    run: Run, made: Any, clean_place: Path, bucket: str, recording: Path
) -> None:
    made("all/a", 2)
    made("all/b", 3)
    assert run("record", "copy", recording, f"{bucket}/r").code == 0
    done = run("record", "copy", clean_place / "all", f"{bucket}/r")
    assert done.code == 1
    assert "is a recording itself, which would hide those in it" in done.err


def test_the_folder_may_be_named_by_a_uri(run: Run, recording: Path, bucket: str) -> None:
    done = run("record", "copy", f"file://{recording.absolute()}", f"{bucket}/r")
    assert done.code == 0, done.err


def test_a_local_folder_is_not_a_remote_path(run: Run, recording: Path) -> None:
    done = run("record", "copy", recording, "there")
    assert done.code == 2
    assert "s3a://bucket/there" in done.err


@pytest.mark.parametrize("target", ["/disk/there", "file:///disk/there", "file:/disk/there"])
def test_a_folder_is_not_made_a_part_of_a_uri_as_it_is(
    run: Run, recording: Path, target: str
) -> None:
    done = run("record", "copy", recording, target)
    assert done.code == 2
    assert "give a remote path such as s3a://bucket/there," in done.err


def test_source_of_a_copy_must_be_local(run: Run) -> None:
    done = run("record", "copy", "s3a://bucket/r", "s3a://bucket/other")
    assert done.code == 2
    assert "DIR must be a local folder" in done.err


def test_an_invalid_uri_is_an_error_with_a_hint(run: Run, recording: Path) -> None:
    for command in (("copy", recording, "s3a:/b/x"), ("info", "s3a:/b/x")):
        done = run("record", *command)
        assert done.code == 1
        assert "hint:  write s3a://b/x" in done.err


def test_losses_are_reported(run: Run, recording: Path, bucket: str) -> None:
    (segment,) = recording.glob("*.arrow")
    segment.write_bytes(segment.read_bytes()[:-9])
    done = run("record", "copy", recording, f"{bucket}/r", "--json")
    (warning,) = json.loads(done.out)["warnings"]
    assert warning.startswith(f"{segment.name} has ")
    done = run("record", "copy", recording, f"{bucket}/other")
    assert (done.code, f"warning: {recording}: {warning}" in done.err) == (0, True)


def test_a_failed_copy_does_not_stop_the_others(
    run: Run, made: Any, clean_place: Path, bucket: str
) -> None:
    for name in ("a", "b", "c"):
        made(f"all/{name}", 2)
    run("record", "copy", made("other", 2), f"{bucket}/all/a")
    (clean_place / "all" / "b" / "recording.json").write_text("{}")
    done = run("record", "copy", clean_place / "all", f"{bucket}/all")
    assert done.code == 1
    assert f"{bucket}/all/a has another recording" in done.err
    assert "hint:  copy each recording to a remote path of its own" in done.err
    assert "does not identify a recording" in done.err
    assert "2 of 3 recordings were not copied" in done.err
    assert done.out == f"{bucket}/all/c: 1 segments and {done.out.split(' and ')[1]}"


def test_recordings_are_not_hidden_by_another_one(
    run: Run, recording: Path, made: Any, bucket: str
) -> None:
    run("record", "copy", made("b", 2), f"{bucket}/all/b")
    for command, name in (("copy", "rec"), ("cut", "new"), ("merge", "new")):
        done = run("record", command, recording, f"{bucket}/all")
        assert done.code == 1
        assert f"{bucket}/all contains recordings, such as b" in done.err
        assert f"hint:  copy it to a remote path of its own: {bucket}/all/{name}" in done.err
    done = run("record", "info", f"{bucket}/all", "--json")
    assert [json.loads(line)["folder"] for line in lines(done)] == [f"{bucket}/all/b"]


def test_a_remote_recording_without_a_manifest_is_not_sound(
    run: Run, recording: Path, bucket: str, object_store: ObjectStore
) -> None:
    run("record", "copy", recording, f"{bucket}/r")
    object_store.delete(f"{bucket}/r/manifest.jsonl")
    done = run("record", "verify", f"{bucket}/r", "--strict")
    assert done.code == 1
    assert "fault: there is no manifest" in done.out
    assert f"{bucket}/r has no manifest" in run("record", "info", f"{bucket}/r").err


def test_missing_remote_recording_has_a_hint_to_copy_it(run: Run, bucket: str) -> None:
    done = run("record", "info", f"{bucket}/none")
    assert f"hint:  copy one there: `skerry record copy DIR {bucket}/none`" in done.err


def test_a_copy_can_be_inspected_verified_and_exported(
    run: Run, recording: Path, bucket: str
) -> None:
    run("record", "copy", recording, f"{bucket}/r")
    for command in (("info",), ("verify", "--strict")):
        here, there = (run("record", *command, p, "--json") for p in (recording, f"{bucket}/r"))
        assert (here.code, there.code) == (0, 0)
        facts = [json.loads(done.out) for done in (here, there)]
        assert [row.pop("folder") for row in facts] == [str(recording), f"{bucket}/r"]
        assert facts[0] == facts[1]
    here, there = (run("record", "export", p, "-") for p in (recording, f"{bucket}/r"))
    assert here.out == there.out != ""


def test_a_copy_can_be_played(run: Run, node: Any, recording: Path, bucket: str) -> None:
    run("record", "copy", recording, f"{bucket}/r")
    done = run("replay", f"{bucket}/r", "--node", node.place, "--fast", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["played"] == 5


def test_parts_and_wholes_can_be_made_elsewhere(
    run: Run, recording: Path, made: Any, bucket: str
) -> None:
    run("record", "copy", recording, f"{bucket}/r")
    done = run("record", "cut", f"{bucket}/r", f"{bucket}/cut", "--types", "Vessel", "--json")
    assert json.loads(done.out)["folder"] == f"{bucket}/cut"
    done = run("record", "merge", f"{bucket}/cut", made("b", 7), f"{bucket}/both", "--json")
    row = json.loads(done.out)
    assert (row["rows"], row["duplicates"]) == (8, 5), "seven, and a gap"
    found = json.loads(run("record", "info", f"{bucket}/both", "--json").out)
    assert found["types"]["Vessel"] == 7
    again = run("record", "merge", recording, f"{bucket}/both")
    assert again.code == 1
    assert f"{bucket}/both is a recording already" in again.err


def test_a_missing_bucket_is_an_error_with_a_hint(run: Run, recording: Path, bucket: str) -> None:
    for command in (
        ("copy", recording, "s3a://nobody-made-it/r"),
        ("info", "s3a://nobody-made-it/r"),
        ("cut", recording, "s3a://nobody-made-it/r"),
    ):
        done = run("record", *command)
        assert done.code == 1
        assert "there is no bucket nobody-made-it" in done.err
        assert "hint:  create it, or name another" in done.err


def lines(done: Any) -> list[str]:
    return str(done.out).splitlines()
