"""Read recordings in your own jobs: as rows, as columns of a type, as a stream, and without Spark.

Run each cell in an editor that supports `# %%`, or all of them with `python read_a_recording.py`.
It needs `pip install 'skerry[spark]'`.
"""

from __future__ import annotations

# %%
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

import skerry
import skerry.spark
from skerry.codec.envelope import CREATE, UPDATE, Update
from skerry.objects.base import key_of
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

folder = Path(tempfile.mkdtemp(prefix="read-"))
START_NS = 1_794_751_200_000_000_000  # 2026-11-15T14:00:00Z
MINUTE_NS = 60_000_000_000

# %% [markdown]
# ## A recording
# Usually `skerry record` makes it. This program writes one: a tank is filled for an hour.


# %%
@skerry.struct
class Tank(skerry.Struct):
    """The level of a tank."""

    number: skerry.uint8 | None = skerry.key(1)
    level: float | None = skerry.field(2)


with RecordingWriter(folder / "recording", space="ship") as writer:
    writer.describe(Tank.descriptor)
    for minute in range(60):
        tank = Tank(number=1, level=minute / 60)
        writer.append(
            Update(
                type_name="Tank",
                subject="/Tank/1",
                operation=UPDATE if minute else CREATE,
                present=int(tank.attributes),
                key=key_of(tank),
                payload=tank.encode(),
                fingerprint=fingerprint(Tank.descriptor),
                node=7,
                sender=2,
                sequence=minute + 1,
                position=minute + 1,
                time_ns=START_NS + minute * MINUTE_NS,
                source="access",
            )
        )

# %% [markdown]
# ## All rows

# %%
spark = skerry.spark.session("local[2]", memory="1g", is_brief=True)
rows = spark.read.format("skerry").load(str(folder / "recording"))
counts = {row.type: row["count"] for row in rows.groupBy("type").count().collect()}
print(counts)
assert counts["Tank"] == 60

# %% [markdown]
# ## Some columns of a type, for a time range

# %%
tanks = (
    spark.read.format("skerry")
    .option("type", "Tank")
    .option("columns", "number,level")
    .option("from", "2026-11-15T14:30:00Z")
    .load(str(folder / "recording"))
)
(fullest,) = tanks.groupBy("number").agg(F.max("level").alias("level")).collect()
print(fullest)
assert (tanks.count(), fullest.level) == (30, 59 / 60)

# %% [markdown]
# ## A stream
# Without `availableNow` the stream continues as the recording grows.

# %%
query = (
    spark.readStream.format("skerry")
    .option("type", "Tank")
    .load(str(folder / "recording"))
    .writeStream.format("parquet")
    .option("path", str(folder / "copy"))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
assert spark.read.parquet(str(folder / "copy")).count() == 60
spark.stop()

# %% [markdown]
# ## Without Spark: a segment is an Arrow stream

# %%
segment = min((folder / "recording").glob("*.arrow"))
with pa.ipc.open_stream(segment) as reader:
    # Each batch has its own dictionary of names.
    table = reader.read_all().unify_dictionaries()
print(table.group_by("type").aggregate([("time_ns", "max")]).to_pylist())
shutil.rmtree(folder)
