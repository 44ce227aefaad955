"""Query the pipeline: make tables of a recording, and read the state of objects at any time.

A node, a recorder, and a vessel that moves. Run each cell in an editor that supports `# %%`, or all
of them with `python ask_the_pipeline.py`. It needs `pip install 'skerry[spark]'`.
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
from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake

folder = Path(tempfile.mkdtemp(prefix="ask-"))
endpoint = f"uds:{folder}/node.sock"


def command(*arguments: str) -> subprocess.Popen[str]:
    """Start a command of skerry in the background."""
    # The node of this example stores its state in the temporary folder.
    environment = {**os.environ, "SKERRY_STATE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "skerry", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a command, and wait for it."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


# %% [markdown]
# ## Record updates


# %%
@skerry.struct
class Vessel(skerry.Struct):
    """A vessel."""

    mmsi: skerry.uint32 | None = skerry.key(1)
    name: str | None = skerry.field(2)
    lat: float | None = skerry.field(3)


node = command("node", "run", "--listen", endpoint)
try:
    with skerry.connect(endpoint, name="tracker", wait=True) as space:
        recorder = command(
            "record", "--to", f"{folder}/recording", "--types", "Vessel", "--node", endpoint
        )
        try:
            assert recorder.stderr is not None
            recorder.stderr.readline()  # printed when the recording has started
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
# ## Make tables of the recording

# %%
spark = skerry.spark.session("local[2]", memory="1g", is_brief=True)
lake = Lake(spark, folder / "lake")
done = run_all(lake, folder / "recording")
print(f"{done.row_count} rows")

# %% [markdown]
# ## Query the tables

# %%
tables = skerry.spark.tables(spark, folder / "lake")
print(tables.names())

# %% The state before the vessel was removed
(maren,) = tables.asof("Vessel", halfway).select("name", "lat").collect()
print(maren)
assert (maren.name, maren.lat) == ("Maren", 53.0)

# %% All its states
track = tables.frame("history/Vessel").orderBy("valid_from_ns", "position")
track.select("valid_from", "lat").show()

# %% The state now: the vessel is removed
assert tables.asof("Vessel", datetime.now(UTC)).count() == 0

# %%
spark.stop()
shutil.rmtree(folder)
