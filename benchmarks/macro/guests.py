"""Plain DOTS programs at a node: raw sockets that send and receive frames, of both versions.

A round trip is an update that a guest publishes and receives again, since it subscribed to its own
type: no library, no event loop, one update at a time, in many short batches. Of each case the batch
with the lowest p99 counts, since whatever else the machine does only ever adds. What remains of its
tail is what the node does besides: the goal is a p99 of at most three times the median. Beside the
node is a program that sends back what it receives, and does nothing else.

The CPU time of the node for one object is measured with a guest that publishes and another one that
receives, as fast as both can.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any

import skerry
from benchmarks.macro.mixed import cpu_s, end, free_ports, wait_for_port
from benchmarks.rows import Row
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire

VERSIONS = {1: "tcp-v1", 2: "tcp"}
KEY_COUNT = 1000
REPETITIONS = 5
BATCHES = 40
"""Of round trips, in each repetition."""
ROUNDS = 500
PUMPED = 200_000
CHUNK = 100
"""Frames that a guest hands to its socket at once."""
TAIL_MOST = 3.0
"""The most that the p99 of a round trip may be, of its median."""
OBJECT_US_MOST = 1.4
"""CPU time of the C++ daemon of DOTS for an object of version 1."""

TYPES = skerry.define_types(
    "".join(
        f"""struct {name}{flag} {{
            1: [key] uint32 id; 2: uint64 seq; 3: timepoint time; 4: float64 bid;
            5: float64 ask; 6: float64 size; 7: string venue;
        }}"""
        for name, flag in (("GuestObject", ""), ("GuestMessage", " [cached=false]"))
    )
)
KINDS = {"cached": TYPES.GuestObject, "uncached": TYPES.GuestMessage}
ECHO = """
import socket, sys
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    stream, _ = door.accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := stream.recv(65536):
        stream.sendall(data)
