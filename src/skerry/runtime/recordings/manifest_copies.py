"""The manifest that takes the place of an earlier copy, so that who has read that one can go on.

Who follows remembers the number of a line, and how far the file was read. So a copy goes on with
the lines that were there, and only with a shortened one, which begins otherwise, is it read anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from skerry.recording.index import Segment
from skerry.recording.segment_lines import segment_to_plain
from skerry.runtime.recordings.manifest_lines import Lines, Repair, line_of

__all__ = ["following", "lines_of", "sealed_line", "whole_lines"]

_NOWHERE: Final = ""
"""Nobody asks these lines for files."""


def whole_lines(data: bytes) -> bytes:
    """All but half a line at the end, which is being written."""
    return data[: data.rfind(b"\n") + 1]


def lines_of(manifest: bytes) -> Lines:
    """What a manifest says, but for the batches."""
    lines = Lines(_NOWHERE, has_batches=False)
    lines.read_rest(manifest)
    return lines


def sealed_line(segment: Segment) -> bytes:
    """The line that tells of a segment."""
    return line_of({"sealed": segment_to_plain(segment)})


def following(theirs: bytes, ours: bytes) -> bytes:
    """What takes the place of the manifest that is there, `theirs`, to tell what `ours` does.

    That is ours, unless another copy was faster, or a line of theirs has another number in ours: a
    segment had no line yet when it was copied. Then what is new is added to theirs.
    """
    if ours.startswith(theirs):
        return ours
    if theirs.startswith(ours):
        return theirs
    before, now = lines_of(theirs), lines_of(ours)
    if before.head != now.head and now.count >= before.count and _goes_on(before, now):
        return ours
    added = (*_new_lines(before, now, ours), *_lines_of_forgotten(before, now))
    return theirs + b"".join(added)


def _goes_on(before: Lines, now: Lines) -> bool:
    """Whether all that is known has the same number, and what is new a higher one."""
    old, new = _numbers(before), _numbers(now)
    is_alike = all(new.get(name, number) == number for name, number in old.items())
    return is_alike and all(name in old or new[name] >= before.count for name in new)


def _numbers(lines: Lines) -> dict[str, int]:
    return {s.name: s.line for s in (*lines.gone.values(), *lines.segments.values())}


def _new_lines(before: Lines, now: Lines, ours: bytes) -> Iterator[bytes]:
    """What ours says and theirs do not; the lines get the numbers that follow there."""
    there = set(before.segments)
    came_back: set[str] = set()
    """Dropped before they are sealed; without that, ours was only read before they were dropped."""
    unreadable = set(now.unreadable)
    stops = [*now.offsets, now.offset][1:]
    for number, start, stop in zip(now.numbers, now.offsets, stops, strict=True):
        if number in unreadable:
            continue
        event: dict[str, Any] = json.loads(ours[start:stop])
        event.pop("line", None)
        if "sealed" in event:
            name = event["sealed"]["name"]
            is_back = name in came_back and name in now.segments
            is_over = (
                not is_back if name in before.dropped else number <= before.forgotten.last_line
            )
            if name in there or is_over:
                continue
            there.add(name)
        elif "dropped" in event:
            name = event["dropped"]["name"]
            came_back.add(name)
            if name not in there or name in now.segments:
                continue
            there.remove(name)
        elif "repaired" not in event or Repair(**event["repaired"]) in before.repairs:
            continue
        yield line_of(event)


def _lines_of_forgotten(before: Lines, now: Lines) -> Iterator[bytes]:
    """Of what ours forgot that it was dropped, and theirs still have."""
    reason = next(iter(now.forgotten.segments), "")
    for name in before.segments:
        start, _, number = name.partition(".")[0].rpartition("-")
        if name in now.segments or name in now.dropped or not number.isdecimal():
            continue
        # One with a higher number came after ours was read.
        if int(number) <= now.forgotten.numbers.get(start, -1):
            yield line_of({"dropped": {"name": name, "reason": reason}})
