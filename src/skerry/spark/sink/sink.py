"""Rows of Spark into a space: each becomes an object that is published, or removed.

Tasks publish by themselves, each over its own connection to the node. What a stream guarantees: a
row is published at least once, and once only unless its task dies between its first row and the
node's confirmation of the last; then the rows of that task are published again. For a cached type
that changes nothing, since the same state is told twice. Receivers of a message type see the rows
of such a task again. See `ledger` for how a repeated batch is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from skerry.spark.sink.published_parts import PublishedParts
from skerry.spark.sink.row_objects import RowObjects
from skerry.spark.source.options import WriteOptions

__all__ = ["BatchWriter", "Published", "StreamWriter", "publish_rows"]

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
"""Local properties in which Spark tells tasks which batch of which stream they work on."""

_REMOVE = OPERATION_NAMES[REMOVE]
_FACTS_CHARS_MAX = 500
"""So much of a row is told that could not be published."""


@dataclass
class Published(WriterCommitMessage):
    """What one task has done."""

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
    """Publishes the rows of a stream, batch after batch."""

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
        """What was published cannot be called back; the parts that were done stay noted."""

    def _ledger(self, query: str) -> PublishedParts:
        assert self._options.ledger is not None
        return PublishedParts(Path(self._options.ledger), query)


def publish_rows(
    options: WriteOptions, columns: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> int:
    """Publish rows, wait until the node has them all, and say how many there were."""
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
            f"a row is no {options.type_name}: {error}; it is {facts[:_FACTS_CHARS_MAX]}"
        ) from error


def _try_publish(space: Space, obj: Struct, row: dict[str, Any]) -> bool:
    """Publish or remove an object; False if there is no room for it yet."""
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
    """The fields the row speaks of, where it says that itself: one that is null is cleared."""
    present = row.get("present")
    if present is None:
        return None
    return [field.name for field in struct.fields if int(present) >> field.tag & 1]


def _struct_of(space: Space, type_name: str) -> StructType:
    found = space.request_types(type_name).get(type_name)
    if found is None:
        error = PipelineError(f"the node does not know the type {type_name}")
        error.hint = "name the file that defines it with the option types"
        raise error
    struct: StructType = found.descriptor
    return struct


def _check_lasting(struct: StructType) -> None:
    if struct.flags.cleanup:
        error = PipelineError(
            f"objects of {struct.name} go when their publisher goes (it is marked cleanup), "
            "and a task of Spark goes as soon as it is done"
        )
        error.hint = "publish a type without cleanup"
        raise error


def _ledger_folder(options: WriteOptions) -> str:
    if options.ledger is not None:
        return options.ledger
    place = options.checkpoint
    if place is None or (":" in place and not place.startswith("file:")):
        error = PipelineError("the sink has no folder in which to note what it has published")
        error.hint = "name one that all executors reach with the option ledger"
        raise error
    return str(Path(place.removeprefix("file://").removeprefix("file:"), "skerry-sink"))