"""

Times = tuple[float, float]
"""Median and p99 of a batch of round trips, in microseconds."""


class Guest:
    """A connection to a node, introduced; it sends and receives whole frames."""

    def __init__(self, port: int, version: int) -> None:
        self.wire = OldWire() if version == 1 else Wire()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.receive("DotsMsgHello")
        self.say(internal_class("DotsMsgConnect")(clientName="guest", preloadCache=False))
        self.receive("DotsMsgConnectResponse")

    def frame(self, obj: Any) -> bytes:
        header = Header(obj.descriptor.name)
        header.sent_time = time.time()
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        return self.wire.frame(header, obj.encode())

    def say(self, obj: Any) -> None:
        self.socket.sendall(self.frame(obj))

    def receive(self, name: str) -> None:
        """Wait for a message of a type."""
        while all(header.type_name != name for header, _ in self.wire.feed(self._read())):
            pass

    def describe(self, cls: Any) -> None:
        self.say(describe(cls.descriptor))

    def join(self, cls: Any) -> None:
        """Subscribe, and wait until that is done."""
        join = internal_class("DotsMemberEvent").of_tag(1)
        self.say(internal_class("DotsMember")(groupName=cls.descriptor.name, event=join))
        self.say(internal_class("DotsEcho")(request=True, identifier=7, sequenceNumber=1))
        self.receive("DotsEcho")

    def take_frame(self) -> int:
        """Receive one frame, which is alone on its way; gives its bytes."""
        return len(self._read())

    def _read(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise RuntimeError("the node has ended the connection")
        return data


class Place:
    """A node that listens for each version."""

    def __init__(self, held: ExitStack) -> None:
        self.ports = dict(zip(VERSIONS, free_ports(len(VERSIONS)), strict=True))
        listen = [
            word
            for version, kind in VERSIONS.items()
            for word in ("--listen", f"{kind}://127.0.0.1:{self.ports[version]}")
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "skerry", "node", "run", *listen],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        held.callback(end, self.process)
        for port in self.ports.values():
            wait_for_port(port)


def objects(cls: Any, count: int) -> list[Any]:
    return [
        cls(
            id=number % KEY_COUNT,
            seq=number,
            time=1_700_000_000.123456,
            bid=101.25,
            ask=101.5,
            size=2500.0,
            venue="ABC",
        )
        for number in range(count)
    ]


def round_trips(place: Place, version: int, cls: Any) -> list[Times]:
    """Median and p99 of each batch, in microseconds."""
    guest = Guest(place.ports[version], version)
    with guest.socket:
        guest.describe(cls)
        guest.join(cls)
        frames = [guest.frame(obj) for obj in objects(cls, ROUNDS)]
        return [_batch(guest.socket, frames) for _ in range(BATCHES)]


def bare_trips() -> list[Times]:
    """The same without a node."""
    with ExitStack() as held:
        (port,) = free_ports(1)
        command = [sys.executable, "-P", "-c", ECHO, str(port)]
        held.callback(end, subprocess.Popen(command, text=True))
        wait_for_port(port)
        out = held.enter_context(socket.create_connection(("127.0.0.1", port)))
        out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frames = [bytes(100)] * ROUNDS
        return [_batch(out, frames) for _ in range(BATCHES)]


def _batch(out: socket.socket, frames: list[bytes]) -> Times:
    send, receive, now = out.sendall, out.recv, time.perf_counter_ns
    times: list[int] = []
    for frame in frames:
        started_ns = now()
        send(frame)
        receive(65536)
        times.append(now() - started_ns)
    times.sort()
    return times[len(times) // 2] / 1e3, times[int(len(times) * 0.99)] / 1e3


def object_us(place: Place, version: int, cls: Any, count: int = PUMPED) -> float:
    """CPU microseconds of the node for an object, from one guest to another."""
    reader = Guest(place.ports[version], version)
    writer = Guest(place.ports[version], version)
    with reader.socket, writer.socket:
        for guest in (writer, reader):
            guest.describe(cls)
        reader.join(cls)
        frames = [writer.frame(obj) for obj in objects(cls, KEY_COUNT)]
        chunks = [b"".join(frames[start : start + CHUNK]) for start in range(0, KEY_COUNT, CHUNK)]
        # The objects differ in nothing but the length of their numbers; the node adds to each
        # header what it added to the first.
        writer.socket.sendall(frames[0])
        added = reader.take_frame() - len(frames[0])
        sizes = [
            sum(len(frame) + added for frame in frames[at : at + CHUNK])
            for at in range(0, KEY_COUNT, CHUNK)
        ]
        wanted = sum(sizes[index % len(chunks)] for index in range(count // CHUNK))
        before_s = cpu_s([place.process])
        thread = threading.Thread(target=_pump, args=(writer.socket, chunks, count // CHUNK))
        thread.start()
        got = 0
        view = memoryview(bytearray(1 << 20))
        reader.socket.settimeout(20)
        while got < wanted:
            got += reader.socket.recv_into(view)
        thread.join()
        return (cpu_s([place.process]) - before_s) * 1e6 / count


def _pump(out: socket.socket, chunks: list[bytes], count: int) -> None:
    for index in range(count):
        out.sendall(chunks[index % len(chunks)])


def run() -> list[Row]:
    """Tails and CPU times, of both versions, cached and uncached."""
    cases = [(version, kind) for version in VERSIONS for kind in KINDS]
    trips: dict[tuple[int, str], list[Times]] = {case: [] for case in cases}
    bare: list[Times] = []
    costs: dict[tuple[int, str], list[float]] = {case: [] for case in cases}
    with ExitStack() as held:
        place = Place(held)
        for _ in range(REPETITIONS):
            bare += bare_trips()
            for case in cases:
                version, kind = case
                trips[case] += round_trips(place, version, KINDS[kind])
                costs[case].append(object_us(place, version, KINDS[kind]))
    rows = [_trip_row("without a node", bare, has_goal=False)]
    for case in cases:
        version, kind = case
        rows.append(_trip_row(f"version {version}, {kind}", trips[case], has_goal=True))
    for case in cases:
        version, kind = case
        rows.append(
            Row(
                name=f"guests, node, version {version}, {kind}",
                ours=statistics.median(costs[case]),
                unit="us CPU",
                goal=OBJECT_US_MOST if version == 1 else None,
                is_less_better=True,
            )
        )
    return rows


def _trip_row(name: str, batches: list[Times], *, has_goal: bool) -> Row:
    p50, p99 = min(batches, key=lambda batch: batch[1])
    return Row(
        name=f"guests, round trip p99, {name}",
        ours=p99,
        theirs=p50,
        peer="its median",
        unit="us",
        goal=TAIL_MOST if has_goal else None,
        is_less_better=True,
    )


if __name__ == "__main__":
    for row in run():
        print(row.name, row.ours, row.theirs, row.ratio)
