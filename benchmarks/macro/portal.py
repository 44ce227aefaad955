"""What a portal costs beside a bare broker of ZeroMQ: CPU time of the broker for one publication.

Both brokers are processes with the same sockets, and get the same publications in turns: many
groups, types and sizes, in random order, from one publisher to two subscribers. All of the CPU
time of the broker's process counts, that of its manager and its own client too.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import zmq

from benchmarks.rows import Row

GOAL = 1.1
"""CPU time of the portal, as a multiple of that of the bare broker."""
BATCH_COUNT = 5_000
BATCHES = 20
BURST = 250
"""Publications under way: below the thousand that each queue has, so that none is dropped."""
SUBSCRIBER_COUNT = 2
SIZES = (0, 16, 64, 256, 1024, 4096)

BARE = """
import sys, zmq
context = zmq.Context(io_threads=int(sys.argv[2]))
xpub, xsub = context.socket(zmq.XPUB), context.socket(zmq.XSUB)
xpub.bind(f"ipc://{sys.argv[1]}.xpub")
xsub.bind(f"ipc://{sys.argv[1]}.xsub")
print("{}", flush=True)
zmq.proxy(xpub, xsub)
"""


def run() -> list[Row]:
    """Rows for the router in C, and for the one that checks each publication."""
    return [
        row("portal, CPU per publication", (), goal=GOAL),
        row("portal with filter, CPU per publication", ("--filter",), goal=None),
    ]


def row(name: str, options: tuple[str, ...], *, goal: float | None) -> Row:
    folder = tempfile.mkdtemp(prefix="skerry-bench-")
    environment = {**os.environ, "SKERRY_CONFIG": os.devnull}
    ours_command = (sys.executable, "-P", "-m", "skerry", "portal", "run", "--json", *options)
    try:
        with (
            started((*ours_command, "--socket-name", f"{folder}/ours"), environment) as ours,
            started((sys.executable, "-c", BARE, f"{folder}/bare", "10"), environment) as bare,
        ):
            loads = [Load(ours, f"{folder}/ours"), Load(bare, f"{folder}/bare")]
            for load in loads:
                load.batch()
            costs = [[load.batch() for load in loads] for _ in range(BATCHES)]
            for load in loads:
                load.close()
    finally:
        shutil.rmtree(folder)
    # The middle of the ratios of neighbours: others on the machine disturb both of a pair alike.
    theirs = statistics.median(pair[1] for pair in costs)
    ratio = statistics.median(pair[0] / pair[1] for pair in costs)
    return Row(
        name=name,
        ours=ratio * theirs,
        theirs=theirs,
        peer="zmq.proxy",
        unit="ns",
        goal=goal,
        is_less_better=True,
    )


@contextmanager
def started(command: tuple[str, ...], environment: dict[str, str]) -> Iterator[int]:
    """A broker that listens; its process id."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        yield process.pid
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Load:
    """The clients of one broker."""

    def __init__(self, pid: int, base: str) -> None:
        self._pid = pid
        self._context = zmq.Context()
        self._publisher = self._context.socket(zmq.PUB)
        self._subscribers = [self._context.socket(zmq.SUB) for _ in range(SUBSCRIBER_COUNT)]
        for socket in self._subscribers:
            socket.subscribe(b"/bench")
            socket.connect(f"ipc://{base}.xpub")
        self._publisher.connect(f"ipc://{base}.xsub")
        rng = Random(1)
        self._frames = [
            b"/bench%d/PROTOBUF/bench.Type%d/%d/abc/\0" % (number % 40, number % 13, number % 7)
            + rng.randbytes(rng.choice(SIZES))
            for number in range(1000)
        ]
        rng.shuffle(self._frames)
        for socket in self._subscribers:
            while not socket.poll(50):
                self._publisher.send(b"/bench/CSTR/CSTR/1/1/\0")
        for socket in self._subscribers:
            while socket.poll(200):
                socket.recv()

    def batch(self) -> float:
        """CPU nanoseconds of the broker for a publication."""
        before = cpu_ns(self._pid)
        send, frames = self._publisher.send, self._frames
        for start in range(0, BATCH_COUNT, BURST):
            for number in range(start, start + BURST):
                send(frames[number % len(frames)])
            for socket in self._subscribers:
                for _ in range(BURST):
                    socket.recv()
        return (cpu_ns(self._pid) - before) / BATCH_COUNT

    def close(self) -> None:
        self._context.destroy(linger=0)


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


if __name__ == "__main__":
    for found in run():
        print(f"{found.name}: {found.ours:.0f} ns, {found.theirs:.0f} ns, ratio {found.ratio:.3f}")
