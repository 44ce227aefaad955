"""Converts rows to a wider schema: new fields are null, numbers are cast to wider types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.spark.lake.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def conformed(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows with exactly these columns, by name."""
    known = {field.name: field.dataType for field in frame.schema}
    kinds = {name: kind.simpleString() for name, kind in known.items()}
    if all(kinds.get(field.name) == field.dataType.simpleString() for field in schema):
        # The usual case. An expression takes several messages to the JVM, a text takes one.
        return frame.selectExpr(*map(quoted, schema.names))
    return frame.select(
        *(
            _conformed(F.col(quoted(field.name)), known.get(field.name), field.dataType).alias(
                field.name
            )
            for field in schema
        )
    )


def _conformed(column: Column, was: T.DataType | None, wanted: T.DataType) -> Column:
    if was is None:
        return F.lit(None).cast(wanted)
    if was == wanted or not _differs_inside(was, wanted):
        return column if was == wanted else column.cast(wanted)
    if isinstance(was, T.ArrayType) and isinstance(wanted, T.ArrayType):
        inner, inner_wanted = was.elementType, wanted.elementType
        return F.transform(column, lambda item: _conformed(item, inner, inner_wanted))
    assert isinstance(was, T.StructType)
    assert isinstance(wanted, T.StructType)
    known = {field.name: field.dataType for field in was}
    fields = [
        _conformed(column.getField(field.name), known.get(field.name), field.dataType).alias(
            field.name
        )
        for field in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def _differs_inside(was: T.DataType, wanted: T.DataType) -> bool:
    """Whether a cast is not enough because structs have different fields."""
    if isinstance(was, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return isinstance(was.elementType, T.StructType)
    return isinstance(was, T.StructType) and isinstance(wanted, T.StructType)
