"""Lines of a manifest: their numbers, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.runtime.recordings.manifest_lines import Forgotten, Lines


def dropped(number: int, **more: Any) -> dict[str, Any]:
    return {**more, "dropped": {"name": f"01234567-{number:010d}.arrow", "reason": "age"}}


def lines_of(folder: Path, *events: Any) -> Lines:
    path = folder / "lines"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    lines = Lines(folder, has_batches=True)
    with path.open("rb") as file:
        lines.read(file)
    return lines


def test_line_has_the_number_it_says_or_the_next(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, dropped(1), dropped(2, line=7), dropped(3), dropped(4, line=9))
    assert list(lines.numbers) == [0, 7, 8, 9]
    assert list(lines.dropped_at.values()) == [0, 7, 8, 9]
    assert (lines.count, lines.unreadable) == (10, [])


@pytest.mark.parametrize("number", [4, 0, -1, 2**53, 5.0, "7", None, True])
def test_number_that_cannot_be_is_one_of_a_line_that_says_nothing(
    tmp_path: Path, number: Any
) -> None:
    lines = lines_of(tmp_path, dropped(1, line=4), dropped(2, line=number), dropped(3))
    assert list(lines.numbers) == [4, 5, 6]
    assert (len(lines.dropped), lines.unreadable) == (2, [5])


def test_line_that_says_nothing_keeps_the_number_it_says(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, {"line": 3, "sealed": {}}, dropped(1))
    assert (lines.unreadable, list(lines.numbers)) == ([3], [3, 4])


def test_number_alone_only_counts(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, {"line": 3}, dropped(1))
    assert (lines.unreadable, lines.dropped_at) == ([], {"01234567-0000000001.arrow": 4})


@pytest.mark.parametrize("name", ["../x.arrow", "/x.arrow", "x", "", "a/b.arrow", 5, None, ["x"]])
def test_name_that_leads_elsewhere_is_no_segment(tmp_path: Path, name: Any) -> None:
    lines = lines_of(tmp_path, {"dropped": {"name": name, "reason": "age"}})
    assert (lines.dropped, lines.unreadable) == ({}, [0])


def test_what_is_forgotten_stands_in_the_first_line_and_has_no_number(tmp_path: Path) -> None:
    told = {"shortened": {"times": 2, "last_line": 5, "segments": {"age": 3}, "rows": 9}}
    lines = lines_of(tmp_path, told, dropped(1))
    expected = Forgotten(times=2, last_line=5, segments={"age": 3}, rows=9)
    assert (lines.forgotten, list(lines.numbers)) == (expected, [0])
    lines = lines_of(tmp_path, dropped(1), told)
    assert (lines.forgotten, lines.unreadable) == (Forgotten(), [1])


@pytest.mark.parametrize(
    "told",
    [
        5,
        "shortened",
        {"other": 1},
        {"rows": "1"},
        {"segments": {"age": None}},
        {"numbers": [["a", 1]]},
    ],
)
def test_sums_that_cannot_be_are_a_line_that_says_nothing(tmp_path: Path, told: Any) -> None:
    lines = lines_of(tmp_path, {"shortened": told}, dropped(1, line=4))
    assert (lines.forgotten, lines.unreadable, lines.count) == (Forgotten(), [0], 5)


def test_line_that_is_nested_too_deep_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"[" * 200_000 + b"\n" + json.dumps(dropped(1)).encode())
    lines = Lines(tmp_path, has_batches=True)
    with (tmp_path / "lines").open("rb") as file:
        lines.read(file)
    assert (lines.unreadable, lines.count) == ([0], 1)


def test_segment_that_is_dropped_twice_is_dropped_the_last_time(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, dropped(1), dropped(2), dropped(1))
    assert [name[-7] for name in lines.dropped] == ["2", "1"]
    assert list(lines.dropped_at.values()) == [2, 1]


def test_lines_are_of_the_file_that_begins_as_the_one_that_was_read(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, dropped(1), dropped(2))
    path = tmp_path / "lines"
    content = path.read_bytes()
    states = []
    # The same file as the system sees it, with more in it, other things in it, and less.
    for now in (content + b"{}\n", b"{}\n" + content, content[:-1]):
        path.write_bytes(now)
        with path.open("rb") as file:
            states.append(lines.is_of(file))
    assert states == [True, False, False]
    # A copy.
    (tmp_path / "copy").write_bytes(content)
    with (tmp_path / "copy").open("rb") as file:
        assert not lines.is_of(file)
        lines.move(file)
        assert lines.is_of(file)
    assert lines.offset == len(content)


def test_nothing_is_of_any_file(tmp_path: Path) -> None:
    with (tmp_path / "new").open("w+b") as file:
        assert Lines(tmp_path, has_batches=True).is_of(file)
