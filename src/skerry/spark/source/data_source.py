"""The data source `skerry`: reads recordings as rows, and publishes rows as objects of a space.

Spark creates these objects in separate processes and sends them to others, so all their attributes
can be pickled. The columns are determined once and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from skerry.errors import PipelineError
from skerry.spark.lake.schema import RAW, TypedSchema, schema_from_text, spark_schema, typed_schema
from skerry.spark.sink.sink import BatchWriter, StreamWriter
from skerry.spark.source.options import ReadOptions, read_options, write_options
from skerry.spark.source.planning import Runs, Wanted, definitions, pack, runs, segments
from skerry.spark.source.reading import RowShape, read_runs
from skerry.spark.source.stream_source import StreamReader


class SkerrySource(DataSource):
    """Implements format `skerry` for read, readStream, write and writeStream."""

    _shape: RowShape | None = None

    @classmethod
    def name(cls) -> str:
        return "skerry"

    def schema(self) -> StructType:
        return spark_schema(self._shape_of_options().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        return BatchReader(options, _with_columns(self._shape_of_options(), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options)
        return StreamReader(options, _with_columns(self._shape_of_options(), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(write_options(self.options), schema.fieldNames())

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        return StreamWriter(write_options(self.options), schema.fieldNames())

    def _shape_of_options(self) -> RowShape:
        if self._shape is None:
            self._shape = shape_of(read_options(self.options))
        return self._shape


def shape_of(options: ReadOptions) -> RowShape:
    """The shape of the rows by the options; reads definitions of the type from recordings."""
    if options.type_name is None:
        return RowShape(
            wanted=Wanted(from_ns=options.from_ns, to_ns=options.to_ns),
            columns=_chosen(RAW, options),
            is_strict=options.is_strict,
        )
    schema = _typed_schema(options)
    wanted = Wanted(
        types=frozenset([options.type_name]),
        fingerprints=None if options.fingerprints is None else frozenset(options.fingerprints),
        from_ns=options.from_ns,
        to_ns=options.to_ns,
    )
    return RowShape(
        wanted=wanted,
        columns=_chosen(schema.columns, options),
        reader=schema.reader,
        is_strict=options.is_strict,
    )


class BatchReader(DataSourceReader):
    """Reads all sealed segments as one batch."""

    def __init__(self, options: ReadOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Apply filters on `time_ns` and `type`; yields the others, which Spark applies."""
        for item in filters:
            narrowed = _narrowed(self._shape.wanted, item)
            if narrowed is None:
                yield item
            else:
                self._shape = replace(self._shape, wanted=narrowed)

    def partitions(self) -> list[InputPartition]:
        found = runs(segments(self._options), self._shape.wanted)
        tasks = pack(found, self._options.partition_bytes)
        return [Runs(task) for task in tasks] or [Runs(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Runs)
        return read_runs(partition.runs, self._shape)


def _typed_schema(options: ReadOptions) -> TypedSchema:
    assert options.type_name is not None
    if options.definition is not None:
        return schema_from_text(options.definition)
    found = definitions(options.type_name, segments(options), options.fingerprints)
    if not found:
        error = PipelineError(
            f"no definition of {options.type_name} is recorded in {', '.join(options.paths)}"
        )
        error.hint = "list the types with `skerry record info`, or read without the option type"
        raise error
    return typed_schema(found)


def _chosen(schema: pa.Schema, options: ReadOptions) -> tuple[str, ...]:
    if options.columns is None:
        return tuple(schema.names)
    by_name = {name.lower(): name for name in schema.names}
    unknown = [name for name in options.columns if name.lower() not in by_name]
    if unknown:
        error = PipelineError(f"option columns names unknown columns: {', '.join(unknown)}")
        error.hint = f"known columns: {', '.join(schema.names)}"
        raise error
    return tuple(by_name[name.lower()] for name in options.columns)


def _with_columns(shape: RowShape, schema: StructType) -> RowShape:
    """The shape with the columns of the planned query, which may be a given schema."""
    names = tuple(schema.fieldNames())
    return shape if names == shape.columns else replace(shape, columns=names)


# -- filters


_RANGES: Final[dict[type[Filter], tuple[int | None, int | None]]] = {
    EqualTo: (0, 1),
    GreaterThanOrEqual: (0, None),
    GreaterThan: (1, None),
    LessThan: (None, 0),
    LessThanOrEqual: (None, 1),
}
"""The half-open range of a comparison, by the distances of its ends from the value."""


def _narrowed(wanted: Wanted, item: Filter) -> Wanted | None:
    """The selection narrowed by a filter; None if the filter is not supported."""
    name = getattr(item, "attribute", ())
    if name == ("time_ns",):
        return _narrowed_time(wanted, item)
    if name == ("type",):
        return _narrowed_type(wanted, item)
    return None


def _narrowed_time(wanted: Wanted, item: Filter) -> Wanted | None:
    if isinstance(item, IsNotNull):
        return wanted
    value: Any = getattr(item, "value", None)
    if type(value) is not int:
        return None
    if type(item) not in _RANGES:
        return None
    low, high = (None if step is None else value + step for step in _RANGES[type(item)])
    return _between(wanted, low, high)


def _between(wanted: Wanted, from_ns: int | None, to_ns: int | None) -> Wanted:
    lows = [ns for ns in (wanted.from_ns, from_ns) if ns is not None]
    highs = [ns for ns in (wanted.to_ns, to_ns) if ns is not None]
    return replace(wanted, from_ns=max(lows, default=None), to_ns=min(highs, default=None))


def _narrowed_type(wanted: Wanted, item: Filter) -> Wanted | None:
    if isinstance(item, IsNotNull):
        return wanted
    if isinstance(item, EqualTo):
        names = frozenset([item.value])
    elif isinstance(item, In):
        names = frozenset(item.value)
    else:
        return None
    return replace(wanted, types=names if wanted.types is None else wanted.types & names)
