"""The one door to the decoder: a column of payloads in, typed columns out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from skerry.schema.model import StructType
from skerry.spark.lake.schema import payload_schema
from skerry.spark.source.decode import columnar

__all__ = ["decode_payloads"]


def decode_payloads(
    reader: StructType, payload: pa.BinaryArray, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """The columns of encoded objects of one type; of these names only, if some are named.

    `reader` is that of a `TypedSchema`. Besides the fields there is `unknown`.
    """
    schema = payload_schema(reader)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    arrays = columnar.decode(reader, payload, schema.names)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
