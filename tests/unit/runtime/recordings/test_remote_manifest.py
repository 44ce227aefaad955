"""A manifest that lies in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.runtime.recordings import remote_manifest as place_manifest
from skerry.runtime.recordings.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.remote_manifest import RemoteManifest
from skerry.runtime.recordings.remote_paths import RemotePath, Version


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
def place(bucket: str) -> RemotePath:
    return RemotePath(bucket) / "r"


def put(place: RemotePath, data: bytes) -> None:
    (place / MANIFEST_NAME).write(data)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """What is asked of places, from where to where."""
    ranges: list[tuple[int, int | None]] = []
    read = RemotePath.read

    def noted(place: RemotePath, first: int = 0, stop: int | None = None) -> bytes:
        ranges.append((first, stop))
        return read(place, first, stop)

    monkeypatch.setattr(RemotePath, "read", noted)
    return ranges


def test_only_what_was_added_is_read(
    place: RemotePath, lines: list[bytes], asked: list[tuple[int, int | None]]
) -> None:
    manifest = RemoteManifest(place)
    manifest.refresh()
    assert (manifest.line_count, dict(manifest.segments)) == (0, {})
    put(place, b"".join(lines[:2]))
    manifest.refresh()
    assert manifest.line_count == 2
    asked.clear()
    manifest.refresh()
    assert asked == [], "it has not changed"
    old, whole = len(b"".join(lines[:2])), b"".join(lines)
    put(place, whole)
    manifest.refresh()
    assert asked == [(0, 256), (old, len(whole))]
    assert [segment.line for segment in manifest.segments.values()] == [0, 1, 2, 3]
    assert {segment.folder for segment in manifest.segments.values()} == {str(place)}


def test_half_a_line_waits_for_its_end(place: RemotePath, lines: list[bytes]) -> None:
    manifest = RemoteManifest(place)
    put(place, lines[0] + lines[1][:100])
    manifest.refresh()
    assert (manifest.line_count, manifest.unreadable) == (1, [])
    put(place, lines[0] + lines[1])
    manifest.refresh()
    assert (manifest.line_count, manifest.unreadable) == (2, [])


def test_a_manifest_that_was_shortened_is_read_anew(place: RemotePath, folder: Path) -> None:
    ours = Manifest(folder)
    ours.refresh()
    manifest = RemoteManifest(place)
    put(place, ours.path.read_bytes())
    manifest.refresh()
    first, *others = ours.segments
    with ours.locked():
        ours.add_dropped(first, "age", sync=False)
        (folder / first).unlink()
        ours.shorten(kept=0)
    put(place, ours.path.read_bytes())
    manifest.refresh()
    assert list(manifest.segments) == others
    assert [segment.line for segment in manifest.segments.values()] == [1, 2, 3]
    assert manifest.forgotten.segments == {"age": 1}


def test_an_older_manifest_is_left_aside(
    place: RemotePath, lines: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    manifest = RemoteManifest(place)
    put(place, b"".join(lines[:3]))
    manifest.refresh()
    for older in (lines[0], b"".join(lines[:2])):
        put(place, older)
        manifest.refresh()
        assert (manifest.line_count, len(manifest.segments)) == (3, 3)
    (record,) = caplog.records
    assert "fewer lines than before; the next copy mends it" in record.getMessage()
    put(place, b"".join(lines))
    manifest.refresh()
    assert [segment.line for segment in manifest.segments.values()] == [0, 1, 2, 3]


def test_a_manifest_that_changes_while_it_is_read_is_read_again(
    place: RemotePath, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, lines[0])
    changes = [b"".join(lines[:2]), b"".join(lines)]
    read = RemotePath.read

    def change_and_read(found: RemotePath, first: int = 0, stop: int | None = None) -> bytes:
        if changes:
            put(place, changes.pop(0))
        return read(found, first, stop)

    monkeypatch.setattr(RemotePath, "read", change_and_read)
    manifest = RemoteManifest(place)
    manifest.refresh()
    assert (manifest.line_count, manifest.unreadable, changes) == (4, [], [])


def test_a_manifest_that_never_rests_is_an_error(
    place: RemotePath, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, lines[0])
    looks: list[int] = []

    def other_version(_place: RemotePath) -> Version:
        looks.append(1)
        return len(lines[0]), str(len(looks))

    monkeypatch.setattr(RemotePath, "version", other_version)
    with pytest.raises(RecordingError, match="changes faster than it can be read") as caught:
        RemoteManifest(place).refresh()
    assert "once a second" in str(caught.value.hint)
    assert len(looks) == 2 * place_manifest._TRIES


def test_what_a_manifest_said_that_is_gone_stays_known(
    place: RemotePath, lines: list[bytes]
) -> None:
    manifest = RemoteManifest(place)
    put(place, lines[0])
    manifest.refresh()
    assert manifest.is_there
    (place / MANIFEST_NAME).files.delete_file((place / MANIFEST_NAME).path)
    manifest.refresh()
    assert (manifest.line_count, manifest.is_there) == (1, False)


@pytest.mark.parametrize("asked_max", [0, 16])
def test_segments_that_are_not_there_or_not_whole_are_absent(
    place: RemotePath, folder: Path, monkeypatch: pytest.MonkeyPatch, asked_max: int
) -> None:
    monkeypatch.setattr(place_manifest, "_ASKED_COUNT_MAX", asked_max)
    manifest = RemoteManifest(place)
    assert manifest.absent() == []
    put(place, (folder / MANIFEST_NAME).read_bytes())
    manifest.refresh()
    names = list(manifest.segments)
    for name in names[1:]:
        (place / name).write((folder / name).read_bytes())
    (place / names[2]).write(b"half")
    assert [segment.name for segment in manifest.absent()] == [names[0], names[2]]
    for name in (names[0], names[2]):
        (place / name).write((folder / name).read_bytes())
    assert manifest.absent() == []
    monkeypatch.setattr(RemotePath, "sizes", lambda *_: pytest.fail("all were seen"))
    assert manifest.absent() == []
