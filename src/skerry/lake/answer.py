"""The rows of a query: as a stream of Arrow batches, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.spark.startup.extras import require_lake

if TYPE_CHECKING:
    import polars as pl


class Answer:
    """The result of a query. Files are read each time the rows are requested.

    It implements Arrow's stream interface, so DuckDB, polars and pyarrow accept it directly.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        *,
        notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.schema = schema
        self._batches = batches
        self._notes = notes

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the result, such as that an instant is outside of the recording."""
        return self._notes()

    def with_notes(self, notes: Callable[[], tuple[str, ...]]) -> Answer:
        """The same rows with other notes."""
        return Answer(self.schema, self._batches, notes=notes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches; only a few are in memory at a time."""
        return (batch for batch in self._batches() if batch.num_rows)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a record batch reader of Arrow."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """All rows as a DataFrame of pandas; PipelineError if it is not installed."""
        require_lake("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a DataFrame of polars; PipelineError if it is not installed."""
        require_lake("polars")
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist(maps_as_pydicts="lossy")
        return rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Answer with columns {', '.join(self.schema.names)}>"
