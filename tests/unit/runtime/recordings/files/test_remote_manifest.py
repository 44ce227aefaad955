"""A manifest in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.recording.manifest_lines import Repair
from skerry.runtime.recordings.files import remote_manifest
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest, ManifestReader
from skerry.runtime.recordings.files.remote_manifest import RemoteManifest
from skerry.runtime.recordings.files.remote_paths import RemotePath, Version
from skerry.runtime.recordings.reader import Recording


@pytest.fixture
def folder(
    tmp_path: Path, recorded: Callable[..., Recording], update_of: Callable[..., Update]
) -> Path:
    """A recording of four segments."""
    updates = [update_of(number) for number in range(1, 41)]
    recorded(tmp_path / "r", updates, rows_per_batch=10, batches_per_segment=1)
    return tmp_path / "r"


@pytest.fixture
def lines(folder: Path) -> list[bytes]:
    return (folder / MANIFEST_NAME).read_bytes().splitlines(keepends=True)


@pytest.fixture
def remote(bucket: str) -> RemotePath:
    return RemotePath(bucket) / "r"


def put(remote: RemotePath, data: bytes) -> None:
    (remote / MANIFEST_NAME).write(data)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """The byte ranges that are requested."""
    ranges: list[tuple[int, int | None]] = []
    read = RemotePath.read

    def record(remote: RemotePath, first: int = 0, stop: int | None = None) -> bytes:
        ranges.append((first, stop))
        return read(remote, first, stop)

    monkeypatch.setattr(RemotePath, "read", record)
    return ranges


def test_only_added_lines_are_read(
    remote: RemotePath, lines: list[bytes], requested: list[tuple[int, int | None]]
) -> None:
    manifest = RemoteManifest(remote)
    manifest.refresh()
    assert (manifest.lines.count, dict(manifest.lines.segments)) == (0, {})
    put(remote, b"".join(lines[:2]))
    manifest.refresh()
    assert manifest.lines.count == 2
    requested.clear()
    manifest.refresh()
    assert requested == [], "it has not changed"
    old, whole = len(b"".join(lines[:2])), b"".join(lines)
    put(remote, whole)
    manifest.refresh()
    assert requested == [(0, 256), (old, len(whole))]
    assert [segment.line for segment in manifest.lines.segments.values()] == [0, 1, 2, 3]
    assert {segment.folder for segment in manifest.lines.segments.values()} == {str(remote)}


def test_incomplete_line_is_read_when_it_is_complete(
    remote: RemotePath, lines: list[bytes]
) -> None:
    manifest = RemoteManifest(remote)
    put(remote, lines[0] + lines[1][:100])
    manifest.refresh()
    assert (manifest.lines.count, manifest.lines.unreadable) == (1, [])
    put(remote, lines[0] + lines[1])
    manifest.refresh()
    assert (manifest.lines.count, manifest.lines.unreadable) == (2, [])


def test_shortened_manifest_is_read_from_its_beginning(remote: RemotePath, folder: Path) -> None:
    ours = Manifest(folder)
    ours.refresh()
    manifest = RemoteManifest(remote)
    put(remote, ours.path.read_bytes())
    manifest.refresh()
    first, *others = ours.lines.segments
    with ours.locked():
        ours.add_dropped(first, "age", sync=False)
        (folder / first).unlink()
        ours.shorten(kept=0)
    put(remote, ours.path.read_bytes())
    manifest.refresh()
    assert list(manifest.lines.segments) == others
    assert [segment.line for segment in manifest.lines.segments.values()] == [1, 2, 3]
    assert manifest.lines.forgotten.segments == {"age": 1}


def test_older_manifest_is_ignored(
    remote: RemotePath, lines: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    manifest = RemoteManifest(remote)
    put(remote, b"".join(lines[:3]))
    manifest.refresh()
    for older in (lines[0], b"".join(lines[:2])):
        put(remote, older)
        manifest.refresh()
        assert (manifest.lines.count, len(manifest.lines.segments)) == (3, 3)
    (record,) = caplog.records
    assert "fewer lines than before; the next copy will fix it" in record.getMessage()
    put(remote, b"".join(lines))
    manifest.refresh()
    assert [segment.line for segment in manifest.lines.segments.values()] == [0, 1, 2, 3]


def test_a_manifest_that_changes_while_it_is_read_is_read_again(
    remote: RemotePath, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(remote, lines[0])
    changes = [b"".join(lines[:2]), b"".join(lines)]
    read = RemotePath.read

    def change_and_read(found: RemotePath, first: int = 0, stop: int | None = None) -> bytes:
        if changes:
            put(remote, changes.pop(0))
        return read(found, first, stop)

    monkeypatch.setattr(RemotePath, "read", change_and_read)
    manifest = RemoteManifest(remote)
    manifest.refresh()
    assert (manifest.lines.count, manifest.lines.unreadable, changes) == (4, [], [])


def test_manifest_that_changes_all_the_time_is_an_error(
    remote: RemotePath, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(remote, lines[0])
    requests: list[int] = []

    def other_version(_remote: RemotePath) -> Version:
        requests.append(1)
        return len(lines[0]), str(len(requests))

    monkeypatch.setattr(RemotePath, "version", other_version)
    with pytest.raises(RecordingError, match="changes faster than it can be read") as caught:
        RemoteManifest(remote).refresh()
    assert "once a second" in str(caught.value.hint)
    assert len(requests) == 2 * remote_manifest._ATTEMPTS


def test_lines_of_a_removed_manifest_stay_known(remote: RemotePath, lines: list[bytes]) -> None:
    manifest = RemoteManifest(remote)
    put(remote, lines[0])
    manifest.refresh()
    assert manifest.exists
    (remote / MANIFEST_NAME).files.delete_file((remote / MANIFEST_NAME).path)
    manifest.refresh()
    assert (manifest.lines.count, manifest.exists) == (1, False)


@pytest.mark.parametrize("stat_count_max", [0, 16])
def test_segments_whose_files_are_missing_or_incomplete_are_absent(
    remote: RemotePath, folder: Path, monkeypatch: pytest.MonkeyPatch, stat_count_max: int
) -> None:
    monkeypatch.setattr(remote_manifest, "_STAT_COUNT_MAX", stat_count_max)
    manifest = RemoteManifest(remote)
    assert manifest.absent() == []
    put(remote, (folder / MANIFEST_NAME).read_bytes())
    manifest.refresh()
    names = list(manifest.lines.segments)
    for name in names[1:]:
        (remote / name).write((folder / name).read_bytes())
    (remote / names[2]).write(b"half")
    assert [segment.name for segment in manifest.absent()] == [names[0], names[2]]
    for name in (names[0], names[2]):
        (remote / name).write((folder / name).read_bytes())
    assert manifest.absent() == []
    monkeypatch.setattr(RemotePath, "sizes", lambda *_: pytest.fail("all were seen"))
    assert manifest.absent() == []


def test_copy_states_what_the_local_manifest_states(remote: RemotePath, folder: Path) -> None:
    local = Manifest(folder)
    with local.locked():
        first = next(iter(local.lines.segments))
        local.add_dropped(first, "size", sync=False)
        repair = Repair(name=first, kept_batches=1, kept_rows=2, lost_bytes=3)
        local.add_repaired(repair, sync=False)
    with local.path.open("ab") as file:
        file.write(b"nonsense\n")
    local.refresh()
    put(remote, local.path.read_bytes())
    copy: ManifestReader = RemoteManifest(remote)
    copy.refresh()
    assert copy.lines.count == local.lines.count == 7
    assert copy.lines.dropped == local.lines.dropped == {first: "size"}
    assert copy.lines.repairs == local.lines.repairs
    assert copy.lines.unreadable == local.lines.unreadable == [6]
    assert copy.lines.forgotten == local.lines.forgotten
    assert copy.lines.dropped_segments.keys() == local.lines.dropped_segments.keys() == {first}
    moved = {name: replace(s, folder=str(remote)) for name, s in local.lines.segments.items()}
    assert copy.lines.segments == moved
    assert copy.lines.last is not None
    assert copy.lines.last.name == list(moved)[-1]
