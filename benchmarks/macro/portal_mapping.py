"""What a mapped message costs, from a Goby publisher to the callback of a space client.

The portal with its mapping and the node are processes of their own; the publisher and the
subscriber are in this one. The publisher sends bursts that are smaller than the queues of the
portal, and waits until the callback has had all of them, so none is lost. Each row is the CPU time
of a process per message, the best of several turns; there is no goal. The message has eleven
fields, two of them in a nested message, and becomes an object with a key.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, text_format

import skerry
from benchmarks.rows import Row
from skerry import build_info, portal
from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes

COUNT = 30_000 if build_info.mode() == "compiled" else 10_000
BURST = 400
REPETITIONS = 3
WAIT_S = 60
QUIET = ("--metrics", "off", "--log-level", "error")
FILE = """
name: "bench.proto" package: "bench" syntax: "proto2"
message_type {
  name: "Position"
  field { name: "lat" number: 1 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "lon" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
}
message_type {
  name: "Status"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "time" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "position" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".bench.Position" }
  field { name: "depth" number: 4 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "roll" number: 5 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "pitch" number: 6 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "heading" number: 7 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "speed" number: 8 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "source" number: 9 label: LABEL_OPTIONAL type: TYPE_STRING }
}
"""
RULES = """
[portal.mapping]
descriptors = ["bench.desc"]
[[portal.mapping.rules]]
scheme = "PROTOBUF"
group = "status"
type = "bench.Status"
object = "Status"
key = ["name"]
[[portal.mapping.rules]]
scheme = "CSTR"
group = "text"
subject = "/text"
"""


def run() -> list[Row]:
    """Rows for objects and for bytes, each for both processes."""
    rows = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        message = prepared(folder)
        node = stack.enter_context(
            process(folder, "node", "run", "--listen", f"uds:{folder}/node.sock", *QUIET)
        )
        space = stack.enter_context(
            skerry.connect(f"uds:{folder}/node.sock", name="bench", wait=True, timeout=WAIT_S)
        )
        broker = stack.enter_context(
            process(
                folder,
                *("--config", "rules.toml", "portal", "run", "--socket-name", f"{folder}/portal"),
                *("--node", f"uds:{folder}/node.sock", "--log-level", "error"),
            )
        )
        client = stack.enter_context(portal.open("bench", socket_name=f"{folder}/portal"))
        client.ready()
        client.wait_open(WAIT_S)
        for what, subject, group, content in (
            ("object of 11 fields", "/Status/*", "status", message),
            ("text of 20 bytes", "/text", "text", "a text of 20 bytes.."),
        ):
            turns = Turns(client, space, subject, group, content)
            costs = [turns.cost(broker, node) for _ in range(REPETITIONS)]
            for index, part in enumerate(("portal and mapping", "node")):
                best = min(cost[index] for cost in costs)
                rows.append(Row(name=f"mapped {what}, {part}", ours=best, unit="us CPU"))
    return rows


class Turns:
    """Publishes to a portal, and waits for what arrives at a space."""

    def __init__(
        self, client: portal.Connection, space: skerry.Space, subject: str, group: str, content: Any
    ) -> None:
        self._client = client
        self._group = group
        self._content = content
        self._arrived = threading.Semaphore(0)
        space.subscribe(subject, self._note)
        space.flush(timeout=WAIT_S)
        # The mapping begins some time after the portal.
        end = time.monotonic() + WAIT_S
        while not self._arrived.acquire(timeout=0.1):
            if time.monotonic() > end:
                raise RuntimeError("nothing is mapped")
            client.publish(group, content)
        while self._arrived.acquire(timeout=0.5):
            pass

    def cost(self, *processes: subprocess.Popen[bytes]) -> list[float]:
        """Microseconds of CPU time of each process per message."""
        before = [cpu_seconds(each) for each in processes]
        for _ in range(COUNT // BURST):
            for _ in range(BURST):
                self._client.publish(self._group, self._content)
            for number in range(BURST):
                if not self._arrived.acquire(timeout=WAIT_S):
                    raise RuntimeError(f"{BURST - number} messages of a burst were lost")
        count = COUNT // BURST * BURST
        return [
            (cpu_seconds(each) - start) / count * 1e6
            for each, start in zip(processes, before, strict=True)
        ]

    def _note(self, event: Any) -> None:
        # A callback that does not look at its object would make it cheaper than it is.
        if event.type_name == "Status":
            _ = event.object.position.lat
        self._arrived.release()


def prepared(folder: Path) -> Any:
    """Write rules and descriptors; returns a message to publish."""
    file = text_format.Parse(FILE, descriptor_pb2.FileDescriptorProto())
    data = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    Path(folder, "bench.desc").write_bytes(data)
    Path(folder, "rules.toml").write_text(RULES)
    types = ProtobufTypes()
    types.add_set(data)
    cls = types.find("bench.Status")
    assert cls is not None
    text = """
    name: "auv" time: 1700000000000000 position { lat: 52.1 lon: 4.2 } depth: 12.5
    roll: 0.1 pitch: 0.2 heading: 271.5 speed: 1.5 source: "nav"
    """
    return text_format.Parse(text, cls())


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """CPU time of all threads of a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "skerry", *arguments], cwd=folder, stderr=subprocess.DEVNULL
    ) as started:
        try:
            yield started
        finally:
            started.terminate()
            started.wait(WAIT_S)
