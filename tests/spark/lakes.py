"""What tests of tables share: recordings made by hand, and batches without a stream around them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import skerry.lake
from skerry.codec.envelope import ACCESS, CREATE, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.lake.answer import Answer
from skerry.objects.base import key_of
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.spark.jobs.batch import Range, process_batch
from skerry.spark.jobs.maintenance import maintain
from skerry.spark.lake.catalog import ORDER
from skerry.spark.lake.lake import Lake, LakeConfig
from skerry.spark.lake.plans import Plan
from skerry.spark.tables import Tables

SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
START_NS = 1_794_751_200_000_000_000
"""2026-11-15T14:00:00Z"""
BARE = LakeConfig(derived=())
"""No derived tables: what they say has tests of its own, and they take time."""
MANY = LakeConfig(derived=(), here_bytes=0)
"""All batches are merged by tasks of Spark."""
KEPT = LakeConfig(derived=(), snapshot_rows=8, bucket_s=60, compact_files=4)
"""Snapshots are made and files put together after each batch, as in large tables."""


class Emitter:
    """A node, as it is seen by a recorder: gives updates their numbers and times."""

    def __init__(self, *, node: int = 7, sender: int = 3, now_ns: int = START_NS) -> None:
        self.node = node
        self.sender = sender
        self.now_ns = now_ns
        self.position = 0
        self.sequence = 0

    def create(self, obj: Any, **facts: Any) -> Update:
        return self.emit(obj, CREATE, **facts)

    def update(self, obj: Any, **facts: Any) -> Update:
        return self.emit(obj, UPDATE, **facts)

    def remove(self, obj: Any, **facts: Any) -> Update:
        return self.emit(obj, REMOVE, **facts)

    def emit(self, obj: Any, operation: int, *, present: int | None = None, **facts: Any) -> Update:
        """One update more, a second after the last."""
        self.position += 1
        self.sequence += 1
        self.now_ns += SECOND_NS
        struct = type(obj).descriptor
        own = {
            "subject": f"/{struct.name}/x",
            "sender": self.sender,
            "node": self.node,
            "sequence": self.sequence,
            "position": self.position,
            "time_ns": self.now_ns,
            "sent_ns": self.now_ns - 1000,
            "source": ACCESS,
        }
        return Update(
            type_name=struct.name,
            operation=operation,
            present=int(obj.attributes) if present is None else present,
            key=bytes(key_of(obj)),
            payload=obj.encode(),
            space="test",
            fingerprint=fingerprint(struct),
            **{**own, **facts},
        )


def found(update: Update) -> Update:
    """The same object as a recorder finds it when it begins."""
    return update.replace(operation=SNAPSHOT, sequence=0)


def record(folder: Path, updates: Iterable[Update], *classes: Any) -> Path:
    """Write updates as one sealed segment more of a recording."""
    config = RecordingConfig(durability=Durability.NONE)
    with RecordingWriter(folder, config, space="test") as writer:
        for cls in classes:
            writer.describe(cls.descriptor)
        for update in updates:
            writer.append(update)
        writer.seal()
    return folder


def all_ranges(folder: Path, first: dict[str, int] | None = None) -> list[Range]:
    """What recordings have, from these lines on."""
    seen = first or {}
    return [
        (recording.id, seen.get(recording.id, 0), 1 + max(s.line for s in recording.segments()))
        for recording in open_recordings(folder)
        if recording.segments()
    ]


class BothTables(Tables):
    """Tables of Spark that hold each answer against that of `skerry.lake`."""

    def __init__(self, spark: Any, path: Any, config: LakeConfig | None = None) -> None:
        super().__init__(spark, path, config)
        self.other = skerry.lake.open(path)

    def asof(self, type_name: str | None, instant: Any) -> Any:
        return alike(super().asof(type_name, instant), self.other.asof(type_name, instant))

    def between(self, type_name: str, first: Any, stop: Any) -> Any:
        answer = self.other.between(type_name, first, stop)
        rows = [tuple(row[name] for name in ORDER) for row in answer.to_pylist()]
        assert rows == sorted(rows, key=lambda row: [(v is not None, v) for v in row])
        return alike(super().between(type_name, first, stop), answer)

    def diff(self, type_name: str, first: Any, second: Any) -> Any:
        return alike(
            super().diff(type_name, first, second), self.other.diff(type_name, first, second)
        )

    def frame(self, name: str) -> Any:
        return alike(super().frame(name), self.other.table(name))


def alike(frame: Any, answer: Answer) -> Any:
    """The frame; AssertionError unless the answer has the same columns and rows."""
    table = frame.toArrow()
    assert table.schema.names == answer.schema.names
    ours, theirs = table.to_pylist(maps_as_pydicts="lossy"), answer.to_pylist()
    for row in (*ours, *theirs):
        if isinstance(row.get("object"), str):
            row["object"] = json.loads(row["object"])
    assert sorted(map(repr, map(_timed, ours))) == sorted(map(repr, map(_timed, theirs)))
    return frame


def _timed(value: Any) -> Any:
    """The value with times as numbers, in any time zone, and maps in order."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: _timed(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [_timed(item) for item in value]
    return value


class Pipeline:
    """Batches by hand: each call brings in what has been recorded since the last."""

    def __init__(
        self, spark: Any, recordings: Path, tables: Path, config: LakeConfig = BARE
    ) -> None:
        self.recordings = recordings
        self.lake = Lake(spark, tables, config)
        self.seen: dict[str, int] = {}

    def run(self) -> Plan:
        ranges = all_ranges(self.recordings, self.seen)
        with self.lake.batch():
            plan = process_batch(self.lake, [str(self.recordings)], ranges)
            maintain(self.lake, plan)
        self.seen |= {name: stop for name, _, stop in ranges}
        return plan
