"""Segments that are not in the manifest. `test_reader` has further tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.unlisted_segments import UnlistedSegments
from skerry.runtime.recordings.reader import Recording

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


@pytest.fixture
def folder(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Path:
    """A recording with a segment of another in its folder."""
    recorded(tmp_path / "r", [update_of(1)])
    (theirs,) = recorded(tmp_path / "o", [update_of(2, node=4)]).segments()
    (tmp_path / "r" / theirs.name).write_bytes(theirs.path.read_bytes())
    return tmp_path / "r"


def test_unlisted_segment_gets_a_line(folder: Path) -> None:
    manifest = Manifest(folder)
    unlisted = UnlistedSegments(folder, manifest)
    unlisted.refresh()
    assert (unlisted.segments, unlisted.unindexed) == ([], ())
    assert [segment.line for segment in manifest.lines.segments.values()] == [0, 1]


def test_unlisted_segment_of_a_read_only_folder_follows_the_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    manifest = Manifest(folder)
    unlisted = UnlistedSegments(folder, manifest)
    unlisted.refresh()
    assert [segment.line for segment in unlisted.segments] == [1]
    assert manifest.lines.count == 1


def test_file_that_is_not_a_segment_is_reported(folder: Path) -> None:
    unlisted = UnlistedSegments(folder, Manifest(folder))
    (folder / "0000-0000000009.arrow").write_bytes(b"no segment")
    unlisted.refresh()
    assert unlisted.unindexed == ("0000-0000000009.arrow",)
