"""Publishes rows of Spark as objects of a space, or removes the objects.

Each task publishes over its own connection to the node. Guarantee of a stream: a row is published
at least once. It is published more than once only if its task dies between its first row and the
node's confirmation of the last; then all rows of that task are published again. For a cached type
this has no effect, because the state is the same. Subscribers of a message type receive the rows
again. `PublishedParts` records which parts need not be repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from skerry.client.api.sync import Space, connect
from skerry.codec.envelope import OPERATION_NAMES, REMOVE
from skerry.errors import CodecError, PipelineError, WouldBlock
from skerry.objects.base import Struct
from skerry.schema.model import StructType
from skerry.spark.sink.row_objects import RowObjects
from skerry.spark.source.options import WriteOptions

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
"""Local properties of a task with the batch and the query it belongs to."""

_REMOVE = OPERATION_NAMES[REMOVE]
_FACTS_CHARS_MAX = 500
"""Maximum length of a row in an error message."""


@dataclass
class Published(WriterCommitMessage):
    """The commit message of one task."""

    query: str = ""
    row_count: int = 0


class BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a frame."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Published(row_count=publish_rows(self._options, self._columns, iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a stream batch by batch."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        self._options = replace(options, ledger=_ledger_folder(options))
        self._columns = list(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(_QUERY_ID) or ""
        batch = int(context.getLocalProperty(_BATCH_ID) or -1)
        ledger = self._ledger(query)
        part = context.partitionId()
        if ledger.has(batch, part):
            return Published(query=query)
        count = publish_rows(self._options, self._columns, iterator)
        ledger.add(batch, part)
        return Published(query=query, row_count=count)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = {message.query for message in messages if isinstance(message, Published)}
        for query in queries:
            self._ledger(query).finish(batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: published rows cannot be revoked, and published parts stay recorded."""

    def _ledger(self, query: str) -> PublishedParts:
        assert self._options.ledger is not None
        return PublishedParts(Path(self._options.ledger), query)


def publish_rows(
    options: WriteOptions, columns: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> int:
    """Publish rows and wait for the node to confirm them; returns their number."""
    count = 0
    with connect(options.node, name=options.name, timeout=options.timeout_s) as space:
        struct = options.struct or _struct_of(space, options.type_name)
        _check_lasting(struct)
        objects = RowObjects(struct, columns)
        for batch in batches:
            for row in batch.to_pylist():
                _publish(space, objects, row, options)
                count += 1
        space.flush(timeout=options.timeout_s)
    return count


def _publish(space: Space, objects: RowObjects, row: dict[str, Any], options: WriteOptions) -> None:
    try:
        obj = objects.make(row)
        while not _try_publish(space, obj, row):
            space.drain(timeout=options.timeout_s)
    except (CodecError, ValueError) as error:
        facts = str({name: value for name, value in row.items() if value is not None})
        raise PipelineError(
            f"cannot convert a row to {options.type_name}: {error}; "
            f"the row is {facts[:_FACTS_CHARS_MAX]}"
        ) from error


def _try_publish(space: Space, obj: Struct, row: dict[str, Any]) -> bool:
    """Publish or remove an object; False if the send buffer is full."""
    subject = row.get("subject") or ""
    try:
        if row.get("operation") in (REMOVE, _REMOVE):
            space.remove(obj, subject=subject)
        else:
            space.publish(obj, only=_selection(obj.descriptor, row), subject=subject)
    except WouldBlock:
        return False
    return True


def _selection(struct: StructType, row: dict[str, Any]) -> list[str] | None:
    """The fields in the property set of a row that has one; null fields in it are cleared."""
    present = row.get("present")
    if present is None:
        return None
    return [field.name for field in struct.fields if int(present) >> field.tag & 1]


def _struct_of(space: Space, type_name: str) -> StructType:
    found = space.request_types(type_name).get(type_name)
    if found is None:
        error = PipelineError(f"the node does not know the type {type_name}")
        error.hint = "give the file that defines it with the option types"
        raise error
    struct: StructType = found.descriptor
    return struct


def _check_lasting(struct: StructType) -> None:
    if struct.flags.cleanup:
        error = PipelineError(
            f"cannot publish {struct.name}: it is marked cleanup, so its objects would be removed "
            "when the Spark task disconnects"
        )
        error.hint = "publish a type without cleanup"
        raise error


def _ledger_folder(options: WriteOptions) -> str:
    if options.ledger is not None:
        return options.ledger
    folder = options.checkpoint
    if folder is None or (":" in folder and not folder.startswith("file:")):
        error = PipelineError("the sink has no folder to record which parts were published")
        error.hint = "give a folder that all executors can reach with the option ledger"
        raise error
    return str(Path(folder.removeprefix("file://").removeprefix("file:"), "skerry-sink"))


# -- published parts


_DONE: Final = re.compile(r"(\d+)\.done")
_NOTE: Final = re.compile(r"(\d+)(?:-\d+|\.done)")


class PublishedParts:
    """Records which parts of a stream were published: one empty file per published part.

    An interrupted batch of a stream is repeated, and skips the parts that are recorded here. A part
    is recorded only after the node has confirmed all of it, so an interrupted part is published
    again from its beginning.
    """

    def __init__(self, folder: Path, query: str) -> None:
        if not re.fullmatch(r"\w[\w.-]{0,99}", query):
            raise PipelineError(
                f"{query!r} cannot be the name of a query: use up to 100 letters, digits, "
                "underscores, dots and hyphens"
            )
        self._folder = folder / query

    def has(self, batch: int, part: int) -> bool:
        """Whether this part, its whole batch or a later batch was published."""
        return self._part(batch, part).exists() or self.last_batch() >= batch

    def add(self, batch: int, part: int) -> None:
        """Record that this part was published, durably."""
        self._write(self._part(batch, part))

    def finish(self, batch: int) -> None:
        """Record that the whole batch was published, and delete the files of earlier ones."""
        self._write(self._folder / f"{batch}.done")
        for path in self._folder.iterdir():
            match = _NOTE.fullmatch(path.name)
            if match is None:
                continue  # Not written here: file systems and tools may leave files.
            number = int(match[1])
            if number < batch or (number == batch and not path.name.endswith(".done")):
                path.unlink(missing_ok=True)

    def last_batch(self) -> int:
        """The last batch that was published completely; -1 if none."""
        if not self._folder.is_dir():
            return -1
        found = (_DONE.fullmatch(path.name) for path in self._folder.iterdir())
        return max((int(match[1]) for match in found if match is not None), default=-1)

    def _part(self, batch: int, part: int) -> Path:
        return self._folder / f"{batch}-{part}"

    def _write(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise PipelineError(f"cannot record the published part in {path}: {error}") from error
