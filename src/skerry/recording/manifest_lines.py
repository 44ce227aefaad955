"""The lines of a manifest: how they are written, and what they state.

A manifest has one line of JSON for each segment that was sealed, dropped or repaired. Every line
has a number that never changes, so a reader can remember it as its position in the recording. The
number is one more than that of the previous line, unless the line states its own. The first line
of a shortened manifest sums up the lines that were removed, and has no number.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from skerry.errors import RecordingError
from skerry.recording.index import RecordedBatch, Segment

RECORDING_LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""One line of a manifest: more than the index of the largest number of batches takes."""

_HEAD_BYTES: Final = 256
"""Enough to distinguish the first lines of two manifests: the first line of a shortened one begins
with the number of times it was shortened."""
_NUMBER_MAX: Final = 2**53
"""The highest integer that every JSON reader represents exactly."""
_SEGMENT_NAME: Final = re.compile(r"[\w-]{1,64}\.arrow(\.open)?")
_NUMBERED: Final = b'{"line":'
_BATCH_FACTS: Final = (
    "offset",
    "size",
    "rows",
    "crc",
    "time_min_ns",
    "time_max_ns",
    "position_min",
    "position_max",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was lost when a torn or damaged segment was repaired."""

    name: str
    kept_batches: int
    kept_rows: int
    lost_bytes: int
    """Bytes behind the last complete batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Summary of the lines that were removed when a manifest was shortened."""

    times: int = 0
    """How often the manifest was shortened."""
    first_line: int = 0
    """Lowest and highest number of a removed `sealed` line. Lines between them may still exist."""
    last_line: int = -1
    segments: Mapping[str, int] = field(default_factory=dict)
    """Number of dropped segments by reason."""
    rows: int = 0
    time_min_ns: int = 0
    time_max_ns: int = 0
    """Of the rows; both are 0 without rows."""
    repairs: int = 0
    unreadable: int = 0
    """Lines that could not be read."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The highest number of a dropped segment, by the prefix of its name."""


class ManifestLines:
    """What the lines state that were read so far from one manifest.

    A writer runs for long and only needs to know which segments exist. With `has_batches=False` the
    batches of the segments are not kept.
    """

    def __init__(self, folder: Path | str, *, has_batches: bool) -> None:
        self.count = 0
        """One more than the number of the last line."""
        self.segments: dict[str, Segment] = {}
        """Sealed segments that were not dropped, in the order of their lines."""
        self.dropped: dict[str, str] = {}
        """Why segments were dropped, by name; without the forgotten ones."""
        self.dropped_segments: dict[str, Segment] = {}
        """The dropped segments that had a line, without their batches."""
        self.repairs: list[Repair] = []
        self.unreadable: list[int] = []
        """Numbers of the lines that could not be read."""
        self.last: Segment | None = None
        """The segment that was sealed last, always with its batches."""
        self.forgotten = Forgotten()
        self.byte_count = 0
        """Number of bytes that were read; they end with a complete line."""
        self.head = b""
        """The first bytes of the manifest."""
        self._folder = folder
        self._has_batches = has_batches
        self._numbers = array("q")
        self._offsets = array("q")
        """Where each of the numbered lines begins."""
        self._drop_numbers: dict[str, int] = {}
        """Numbers of the `dropped` lines by name of the segment."""
        self._repair_numbers: list[int] = []

    def empty(self) -> ManifestLines:
        """The same kind of lines before anything was read."""
        return ManifestLines(self._folder, has_batches=self._has_batches)

    def read(self, file: IO[bytes]) -> None:
        """Read complete lines up to the end of a file.

        The file must be at the byte that follows those that were read before.
        """
        while line := file.readline(RECORDING_LINE_BYTES_MAX + 1):
            head, size = line[:_HEAD_BYTES], len(line)
            if not line.endswith(b"\n"):
                if size <= RECORDING_LINE_BYTES_MAX:
                    return  # It is being written, or its writer crashed.
                size += _skip_line(file)
                line = b""
            self._add(line, head, size)

    def add(self, line: bytes) -> None:
        """Add a line that was appended to the manifest."""
        self._add(line, line[:_HEAD_BYTES], len(line))

    def shortened(
        self, manifest: IO[bytes], *, kept: int, is_present: Callable[[str], bool]
    ) -> Iterator[bytes]:
        """The lines of a shorter manifest, of which `manifest` has the text.

        Of the dropped segments and of the repairs only the newest are kept, `kept` of each. A
        dropped segment whose file is present is kept as well: without its line the file would be
        listed again, like one that was copied into the folder.
        """
        oldest = list(self.dropped)[: max(0, len(self.dropped) - kept)]
        names = [name for name in oldest if not is_present(name)]
        repair_count = max(0, len(self.repairs) - kept)
        yield _line({"shortened": asdict(self._summary(names, repair_count))})
        wanted = self._numbers_without(set(names), repair_count)
        stops = [*self._offsets, self.byte_count][1:]
        for number, start, stop in zip(self._numbers, self._offsets, stops, strict=True):
            if number in wanted:
                manifest.seek(start)
                yield _numbered(manifest.read(stop - start), number)
            elif number == self.count - 1:
                # The next line must get the next number, whatever the last line stated.
                yield _line({"line": number})

    def _numbers_without(self, names: set[str], repair_count: int) -> set[int]:
        """Numbers of the lines to keep when these segments and the first repairs are forgotten."""
        numbers = {segment.line for segment in self.segments.values()}
        for name in self.dropped.keys() - names:
            numbers.add(self._drop_numbers[name])
            if name in self.dropped_segments:
                numbers.add(self.dropped_segments[name].line)
        return numbers.union(self._repair_numbers[repair_count:])

    def _summary(self, names: list[str], repair_count: int) -> Forgotten:
        before = self.forgotten
        segments = [self.dropped_segments[n] for n in names if n in self.dropped_segments]
        lines = [(before.first_line, before.last_line)] if before.last_line >= 0 else []
        lines += [(segment.line, segment.line) for segment in segments]
        times = [(before.time_min_ns, before.time_max_ns)] if before.rows else []
        times += [
            (segment.time_min_ns, segment.time_max_ns) for segment in segments if segment.rows
        ]
        reasons = Counter(self.dropped[name] for name in names)
        return Forgotten(
            times=before.times + 1,
            first_line=min((first for first, _ in lines), default=0),
            last_line=max((last for _, last in lines), default=-1),
            segments=dict(sorted((Counter(before.segments) + reasons).items())),
            rows=before.rows + sum(segment.rows for segment in segments),
            time_min_ns=min((first for first, _ in times), default=0),
            time_max_ns=max((last for _, last in times), default=0),
            repairs=before.repairs + repair_count,
            unreadable=before.unreadable + len(self.unreadable),
            numbers=_highest_numbers(before, names),
        )

    def _add(self, line: bytes, head: bytes, size: int) -> None:
        offset = self.byte_count
        self.byte_count += size
        self.head += head[: _HEAD_BYTES - len(self.head)]
        number = self.count
        try:
            event = json.loads(line)
            if offset == 0 and "shortened" in event:
                self.forgotten = _forgotten_from_json(event["shortened"])
                return
            number = _number_of(event, number)
            self._apply(event, number)
        except (RecordingError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # A segment whose line cannot be read is listed again, like one that was copied into
            # the folder.
            self.unreadable.append(number)
        self.count = number + 1
        self._numbers.append(number)
        self._offsets.append(offset)

    def _apply(self, event: Any, number: int) -> None:
        if "sealed" in event:
            segment = _segment_from_json(event["sealed"], folder=self._folder, line=number)
            self.last = segment
            known: dict[str, Any]
            for known in (self.segments, self.dropped, self.dropped_segments, self._drop_numbers):
                known.pop(segment.name, None)
            self.segments[segment.name] = segment if self._has_batches else _brief(segment)
        elif "dropped" in event:
            name, reason = event["dropped"]["name"], str(event["dropped"]["reason"])
            self._drop(_segment_name(name), reason, number)
        elif "repaired" in event:
            self.repairs.append(Repair(**event["repaired"]))
            self._repair_numbers.append(number)
        elif not isinstance(event, dict) or event.keys() != {"line"}:
            raise ValueError(event)

    def _drop(self, name: str, reason: str, number: int) -> None:
        # A segment that is dropped twice moves to the end of the order.
        self.dropped.pop(name, None)
        self.dropped[name] = reason
        self._drop_numbers[name] = number
        segment = self.segments.pop(name, None)
        if segment is not None:
            self.dropped_segments[name] = _brief(segment)


def parse_manifest(data: bytes) -> ManifestLines:
    """What the complete lines of a manifest state, without batches and folder."""
    lines = ManifestLines("", has_batches=False)
    lines.read(BytesIO(data))
    return lines


def sealed_line(segment: Segment) -> bytes:
    """The line of a sealed segment: the facts of its batches as columns, their types by number."""
    names = sorted({name for batch in segment.batches for name in batch.types})
    numbers = {name: number for number, name in enumerate(names)}
    columns: dict[str, Any] = {
        name: [getattr(batch, name) for batch in segment.batches] for name in _BATCH_FACTS
    }
    columns["types"] = [[numbers[name] for name in batch.types] for batch in segment.batches]
    columns["has_descriptors"] = [
        index for index, batch in enumerate(segment.batches) if batch.has_descriptors
    ]
    facts = {
        "name": segment.name,
        "rows": segment.rows,
        "bytes": segment.byte_count,
        "time_min_ns": segment.time_min_ns,
        "time_max_ns": segment.time_max_ns,
        "types": dict(segment.types),
        "fingerprints": {name: list(found) for name, found in segment.fingerprints.items()},
        "batch_types": names,
        "batches": columns,
    }
    return _line({"sealed": facts})


def dropped_line(name: str, reason: str) -> bytes:
    return _line({"dropped": {"name": name, "reason": reason}})


def repaired_line(repair: Repair) -> bytes:
    return _line({"repaired": asdict(repair)})


def _line(event: Mapping[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _numbered(line: bytes, number: int) -> bytes:
    line = line.lstrip()
    return line if line.startswith(_NUMBERED) else _NUMBERED + b"%d," % number + line[1:]


def _skip_line(file: IO[bytes]) -> int:
    """Skip the rest of a line that is longer than the limit; its size."""
    size = 0
    while rest := file.readline(RECORDING_LINE_BYTES_MAX):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return size


def _number_of(event: Any, following: int) -> int:
    number = event.get("line", following) if isinstance(event, dict) else following
    if type(number) is not int or not following <= number < _NUMBER_MAX:
        raise ValueError(number)
    return number


def _segment_from_json(facts: Any, *, folder: Path | str, line: int) -> Segment:
    columns = facts["batches"]
    names = [_text(name) for name in facts["batch_types"]]
    described = set(columns["has_descriptors"])
    rows = zip(*(columns[name] for name in _BATCH_FACTS), columns["types"], strict=True)
    batches = tuple(
        RecordedBatch(
            **dict(zip(_BATCH_FACTS, map(_integer, numbers), strict=True)),
            types=tuple(names[number] for number in types),
            has_descriptors=index in described,
        )
        for index, (*numbers, types) in enumerate(rows)
    )
    return Segment(
        folder=folder,
        name=_segment_name(facts["name"]),
        line=line,
        rows=_integer(facts["rows"]),
        byte_count=_integer(facts["bytes"]),
        time_min_ns=_integer(facts["time_min_ns"]),
        time_max_ns=_integer(facts["time_max_ns"]),
        types={_text(name): _integer(count) for name, count in facts["types"].items()},
        fingerprints={
            _text(name): tuple(map(_integer, found))
            for name, found in facts["fingerprints"].items()
        },
        batches=batches,
    )


def _forgotten_from_json(facts: Any) -> Forgotten:
    if not all(isinstance(facts.get(name, {}), dict) for name in ("segments", "numbers")):
        raise ValueError(facts)
    forgotten = Forgotten(**facts)
    counts = [getattr(forgotten, name) for name in facts if name not in ("segments", "numbers")]
    for counts_by_name in (forgotten.segments, forgotten.numbers):
        counts.extend(counts_by_name.values())
    for count in counts:
        _integer(count)
    return forgotten


def _highest_numbers(before: Forgotten, names: Iterable[str]) -> dict[str, int]:
    numbers = dict(before.numbers)
    for name in names:
        prefix, _, number = name.partition(".")[0].rpartition("-")
        if prefix and number.isdecimal():
            numbers[prefix] = max(numbers.get(prefix, 0), int(number))
    return numbers


def _brief(segment: Segment) -> Segment:
    return replace(segment, batches=(), types={}, fingerprints={})


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _segment_name(value: Any) -> str:
    # A manifest may come from another computer. Its names are opened and removed, so they must
    # not lead out of the folder.
    if not _SEGMENT_NAME.fullmatch(_text(value)):
        raise ValueError(value)
    return str(value)
