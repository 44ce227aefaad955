"""The cost of recording: updates per CPU second of the recorder, both of its threads.

From a node: a real one, with a publisher, each a process; the recorder is in this one. It takes
frames from the socket, and writes, checks and syncs segments. From a group: batches as the
distributor gives them, to segments on the disk.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row
from skerry import build_info
from skerry.apps.recorder.config import RecorderConfig
from skerry.apps.recorder.group_rows import DATAGRAM_SPAN, GroupRows
from skerry.apps.recorder.node_source import NodeOptions, NodeSource
from skerry.apps.recorder.program import Recorder
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.runtime.recordings.writer import RecordingWriter

NODE_GOAL, GROUP_GOAL = 300_000, 1_000_000
COUNT = 400_000 if build_info.mode() == "compiled" else 60_000
BURST = 20_000
REPETITIONS = 3
DATAGRAM_COUNT = 20
"""Updates of 56 bytes in a datagram of the usual size."""

QUIET = ("--metrics", "off", "--storage", "none", "--log-level", "error")
PUBLISHER = """
import sys, time, skerry
from skerry.apps.demo.fleet import Vessel
place, count, burst = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with skerry.connect(place, name="bench", types=[Vessel], send_bytes_max=1 << 28) as space:
    sys.stdin.readline()
    for start in range(0, count, burst):
        for number in range(start, start + burst):
            space.publish(Vessel(mmsi=number % 1000, lat=52.0 + number / 1e6, lon=4.0))
        space.flush(timeout=60.0)
        time.sleep(0.05)
    sys.stdin.readline()
"""


def run() -> list[Row]:
    """Rows for both kinds of sources."""
    return [
        Row(
            name="recorder, from a node",
            ours=max(from_node() for _ in range(REPETITIONS)),
            unit="1/s CPU",
            goal=NODE_GOAL,
        ),
        Row(
            name="recorder, batches of a group",
            ours=max(from_group() for _ in range(REPETITIONS)),
            unit="1/s CPU",
            goal=GROUP_GOAL,
        ),
    ]


def from_node() -> float:
    """Updates that are recorded in a second of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        place = f"uds:{folder}/node.sock"
        node = subprocess.Popen(
            [sys.executable, "-m", "skerry", "node", "run", "--listen", place, *QUIET],
            stderr=subprocess.DEVNULL,
        )
        words = [sys.executable, "-c", PUBLISHER, place, str(COUNT), str(BURST)]
        publisher: subprocess.Popen[bytes] | None = None
        try:
            wait_until(Path(folder, "node.sock"))
            publisher = subprocess.Popen(words, stdin=subprocess.PIPE)
            return asyncio.run(record(Path(folder, "recording"), place, publisher))
        finally:
            for process in (publisher, node):
                if process is not None:
                    process.kill()
                    process.wait()
            if publisher is not None and publisher.stdin is not None:
                publisher.stdin.close()


async def record(folder: Path, place: str, publisher: subprocess.Popen[bytes]) -> float:
    recorder = Recorder(folder, RecorderConfig())
    options = NodeOptions(endpoint=place, subjects=("/Vessel/...",))
    recorder.add(NodeSource(recorder.queue, options, space="local", report=lambda _text: None))
    started: list[float] = []

    def begin() -> None:
        assert publisher.stdin is not None
        publisher.stdin.write(b"go\n")
        publisher.stdin.flush()
        started.append(time.process_time())

    summary = await recorder.run(lambda: False, count=COUNT, seconds=120, on_started=begin)
    if summary.updates < COUNT or summary.gaps or summary.lost_rows:
        raise RuntimeError(f"not all was recorded: {summary}")
    return summary.updates / (time.process_time() - started[0])


def from_group() -> float:
    """The same for what comes by multicast, without the receiving."""
    updates = [(f"/prices/{number % 100}", bytes(56)) for number in range(1000)]
    with tempfile.TemporaryDirectory() as folder:
        config = RecorderConfig()
        queue = RowQueue(space="local", row_count_max=config.batch_rows)
        writing = WritingThread(queue, RecordingWriter(Path(folder, "r"), config, space="local"))
        writing.start()
        intake = GroupRows(queue, RecordedTypes().known, space="local")
        started = time.process_time()
        for start in range(0, COUNT, len(updates)):
            numbers = [
                (first, (start + first) // DATAGRAM_COUNT * DATAGRAM_SPAN)
                for first in range(0, len(updates), DATAGRAM_COUNT)
            ]
            intake.take_bytes(updates, numbers, 7, start)
        queue.close()
        writing.stop()
        passed = time.process_time() - started
        if queue.lost_count:
            raise RuntimeError(f"{queue.lost_count} rows were left out")
        return COUNT / passed


def wait_until(path: Path) -> None:
    """The node listens when its socket is there."""
    end = time.monotonic() + 30
    while not path.exists():
        if time.monotonic() > end:
            raise RuntimeError("the node did not start")
        time.sleep(0.01)
