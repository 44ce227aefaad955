"""Shortened manifests: old lines are summed up, the others keep their numbers."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.recording.index import Segment
from skerry.recording.manifest_lines import Forgotten, Repair
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest


def make_segment(number: int, recorder: str = "01234567") -> Segment:
    return Segment(
        folder=Path(),
        name=f"{recorder}-{number:010d}.arrow",
        line=-1,
        rows=number,
        byte_count=100,
        time_min_ns=1000 + number,
        time_max_ns=2000 + number,
        types={},
        fingerprints={},
        batches=(),
    )


def fill(folder: Path, count: int, *, gone: int) -> Manifest:
    """A manifest with `count` segments, of which the first `gone` are dropped."""
    manifest = Manifest(folder, has_batches=False)
    with manifest.locked():
        for number in range(1, count + 1):
            manifest.add_sealed(make_segment(number), sync=False)
        for number in range(1, gone + 1):
            reason = "age" if number % 2 else "size"
            manifest.add_dropped(make_segment(number).name, reason, sync=False)
    return manifest


def shorten(manifest: Manifest, kept: int) -> None:
    with manifest.locked():
        manifest.shorten(kept=kept)


def read_again(folder: Path) -> Manifest:
    manifest = Manifest(folder)
    manifest.refresh()
    return manifest


def text_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / MANIFEST_NAME).read_text().splitlines()]


def test_needed_lines_stay_with_their_numbers(tmp_path: Path) -> None:
    manifest = fill(tmp_path, 6, gone=4)
    before = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    shorten(manifest, 1)
    first, *lines = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    assert list(json.loads(first)) == ["shortened"]
    # The last dropped segment, the present ones, and the `dropped` line of the former.
    assert lines == [f'{{"line":{n},{before[n][1:]}' for n in (3, 4, 5, 9)]
    assert manifest.lines.forgotten == Forgotten(
        times=1,
        first_line=0,
        last_line=2,
        segments={"age": 2, "size": 1},
        rows=1 + 2 + 3,
        time_min_ns=1001,
        time_max_ns=2003,
        numbers={"01234567": 3},
    )
    assert read_again(tmp_path).lines.forgotten == manifest.lines.forgotten


def test_summaries_add_up_and_lines_are_copied_unchanged(tmp_path: Path) -> None:
    manifest = fill(tmp_path, 6, gone=2)
    shorten(manifest, 0)
    once = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    with manifest.locked():
        manifest.add_dropped(make_segment(3).name, "size", sync=False)
        manifest.shorten(kept=0)
        # Still under the lock, and written to the new file.
        manifest.add_sealed(make_segment(7), sync=False)
    twice = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    assert twice[1:4] == once[2:5]
    assert [event.get("line") for event in text_lines(tmp_path)] == [None, 3, 4, 5, 8, None]
    found = read_again(tmp_path)
    assert found.lines.forgotten.segments == {"age": 1, "size": 2}
    assert (
        found.lines.forgotten.rows,
        found.lines.forgotten.times,
        found.lines.forgotten.last_line,
    ) == (6, 2, 2)
    assert [segment.line for segment in found.lines.segments.values()] == [3, 4, 5, 9]
    assert found.lines.count == manifest.lines.count == 10


def test_segments_without_rows_have_no_times(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    with manifest.locked():
        for number in (0, 5):
            manifest.add_sealed(make_segment(number), sync=False)
            manifest.add_dropped(make_segment(number).name, "age", sync=False)
            manifest.shorten(kept=0)
            times = (manifest.lines.forgotten.time_min_ns, manifest.lines.forgotten.time_max_ns)
            assert times == ((1005, 2005) if number else (0, 0))


def test_repairs_are_forgotten_but_for_the_newest(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    repairs = [Repair(name=str(n), kept_batches=1, kept_rows=n, lost_bytes=0) for n in range(5)]
    with manifest.locked():
        for repair in repairs:
            manifest.add_repaired(repair, sync=False)
        manifest.shorten(kept=2)
    for found in (manifest, read_again(tmp_path)):
        assert (found.lines.repairs, found.lines.forgotten.repairs) == (repairs[3:], 3)


def test_unreadable_lines_are_counted_and_their_numbers_stay(tmp_path: Path) -> None:
    manifest = fill(tmp_path, 2, gone=0)
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b'what\n{"line": 9, "sealed": {}}\n')
    shorten(manifest, 5)
    for found in (manifest, read_again(tmp_path)):
        assert (
            found.lines.unreadable,
            found.lines.forgotten.unreadable,
            found.lines.count,
        ) == ([], 2, 10)
    assert text_lines(tmp_path)[-1] == {"line": 9}


def test_dropped_segment_whose_file_exists_stays_listed(tmp_path: Path) -> None:
    manifest = fill(tmp_path, 3, gone=2)
    there = tmp_path / make_segment(1).name
    there.touch()
    shorten(manifest, 0)
    assert list(manifest.lines.dropped) == list(read_again(tmp_path).lines.dropped) == [there.name]
    there.unlink()
    shorten(manifest, 0)
    assert (manifest.lines.dropped, manifest.lines.forgotten.segments) == (
        {},
        {"age": 1, "size": 1},
    )


def test_highest_number_of_each_recorder_is_kept(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    with manifest.locked():
        for recorder, number in (("01234567", 9), ("01234567", 4), ("ab-cd", 2)):
            segment = make_segment(number, recorder)
            manifest.add_sealed(segment, sync=False)
            manifest.add_dropped(segment.name, "age", sync=False)
        manifest.add_dropped("nameless.arrow", "age", sync=False)
        manifest.shorten(kept=0)
    assert manifest.lines.forgotten.numbers == {"01234567": 9, "ab-cd": 2}


class Model:
    """The state of a manifest that is never shortened."""

    def __init__(self) -> None:
        self.line_count = 0
        self.segments: dict[str, int] = {}
        self.dropped: dict[str, tuple[str, int]] = {}
        self.repair_count = 0
        self.unreadable_count = 0

    def seal(self, name: str) -> None:
        self.segments.pop(name, None)
        self.segments[name] = self._next()

    def drop(self, name: str, reason: str) -> None:
        self.dropped[name] = (reason, self.segments.pop(name))
        self._next()

    def repair(self) -> None:
        self.repair_count += 1
        self._next()

    def unreadable(self) -> None:
        self.unreadable_count += 1
        self._next()

    def _next(self) -> int:
        self.line_count += 1
        return self.line_count - 1

    def check(self, found: Manifest) -> None:
        forgotten = found.lines.forgotten
        assert found.lines.count == self.line_count
        assert {s.name: s.line for s in found.lines.segments.values()} == self.segments
        assert list(found.lines.segments) == list(self.segments)
        counts = Counter(forgotten.segments) + Counter(found.lines.dropped.values())
        assert counts == Counter(reason for reason, _ in self.dropped.values())
        # The newest are listed; the lines of all others are in the summary.
        names = list(self.dropped)
        newest = names[len(names) - len(found.lines.dropped) :]
        assert {name: found.lines.dropped_segments[name].line for name in found.lines.dropped} == {
            name: self.dropped[name][1] for name in newest
        }
        old = [self.dropped[name][1] for name in names[: len(names) - len(newest)]]
        if old:
            assert (forgotten.first_line, forgotten.last_line) == (min(old), max(old))
        numbers = {int(name[9:19]) for name in names[: len(old)]}
        assert forgotten.rows == sum(numbers)
        assert forgotten.numbers.get("01234567", 0) == max(numbers, default=0)
        assert len(found.lines.repairs) + forgotten.repairs == self.repair_count
        assert len(found.lines.unreadable) + forgotten.unreadable == self.unreadable_count


STEPS = st.one_of(
    st.sampled_from(["seal", "repair", "unreadable", "refresh", "reopen", "new reader"]).map(
        lambda what: (what, 0)
    ),
    st.tuples(st.sampled_from(["drop", "seal", "seal again", "shorten"]), st.integers(0, 5)),
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_readers_at_any_moment_know_all_that_was_written(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, number = Model(), 0
        writer, reader = Manifest(folder, has_batches=False), Manifest(folder)
        for what, argument in steps:
            if what == "refresh":
                reader.refresh()
                model.check(reader)
            elif what == "new reader":
                reader = Manifest(folder)
            elif what == "reopen":
                writer = Manifest(folder, has_batches=False)
            elif what == "unreadable":
                with (folder / MANIFEST_NAME).open("ab") as file:
                    file.write(b"{}\n")
                model.unreadable()
            else:
                number += 1
                with writer.locked():
                    _do(what, argument, number, writer, model)
                    model.check(writer)
        for manifest in (reader, Manifest(folder)):
            manifest.refresh()
            model.check(manifest)


def _do(what: str, argument: int, number: int, writer: Manifest, model: Model) -> None:
    present = list(model.segments)
    if what == "shorten":
        writer.shorten(kept=argument)
    elif what == "repair":
        writer.add_repaired(Repair(name="x", kept_batches=0, kept_rows=0, lost_bytes=0), sync=False)
        model.repair()
    elif what == "drop" and present:
        name, reason = present[argument % len(present)], "age" if number % 2 else "size"
        writer.add_dropped(name, reason, sync=False)
        model.drop(name, reason)
    elif what == "seal again" and present:
        name = present[argument % len(present)]
        writer.add_sealed(make_segment(int(name[9:19])), sync=False)
        model.seal(name)
    elif what == "seal":
        writer.add_sealed(make_segment(number), sync=False)
        model.seal(make_segment(number).name)
