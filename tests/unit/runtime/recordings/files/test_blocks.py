"""Bytes of batches of local and remote segments."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.runtime.recordings.files import segment_files
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.files.segment_files import cut_blocks, fetch_blocks, read_blocks
from skerry.runtime.recordings.reader import Recording

Ranges = list[tuple[int, int | None]]


@pytest.fixture
def here(
    tmp_path: Path, recorded: Callable[..., Recording], update_of: Callable[..., Update]
) -> Segment:
    """A segment of a batch of descriptions and five of two rows."""
    recording = recorded(tmp_path, [update_of(n) for n in range(1, 11)], rows_per_batch=2)
    (segment,) = recording.segments()
    return segment


@pytest.fixture
def there(here: Segment, bucket: str) -> Segment:
    """The same in a bucket."""
    (RemotePath(bucket) / here.name).write(here.path.read_bytes())
    return replace(here, folder=bucket)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    """The byte ranges that are requested."""
    ranges: Ranges = []
    read = RemotePath.read

    def noted(remote: RemotePath, first: int = 0, stop: int | None = None) -> bytes:
        ranges.append((first, stop))
        return read(remote, first, stop)

    monkeypatch.setattr(RemotePath, "read", noted)
    return ranges


def test_local_file_is_mapped_and_not_copied(here: Segment) -> None:
    data = here.path.read_bytes()
    found = list(read_blocks(here, here.batches))
    assert [batch for batch, _ in found] == list(here.batches)
    assert [bytes(block) for _, block in found] == [data[b.offset : b.stop] for b in here.batches]
    assert all(isinstance(block.obj, mmap.mmap) for _, block in found)


def test_remote_file_gives_the_same_bytes(here: Segment, there: Segment) -> None:
    assert list(read_blocks(there, there.batches)) == list(read_blocks(here, here.batches))


def test_only_wanted_batches_are_fetched(
    there: Segment, asked: Ranges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "_BRIDGED_BYTES_MAX", 0)
    first, second, _, _, last, _ = there.batches
    assert len(list(read_blocks(there, [first, second, last]))) == 3
    assert asked == [(first.offset, second.stop), (last.offset, last.stop)]
    asked.clear()
    assert list(read_blocks(there, [])) == []
    assert asked == []


def test_a_little_between_two_batches_is_fetched_with_them(there: Segment, asked: Ranges) -> None:
    first, last = there.batches[0], there.batches[-1]
    found = list(read_blocks(there, [first, last]))
    assert [len(block) for _, block in found] == [first.size, last.size]
    assert asked == [(first.offset, last.stop)]


def test_request_is_limited_but_has_at_least_one_batch(
    there: Segment, asked: Ranges, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = there.batches[2].stop - there.batches[1].offset
    monkeypatch.setattr(segment_files, "_FETCH_BYTES_MAX", two)
    wanted = there.batches[1:5]
    list(read_blocks(there, wanted))
    assert asked == [(wanted[0].offset, wanted[1].stop), (wanted[2].offset, wanted[3].stop)]
    asked.clear()
    monkeypatch.setattr(segment_files, "_FETCH_BYTES_MAX", 1)
    assert [block.nbytes for _, block in read_blocks(there, wanted)] == [b.size for b in wanted]
    assert len(asked) == 4


def test_next_batches_are_not_fetched_ahead(there: Segment, asked: Ranges) -> None:
    found = fetch_blocks(there, (replace(b, offset=b.offset - 1, size=1) for b in there.batches))
    assert asked == []
    next(found)
    assert len(asked) == 1


def test_a_file_that_ends_too_early_gives_fewer_bytes(here: Segment, there: Segment) -> None:
    last = there.batches[-1]
    RemotePath(there.uri).write(here.path.read_bytes()[: last.offset + 3])
    assert [len(block) for _, block in read_blocks(there, there.batches[-2:])][1] == 3
    beyond = replace(last, offset=10**9)
    assert [len(block) for _, block in read_blocks(there, [beyond])] == [0]
    assert [len(block) for _, block in cut_blocks(memoryview(b"abc"), [beyond])] == [0]


def test_missing_file_is_an_error(there: Segment, object_store: object) -> None:
    gone = replace(there, name="gone-0000000001.arrow")
    with pytest.raises(RecordingError, match=f"cannot read {gone.uri}: there is no") as caught:
        list(read_blocks(gone, gone.batches))
    assert "after the segments" in str(caught.value.hint)
    with pytest.raises(FileNotFoundError):
        list(fetch_blocks(gone, gone.batches))
