"""The manifest that takes the place of an earlier copy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from skerry.codec.envelope import Update
from skerry.recording.index import Segment
from skerry.runtime.recordings.manifest import MANIFEST_NAME, Manifest, Repair
from skerry.runtime.recordings.manifest_copies import following, lines_of, sealed_line, whole_lines
from skerry.runtime.recordings.reader import Recording


@pytest.fixture
def folder(
    tmp_path: Path, recorded: Callable[..., Recording], update_of: Callable[..., Update]
) -> Path:
    """A recording of five segments."""
    updates = [update_of(number) for number in range(1, 51)]
    recorded(tmp_path / "r", updates, rows_per_batch=10, batches_per_segment=1)
    return tmp_path / "r"


@pytest.fixture
def lines(folder: Path) -> list[bytes]:
    return (folder / MANIFEST_NAME).read_bytes().splitlines(keepends=True)


def names_in(manifest: bytes) -> list[str]:
    return list(lines_of(manifest).segments)


def renamed(line: bytes, number: int) -> bytes:
    """The line of another segment of the recorder."""
    return re.sub(rb"-\d{10}\.", b"-%010d." % number, line)


def drop(folder: Path, *names: str, kept: int | None = None) -> bytes:
    """The manifest after these are gone, shortened if that is asked for."""
    manifest = Manifest(folder)
    with manifest.locked():
        for name in names:
            manifest.add_dropped(name, "age", sync=False)
            (folder / name).unlink()
        if kept is not None:
            manifest.shorten(kept=kept)
    return manifest.path.read_bytes()


def test_half_a_line_is_none(lines: list[bytes]) -> None:
    assert whole_lines(lines[0] + lines[1][:-1]) == lines[0]
    assert whole_lines(b"half") == whole_lines(b"") == b""


def test_a_line_is_written_as_the_recorder_writes_it(folder: Path, lines: list[bytes]) -> None:
    assert list(map(sealed_line, Recording(folder).segments())) == lines


def test_a_longer_one_follows_and_a_shorter_one_does_not(lines: list[bytes]) -> None:
    old, new = b"".join(lines[:2]), b"".join(lines)
    assert following(b"", new) == following(old, new) == following(new, old) == new


def test_a_shortened_one_follows_the_one_before(folder: Path, lines: list[bytes]) -> None:
    before = b"".join(lines)
    names = names_in(before)
    after = drop(folder, *names[:2], kept=0)
    assert following(before, after) == after
    assert following(after, before) == after, "it is older"
    twice = drop(folder, names[2], kept=0)
    assert following(after, twice) == following(twice, after) == twice


def test_what_was_numbered_otherwise_keeps_its_numbers(folder: Path, lines: list[bytes]) -> None:
    """The last segment had no line when it was copied, and those before it came later."""
    theirs = lines[0] + lines[4]
    first, second, third, fourth, fifth = names_in(b"".join(lines))
    new = following(theirs, b"".join(lines))
    assert new.startswith(theirs)
    assert names_in(new) == [first, fifth, second, third, fourth]
    assert following(new, b"".join(lines)) == new, "nothing is new"
    dropped = following(new, drop(folder, first, second))
    assert dropped.startswith(new)
    assert names_in(dropped) == [fifth, third, fourth]
    assert list(lines_of(dropped).dropped) == [first, second]
    manifest = Manifest(folder)
    with manifest.locked():
        repair = Repair(name=third, kept_batches=1, kept_rows=2, lost_bytes=3)
        manifest.add_repaired(repair, sync=False)
    with manifest.path.open("ab") as file:
        file.write(b"nonsense\n")
    repaired = following(dropped, manifest.path.read_bytes())
    assert lines_of(repaired).repairs == [repair]
    assert lines_of(repaired).unreadable == []
    short = drop(folder, third, kept=0)
    last = following(repaired, short)
    assert names_in(last) == [fifth, fourth]
    assert following(last, short) == last


def test_what_is_forgotten_does_not_come_again(folder: Path, lines: list[bytes]) -> None:
    names = names_in(b"".join(lines))
    ours = b"".join(lines + [renamed(lines[0], number) for number in (6, 7, 8)])
    theirs = drop(folder, *names[:2], kept=0) + renamed(lines[0], 9)
    new = following(theirs, ours)
    assert new.startswith(theirs)
    assert [int(name[9:19]) for name in names_in(new)] == [3, 4, 5, 9, 6, 7, 8]


def test_a_segment_that_came_back_is_there_again(folder: Path, lines: list[bytes]) -> None:
    whole = b"".join(lines)
    first, *others = names_in(whole)
    theirs = drop(folder, first) + renamed(lines[1], 9)
    ours = drop(folder) + lines[0]
    assert names_in(following(theirs, ours))[-1] == first
    gone = drop(folder) + renamed(lines[2], 8)
    assert names_in(following(theirs, gone))[: len(others)] == others
    assert first not in names_in(following(theirs, gone))


def stray(name: str) -> bytes:
    """The line of a segment."""
    return sealed_line(
        Segment(
            folder="",
            name=name,
            line=-1,
            rows=1,
            byte_count=10,
            time_min_ns=1,
            time_max_ns=2,
            types={"T": 1},
            fingerprints={},
            batches=(),
        )
    )


def dropped(name: str) -> bytes:
    return json.dumps({"dropped": {"name": name, "reason": "age"}}).encode() + b"\n"


def test_an_older_copy_that_ends_last_brings_nothing_back() -> None:
    one, two = "aaaaaaaa-0000000000.arrow", "bbbbbbbb-0000000000.arrow"
    older = stray(one) + stray(two)
    newer = stray(one) + dropped(one) + stray(two)
    place = following(following(stray(one), newer), older)
    assert names_in(place) == [two]
    assert lines_of(place).dropped == {one: "age"}


class Copies:
    """A folder, whose strays get lines late, and copies of it that end in any order."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[bytes] = []
        self.strays: list[str] = []
        self.live: list[str] = []
        self.count = 0
        self.under_way: list[bytes] = []
        self.place = b""
        self.read_to = 0
        self.seen: list[str] = []

    def step(self) -> None:
        self.rng.choice(
            (
                self.seal,
                self.seal,
                self.bring,
                self.adopt,
                self.drop,
                self.look,
                self.end,
                self.read,
            )
        )()

    def seal(self) -> None:
        self.lines.append(stray(self.named("aaaaaaaa")))

    def bring(self) -> None:
        self.strays.append(self.named("bbbbbbbb"))

    def named(self, start: str) -> str:
        self.count += 1
        self.live.append(f"{start}-{self.count:010d}.arrow")
        return self.live[-1]

    def adopt(self) -> None:
        self.lines += map(stray, self.strays)
        self.strays.clear()

    def drop(self) -> None:
        with_line = [name for name in self.live if name not in self.strays]
        if with_line:
            self.live.remove(with_line[0])
            self.lines.append(dropped(with_line[0]))

    def look(self) -> None:
        self.under_way.append(b"".join((*self.lines, *map(stray, self.strays))))

    def end(self) -> None:
        if self.under_way:
            index = self.rng.randrange(len(self.under_way))
            self.place = following(self.place, self.under_way.pop(index))

    def read(self) -> None:
        """As who follows does, who remembers the number of a line."""
        for segment in lines_of(self.place).segments.values():
            if segment.line >= self.read_to:
                self.seen.append(segment.name)
                self.read_to = segment.line + 1


@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_who_follows_copies_that_end_in_any_order_sees_all_of_it_once(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        copies = Copies(Random(seed))
        for _ in range(60):
            copies.step()
        while copies.under_way:
            copies.end()
        copies.adopt()
        copies.look()
        copies.end()
        copies.read()
        assert len(set(copies.seen)) == len(copies.seen), seed
        assert set(copies.live) <= set(copies.seen), seed
        assert set(names_in(copies.place)) == set(copies.live), seed
