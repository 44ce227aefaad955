"""What a gap row says is missing."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf

from skerry.errors import RecordingError
from skerry.recording.gaps import Gap, gap_of

__all__ = ["MISSING", "missing"]

MISSING: Final = T.StructType(
    [T.StructField("missing", T.LongType()), T.StructField("reason", T.StringType())]
)


_COUNT_MAX: Final = 2**63 - 1


def missing(payload: Column) -> Column:
    """How many updates are gone, and why, of the payloads of gap rows."""
    return arrow_udf(_read, MISSING)(payload)  # type: ignore[call-overload, no-any-return]


def _read(payloads: pa.Array) -> pa.Array:
    gaps = [_gap(payload.as_py()) for payload in payloads]
    return pa.StructArray.from_arrays(
        [
            pa.array([min(gap.count, _COUNT_MAX) for gap in gaps], pa.int64()),
            pa.array([gap.reason for gap in gaps], pa.string()),
        ],
        names=MISSING.names,
    )


def _gap(payload: bytes) -> Gap:
    try:
        return gap_of(payload)
    except RecordingError:
        # Something is missing for sure, and a job must not stop at it for ever.
        return Gap(count=0, reason="unknown: the row of the gap is damaged")
