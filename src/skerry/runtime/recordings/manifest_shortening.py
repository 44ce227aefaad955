"""A shorter manifest: what became of segments that were dropped long ago is only summed up.

The lines that stay are copied as they are, with their numbers: who follows remembers those.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from skerry.runtime.recordings.manifest_lines import Forgotten, Lines, line_of

__all__ = ["Shortening", "plan_shortening", "write_shortened"]

_NUMBERED: Final = b'{"line":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortening:
    """What a manifest is to forget."""

    names: tuple[str, ...]
    """Of the dropped segments."""
    repair_count: int
    """The oldest repairs, so many."""
    numbers: frozenset[int]
    """Of the lines that stay."""
    forgotten: Forgotten
    """All that is forgotten then."""

    @property
    def first_line(self) -> bytes:
        """The line that tells of it."""
        return line_of({"shortened": asdict(self.forgotten)})

    def apply(self, lines: Lines, file: IO[bytes], offsets: Iterable[tuple[int, int]]) -> None:
        """Let lines be those of the shorter file, in which each begins at its offset."""
        known: dict[str, Any]
        for name in self.names:
            for known in (lines.dropped, lines.gone, lines.dropped_at):
                known.pop(name, None)
        del lines.repairs[: self.repair_count]
        del lines.repaired_at[: self.repair_count]
        del lines.numbers[:], lines.offsets[:]
        for number, offset in offsets:
            lines.numbers.append(number)
            lines.offsets.append(offset)
        lines.unreadable.clear()
        lines.forgotten = self.forgotten
        lines.move(file)


def plan_shortening(lines: Lines, folder: Path, *, kept: int) -> Shortening:
    """Forget all dropped segments and repairs but the newest of each, so many as are kept.

    A segment whose file is still there stays known: it would be taken for one that came from
    elsewhere.
    """
    old = list(lines.dropped)[: max(0, len(lines.dropped) - kept)]
    names = [name for name in old if not (folder / name).exists()]
    repair_count = max(0, len(lines.repairs) - kept)
    numbers = {segment.line for segment in lines.segments.values()}
    for name in lines.dropped.keys() - set(names):
        numbers.add(lines.dropped_at[name])
        if name in lines.gone:
            numbers.add(lines.gone[name].line)
    numbers.update(lines.repaired_at[repair_count:])
    return Shortening(
        names=tuple(names),
        repair_count=repair_count,
        numbers=frozenset(numbers),
        forgotten=_summed_up(lines, names, repair_count),
    )


def write_shortened(
    old: IO[bytes], new: IO[bytes], lines: Lines, plan: Shortening
) -> list[tuple[int, int]]:
    """Write the shorter file; numbers of its lines, and where they begin."""
    found: list[tuple[int, int]] = []
    offset = new.write(plan.first_line)
    stops = [*lines.offsets, lines.offset][1:]
    for number, start, stop in zip(lines.numbers, lines.offsets, stops, strict=True):
        if number in plan.numbers:
            line = _numbered(os.pread(old.fileno(), stop - start, start), number)
        elif number == lines.count - 1:
            # The next line has the next number, whatever the last one was about.
            line = line_of({"line": number})
        else:
            continue
        found.append((number, offset))
        offset += new.write(line)
    new.flush()
    return found


def _numbered(line: bytes, number: int) -> bytes:
    line = line.lstrip()
    return line if line.startswith(_NUMBERED) else _NUMBERED + b"%d," % number + line[1:]


def _summed_up(lines: Lines, names: list[str], repair_count: int) -> Forgotten:
    before = lines.forgotten
    gone = [lines.gone[name] for name in names if name in lines.gone]
    known = [(before.first_line, before.last_line)] if before.last_line >= 0 else []
    spans = [*known, *((segment.line, segment.line) for segment in gone)]
    times = [(before.time_min_ns, before.time_max_ns)] if before.rows else []
    times += [(segment.time_min_ns, segment.time_max_ns) for segment in gone if segment.rows]
    reasons = Counter(lines.dropped[name] for name in names)
    return Forgotten(
        times=before.times + 1,
        first_line=min((first for first, _ in spans), default=0),
        last_line=max((last for _, last in spans), default=-1),
        segments=dict(sorted((Counter(before.segments) + reasons).items())),
        rows=before.rows + sum(segment.rows for segment in gone),
        time_min_ns=min((first for first, _ in times), default=0),
        time_max_ns=max((last for _, last in times), default=0),
        repairs=before.repairs + repair_count,
        unreadable=before.unreadable + len(lines.unreadable),
        numbers=_highest(before, names),
    )


def _highest(before: Forgotten, names: Iterable[str]) -> dict[str, int]:
    numbers = dict(before.numbers)
    for name in names:
        start, _, number = name.partition(".")[0].rpartition("-")
        if start and number.isdecimal():
            numbers[start] = max(numbers.get(start, 0), int(number))
    return numbers
