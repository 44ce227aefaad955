"""A segment as a line of the manifest: JSON, the facts of its batches as columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from skerry.errors import RecordingError
from skerry.recording.index import RecordedBatch, Segment

__all__ = ["segment_from_plain", "segment_to_plain"]

_BATCH_NUMBERS: Final = (
    "offset",
    "size",
    "rows",
    "crc",
    "time_min_ns",
    "time_max_ns",
    "position_min",
    "position_max",
)


def segment_to_plain(segment: Segment) -> dict[str, Any]:
    """The segment as JSON has it: facts of batches as columns, their types by number."""
    names = sorted({name for batch in segment.batches for name in batch.types})
    numbers = {name: number for number, name in enumerate(names)}
    columns: dict[str, Any] = {
        name: [getattr(batch, name) for batch in segment.batches] for name in _BATCH_NUMBERS
    }
    columns["types"] = [[numbers[name] for name in batch.types] for batch in segment.batches]
    columns["has_descriptors"] = [
        index for index, batch in enumerate(segment.batches) if batch.has_descriptors
    ]
    return {
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


def segment_from_plain(plain: Any, *, folder: Path | str, line: int) -> Segment:
    """The segment that such JSON tells of; RecordingError where it does not."""
    try:
        return _segment_from_plain(plain, folder=folder, line=line)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RecordingError(f"line {line + 1} of a manifest does not tell of a segment") from error


def _segment_from_plain(plain: Any, *, folder: Path | str, line: int) -> Segment:
    columns = plain["batches"]
    names = [_text(name) for name in plain["batch_types"]]
    described = set(columns["has_descriptors"])
    rows = zip(*(columns[name] for name in _BATCH_NUMBERS), columns["types"], strict=True)
    batches = tuple(
        RecordedBatch(
            **dict(zip(_BATCH_NUMBERS, map(_number, facts), strict=True)),
            types=tuple(names[number] for number in types),
            has_descriptors=index in described,
        )
        for index, (*facts, types) in enumerate(rows)
    )
    return Segment(
        folder=folder,
        name=_file_name(plain["name"]),
        line=line,
        rows=_number(plain["rows"]),
        byte_count=_number(plain["bytes"]),
        time_min_ns=_number(plain["time_min_ns"]),
        time_max_ns=_number(plain["time_max_ns"]),
        types={_text(name): _number(count) for name, count in plain["types"].items()},
        fingerprints={
            _text(name): tuple(map(_number, found)) for name, found in plain["fingerprints"].items()
        },
        batches=batches,
    )


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _file_name(value: Any) -> str:
    # A manifest may have come from elsewhere, and must not lead out of its folder.
    if not _SEGMENT_NAME.fullmatch(_text(value)):
        raise ValueError(value)
    return str(value)


_SEGMENT_NAME: Final = re.compile(r"[\w-]{1,64}\.arrow(\.open)?")
