"""Ask the pipeline: what was recorded becomes tables, and the tables answer for any instant.

A node, a recorder, and a vessel that moves. Each cell can be run by itself in an editor that knows
`# %%`, or all of them with `python ask_the_pipeline.py`. It needs `pip install 'skerry[spark]'`.
"""

from __future__ import annotations

# %%
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import skerry
import skerry.spark
from skerry.spark.jobs.run import run_all
from skerry.spark.lake.lake import Lake

folder = Path(tempfile.mkdtemp(prefix="ask-"))
place = f"uds:{folder}/node.sock"


def command(*arguments: str) -> subprocess.Popen[str]:
    """A command of skerry that runs meanwhile."""
    # What a node keeps from one start to the next belongs to this example alone.
    environment = {**os.environ, "SKERRY_STATE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "skerry", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def end(process: subprocess.Popen[str]) -> None:
    """Tell a command to end, and wait until it has."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


# %% [markdown]
# ## Something happens, and is recorded


# %%
@skerry.struct
class Vessel(skerry.Struct):
    """A vessel under way."""

    mmsi: skerry.uint32 | None = skerry.key(1)
    name: str | None = skerry.field(2)
    lat: float | None = skerry.field(3)


node = command("node", "run", "--listen", place)
try:
    with skerry.connect(place, name="tracker", wait=True) as space:
        recorder = command(
            "record", "--to", f"{folder}/recording", "--types", "Vessel", "--node", place
        )
        try:
            assert recorder.stderr is not None
            recorder.stderr.readline()  # it says when it has begun
            space.publish(Vessel(mmsi=244660000, name="Maren", lat=52.0))
            for step in range(1, 11):
                space.publish(Vessel(mmsi=244660000, lat=52.0 + step / 10))
            space.flush()
            halfway = datetime.now(UTC)
            space.remove(Vessel(mmsi=244660000))
            space.flush()
        finally:
            end(recorder)
finally:
    end(node)

# %% [markdown]
# ## The recording becomes tables

# %%
spark = skerry.spark.session("local[2]", memory="1g", is_brief=True)
lake = Lake(spark, folder / "lake")
done = run_all(lake, folder / "recording")
print(f"{done.row_count} rows")

# %% [markdown]
# ## Questions

# %%
tables = skerry.spark.tables(spark, folder / "lake")
print(tables.names())

# %% Where was it, before it was removed?
(maren,) = tables.asof("Vessel", halfway).select("name", "lat").collect()
print(maren)
assert (maren.name, maren.lat) == ("Maren", 53.0)

# %% Which way did it go?
track = tables.frame("history/Vessel").orderBy("valid_from_ns", "position")
track.select("valid_from", "lat").show()

# %% And now?
assert tables.asof("Vessel", datetime.now(UTC)).count() == 0

# %%
spark.stop()
shutil.rmtree(folder)
