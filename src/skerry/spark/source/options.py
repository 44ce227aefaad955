"""The options of the data source: parsed and checked."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.errors import PipelineError
from skerry.runtime.recordings.files.remote_paths import resolve_path
from skerry.runtime.type_files import load_types
from skerry.schema.model import StructType
from skerry.spark.instants import instant_ns

READ_OPTIONS: Final = (
    "columns",
    "definition",
    "fingerprints",
    "follower",
    "from",
    "maxRows",
    "maxSegments",
    "partitionBytes",
    "path",
    "paths",
    "range",
    "strict",
    "to",
    "type",
)

WRITE_OPTIONS: Final = (
    "checkpointLocation",
    "ledger",
    "name",
    "node",
    "path",
    "timeout",
    "type",
    "types",
)

_PARTITION_BYTES: Final = 64 * 1024 * 1024
"""Recorded bytes of one task: a typical segment, mostly less than a second of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    paths: tuple[str, ...]
    """Recordings or folders of recordings: local paths or URIs."""
    type_name: str | None = None
    """The type to read, with its fields as columns; None for rows as recorded."""
    columns: tuple[str, ...] | None = None
    fingerprints: tuple[int, ...] | None = None
    """The definitions of the type to read; None for all."""
    definition: str | None = None
    """Text of a TypedSchema to use instead of the definitions in the recordings."""
    from_ns: int | None = None
    to_ns: int | None = None
    """Half-open: rows with from_ns <= time_ns < to_ns."""
    ranges: tuple[tuple[str, int, int], ...] | None = None
    """Recording ids with the first and the stop line of their manifests."""
    is_strict: bool = False
    """Whether a damaged batch is an error instead of a gap row."""
    partition_bytes: int = _PARTITION_BYTES
    max_segments: int | None = None
    max_rows: int | None = None
    """Streams: maximum size of one batch, which has at least one segment."""
    follower: str | None = None
    """Streams: the name under which recorders see this follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    type_name: str
    node: str | None = None
    """Endpoint of the node; None for the default endpoint on the computer of each task."""
    struct: StructType | None = None
    """The type, if a file defines it; otherwise the node is asked."""
    name: str = "skerry-spark"
    """Name of the publishing client."""
    timeout_s: float = 30.0
    ledger: str | None = None
    """Streams: the folder that records which parts were published."""
    checkpoint: str | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a reader; PipelineError for an unknown or invalid one."""
    given = _given(options, READ_OPTIONS)
    return ReadOptions(
        paths=_paths(given),
        type_name=given.get("type") or None,
        columns=_names(given.get("columns")),
        fingerprints=_fingerprints(given.get("fingerprints")),
        definition=given.get("definition"),
        from_ns=None if "from" not in given else instant_ns(given["from"]),
        to_ns=None if "to" not in given else instant_ns(given["to"]),
        ranges=_ranges(given.get("range")),
        is_strict=_bool("strict", given.get("strict", "false")),
        partition_bytes=_count("partitionBytes", given.get("partitionBytes")) or _PARTITION_BYTES,
        max_segments=_count("maxSegments", given.get("maxSegments")),
        max_rows=_count("maxRows", given.get("maxRows")),
        follower=given.get("follower") or None,
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a writer; PipelineError for an unknown or invalid one."""
    given = _given(options, WRITE_OPTIONS)
    type_name = given.get("type")
    if not type_name:
        error = PipelineError("the option type is missing: the type of the rows to publish")
        error.hint = '.option("type", "Alarm")'
        raise error
    timeout = given.get("timeout", "30")
    try:
        timeout_s = float(timeout)
    except ValueError:
        raise _fault("timeout", timeout, "a number of seconds") from None
    return WriteOptions(
        type_name=type_name,
        node=given.get("node") or given.get("path") or None,
        struct=_struct(given.get("types"), type_name),
        name=given.get("name") or "skerry-spark",
        timeout_s=timeout_s,
        ledger=given.get("ledger"),
        checkpoint=given.get("checkpointLocation"),
    )


def _struct(paths: str | None, type_name: str) -> StructType | None:
    if paths is None:
        return None
    types = load_types(*(path.strip() for path in paths.split(",")))
    found = getattr(types, type_name, None)
    struct = getattr(found, "descriptor", None)
    if not isinstance(struct, StructType):
        raise PipelineError(f"{paths} does not define a struct {type_name}")
    return struct


def _given(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    known = {name.lower(): name for name in names}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in known:
            raise _unknown(name, known)
        given[known[name.lower()]] = value
    return given


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    paths = json.loads(given["paths"]) if "paths" in given else []
    if "path" in given:
        paths.append(given["path"])
    if not paths:
        error = PipelineError("no folder of recordings is given")
        error.hint = 'give one: spark.read.format("skerry").load("recordings/")'
        raise error
    parsed = map(resolve_path, paths)
    # Absolute, because executors may have another working directory.
    return tuple(str(p.absolute() if isinstance(p, Path) else p) for p in parsed)


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _fingerprints(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise _fault("fingerprints", text, "integers separated by commas") from None


def _ranges(text: str | None) -> tuple[tuple[str, int, int], ...] | None:
    if text is None:
        return None
    try:
        values: Any = json.loads(text)
        return tuple((str(name), int(first), int(stop)) for name, first, stop in values)
    except (ValueError, TypeError):
        raise _fault("range", text, "[[recording, first line, stop line], ...]") from None


def _bool(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _fault(name, text, "true or false")
    return text.lower() == "true"


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise _fault(name, text, "a number above 0")
    return int(text)


def _fault(name: str, text: str, wanted: str) -> PipelineError:
    return PipelineError(f"option {name} is {text!r}, must be {wanted}")


def _unknown(name: str, known: Mapping[str, str]) -> PipelineError:
    error = PipelineError(f"the data source skerry has no option {name}")
    near = difflib.get_close_matches(name.lower(), known, 1)
    if near:
        error.hint = f"did you mean {known[near[0]]}?"
    else:
        error.hint = f"known options: {', '.join(known.values())}"
    return error
