"""What a manifest says, here and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.runtime.recordings.manifest import Manifest
from skerry.runtime.recordings.manifest_facts import MANIFEST_NAME, ManifestFacts
from skerry.runtime.recordings.manifest_lines import Lines, Repair
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.remote_manifest import RemoteManifest
from skerry.runtime.recordings.remote_paths import RemotePath


def test_a_copy_says_what_the_manifest_says(
    tmp_path: Path,
    recorded: Callable[..., Recording],
    update_of: Callable[..., Update],
    bucket: str,
) -> None:
    updates = [update_of(number) for number in range(1, 31)]
    recorded(tmp_path, updates, rows_per_batch=10, batches_per_segment=1)
    here = Manifest(tmp_path)
    with here.locked():
        first = next(iter(here.segments))
        here.add_dropped(first, "size", sync=False)
        here.add_repaired(Repair(name=first, kept_batches=1, kept_rows=2, lost_bytes=3), sync=False)
    with here.path.open("ab") as file:
        file.write(b"nonsense\n")
    here.refresh()
    (RemotePath(bucket) / MANIFEST_NAME).write(here.path.read_bytes())
    there: ManifestFacts = RemoteManifest(RemotePath(bucket))
    there.refresh()
    assert there.line_count == here.line_count == 6
    assert there.dropped == here.dropped == {first: "size"}
    assert there.repairs == here.repairs
    assert there.unreadable == here.unreadable == [5]
    assert there.forgotten == here.forgotten
    assert there.gone.keys() == here.gone.keys() == {first}
    moved = {name: replace(segment, folder=bucket) for name, segment in here.segments.items()}
    assert there.segments == moved
    assert there.last is not None
    assert there.last.name == list(moved)[-1]


def test_lines_that_were_read_do_not_go_away(tmp_path: Path) -> None:
    class Fixed(ManifestFacts):
        def refresh(self) -> None:
            self._go_on_with(Lines(tmp_path, has_batches=True), tmp_path)

    lines = Lines(tmp_path, has_batches=True)
    fixed = Fixed(lines)
    fixed.refresh()
    fixed._lines.add(b'{"line": 3}\n')
    with pytest.raises(RecordingError, match="became shorter"):
        fixed.refresh()
    assert fixed.line_count == 4
