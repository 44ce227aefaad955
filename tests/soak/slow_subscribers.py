"""A publisher at full speed, and subscribers that take fewer objects a second than it publishes.

Publisher and subscribers are raw sockets in processes of their own and speak plain DOTS. A
subscriber that makes progress has to receive every object in order; one that is stopped (SIGSTOP)
has to be cut, and may delay the others only for the time that `backpressure_s_max` allows. The
memory of the node has to stay within bounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skerry import define_types
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import OldWire, Wire

MINUTES = 4.0
SUBSCRIBER_RATES = (150_000, 190_000, 220_000, 260_000, 300_000)
"""Objects a second, as C++ programs decode them."""
ECHO_COUNT = 1000
"""Objects that a publisher sends between two echoes it waits for, where it waits."""
BATCH_COUNT = 500
FIRST_NUMBER = 1 << 32
"""So that all numbers have the same size on the wire."""
RSS_BYTES_MAX = 400 * 1024 * 1024
"""Twenty MiB wait for each subscriber at most: in its queue, and on its way to the system."""
WAIT_S_MAX = 10.0
"""So long a publisher may wait at a time: two seconds for each subscriber that is stopped, and much
more on a busy computer."""
PATIENCE_S = 60.0

LOAD = define_types("struct Load [cached=false] { 1: uint64 number; 2: string text; }").Load
WIRES = {"v2": Wire, "v1": OldWire}
Part = subprocess.Popen[str]


def run(minutes: float) -> dict[str, Any]:
    """Run all combinations of framing and publisher, each for its part of the time."""
    violations: list[str] = []
    notes: dict[str, Any] = {}
    cases = [(f, e, s) for f in WIRES for e in (True, False) for s in (False, True)]
    objects = 0
    for framing, is_echoing, has_stopped in cases:
        # A stopped subscriber is cut when more than 10 MiB were published since.
        seconds = max(minutes * 60 / len(cases), 6.0)
        name = f"{framing} {'with' if is_echoing else 'without'} echoes"
        name += ", one stopped" if has_stopped else ""
        case = Case(framing, is_echoing=is_echoing, has_stopped=has_stopped, seconds=seconds)
        try:
            case.play()
        except Exception as error:
            case.violations.append(f"{type(error).__name__}: {error}")
        violations += [f"{name}: {text}" for text in case.violations]
        notes[name] = case.notes
        objects += case.published
    return {
        "name": "slow subscribers",
        "seeds": len(cases),
        "inputs": objects,
        "violations": violations,
        "notes": notes,
    }


class Case:
    """A node of its own, a publisher, and its subscribers."""

    def __init__(
        self, framing: str, *, is_echoing: bool, has_stopped: bool, seconds: float
    ) -> None:
        self.framing = framing
        self.is_echoing = is_echoing
        self.has_stopped = has_stopped
        self.seconds = seconds
        self.violations: list[str] = []
        self.notes: dict[str, Any] = {}
        self.published = 0

    def play(self) -> None:
        with tempfile.TemporaryDirectory() as folder, node(Path(folder), self.framing) as place:
            subscribers = [
                part("subscribe", place, self.framing, rate=rate) for rate in SUBSCRIBER_RATES
            ]
            stopped = part("subscribe", place, self.framing, rate=300_000)
            everybody = [*subscribers, stopped]
            try:
                for process in everybody:
                    line_of(process, "joined")
                if self.has_stopped:
                    stopped.send_signal(signal.SIGSTOP)
                else:
                    stopped.kill()
                echo = ECHO_COUNT if self.is_echoing else 0
                publisher = part("publish", place, self.framing, echo=echo, seconds=self.seconds)
                everybody.append(publisher)
                self._watch(publisher, subscribers, place)
                if self.has_stopped:
                    stopped.send_signal(signal.SIGCONT)
                    found = line_of(stopped, "end")
                    if not found["is_cut"]:
                        self.violations.append("the stopped subscriber was not cut")
            finally:
                for process in everybody:
                    process.kill()
                    process.wait()

    def _watch(self, publisher: Part, subscribers: list[Part], place: Place) -> None:
        peak = 0
        deadline_s = time.monotonic() + self.seconds + PATIENCE_S
        while publisher.poll() is None and time.monotonic() < deadline_s:
            peak = max(peak, rss_bytes(place.process.pid))
            time.sleep(0.05)
        done = line_of(publisher, "end")
        self.published = done["count"]
        ends = [line_of(process, "end") for process in subscribers]
        cut = [end for end in ends if end["is_cut"]]
        wrong = [end for end in ends if not end["is_cut"] and end["count"] != self.published]
        if cut:
            self.violations.append(f"{len(cut)} of {len(ends)} healthy subscribers were cut")
        if wrong or any(end["fault"] for end in ends):
            self.violations.append(f"objects are missing or out of order: {ends}")
        if done["longest_s"] > WAIT_S_MAX or done["is_cut"]:
            self.violations.append(f"the publisher was held up: {done}")
        if peak > RSS_BYTES_MAX:
            self.violations.append(f"the node took {peak} bytes")
        self.notes = {
            "published": self.published,
            "per_s": int(self.published / max(done["took_s"], 0.001)),
            "longest_wait_s": round(done["longest_s"], 2),
            "survivors": len(ends) - len(cut),
            "node_mb": peak >> 20,
        }


class Place:
    """A node: its endpoint and its process."""

    def __init__(self, process: Part, port: int) -> None:
        self.process = process
        self.port = port


@contextlib.contextmanager
def node(folder: Path, framing: str) -> Iterator[Place]:
    """A node with its defaults, on a port of its own."""
    scheme = "tcp-v1" if framing == "v1" else "tcp"
    options = ["--json", "--metrics=off", "--storage=none", f"--listen={scheme}://127.0.0.1:0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "skerry", "node", "run", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        started = process.stdout.readline()
        yield Place(process, int(started.rpartition("127.0.0.1:")[2].split('"')[0]))
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def part(what: str, place: Place, framing: str, **options: Any) -> Part:
    """A publisher or subscriber in a process of its own."""
    given = [f"--{name}={value}" for name, value in options.items()]
    return subprocess.Popen(
        [sys.executable, "-P", __file__, what, str(place.port), framing, *given],
        stdout=subprocess.PIPE,
        text=True,
    )


def line_of(process: Part, key: str) -> dict[str, Any]:
    """The next line of a process, which must have this key."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    text = process.stdout.readline() if ready else ""
    if not text:
        raise TimeoutError(f"a process did not report {key}")
    found: dict[str, Any] = json.loads(text)
    assert key in found, text
    return found


def rss_bytes(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


# -- a plain guest


class Guest:
    """A connection of a program that speaks plain DOTS, by blocking calls."""

    def __init__(self, port: int, framing: str, name: str) -> None:
        self.framing = framing
        self.wire = WIRES[framing]()
        self.ear = WIRES[framing]()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wait_for("DotsMsgHello")
        self.send(internal_class("DotsMsgConnect")(clientName=name, preloadCache=False))
        self.wait_for("DotsMsgConnectResponse")

    def send(self, obj: Any) -> None:
        self.socket.sendall(self.frame(obj))

    def frame(self, obj: Any) -> bytes:
        header = Header(obj.descriptor.name)
        header.sent_time = 1.0
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        return bytes(self.wire.frame(header, obj.encode()))

    def wait_for(self, type_name: str) -> Any:
        while True:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the node ended the connection")
            for header, payload in self.ear.feed(data):
                if header.type_name == type_name:
                    return internal_class(type_name).decode(payload)


def publish(port: int, framing: str, *, echo: int, seconds: float) -> dict[str, Any]:
    """Publish as fast as the socket takes it; with `echo`, wait after each so many objects."""
    guest = Guest(port, framing, "publisher")
    guest.send(describe(LOAD.descriptor))
    sample = guest.frame(LOAD(number=FIRST_NUMBER, text="x" * 20))
    mark = FIRST_NUMBER.to_bytes(8, "big")
    head, _, tail = sample.partition(mark)
    started_s = last_s = time.monotonic()
    count, longest_s, is_cut = 0, 0.0, False
    try:
        while last_s - started_s < seconds:
            numbers = range(FIRST_NUMBER + count, FIRST_NUMBER + count + BATCH_COUNT)
            guest.socket.sendall(b"".join([head + n.to_bytes(8, "big") + tail for n in numbers]))
            count += BATCH_COUNT
            if echo and count % echo == 0:
                guest.send(internal_class("DotsEcho")(request=True, sequenceNumber=1))
                guest.wait_for("DotsEcho")
            now_s = time.monotonic()
            longest_s = max(longest_s, now_s - last_s)
            last_s = now_s
        guest.send(LOAD(number=0, text="end"))
        guest.send(internal_class("DotsEcho")(request=True, sequenceNumber=2))
        guest.wait_for("DotsEcho")
    except OSError:
        is_cut = True
    return {
        "end": True,
        "count": count,
        "took_s": time.monotonic() - started_s,
        "longest_s": longest_s,
        "is_cut": is_cut,
    }


def subscribe(port: int, framing: str, *, rate: int) -> dict[str, Any]:
    """Read every object, so many a second, until the last one."""
    guest = Guest(port, framing, "subscriber")
    events = internal_class("DotsMemberEvent")
    guest.send(internal_class("DotsMember")(groupName="Load", event=events["join"]))
    guest.send(internal_class("DotsEcho")(request=True, sequenceNumber=1))
    guest.wait_for("DotsEcho")
    print(json.dumps({"joined": True}), flush=True)
    mark = (FIRST_NUMBER >> 32).to_bytes(4, "big")
    end = LOAD(number=0, text="end").encode()
    count, fault, rest = 0, "", b""
    due_s = time.monotonic()
    while True:
        try:
            data = guest.socket.recv(262_144)
        except OSError:
            data = b""
        if not data:
            return {"end": True, "count": count, "is_cut": True, "fault": fault}
        data, start, before = rest + data, 0, count
        for payload, stop in payloads(framing, data):
            start = stop
            if payload == end:
                return {"end": True, "count": count, "is_cut": False, "fault": fault}
            at = payload.find(mark)
            if payload[:3] != b"\xa2\x01\x1b":
                continue  # a description
            number = int.from_bytes(payload[at : at + 8], "big") - FIRST_NUMBER
            if number != count and not fault:
                fault = f"object {number} came as number {count}"
            count += 1
        rest = data[start:]
        due_s = max(due_s, time.monotonic() - 0.05) + (count - before) / rate
        time.sleep(max(due_s - time.monotonic(), 0.0))


def payloads(framing: str, data: bytes) -> Iterator[tuple[bytes, int]]:
    """The objects of all whole frames, and where each frame ends."""
    pos, stop = 0, len(data)
    while pos + 5 <= stop:
        if framing == "v2":
            end = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "big")
            # The header is a map of its own before the object; the object is found by its end.
            if end > stop:
                return
            begin = object_start(data, pos + 5)
        else:
            outer = pos + 2 + int.from_bytes(data[pos : pos + 2], "little")
            if outer > stop:
                return
            begin = outer
            end = outer + object_size(data, outer)
            if end > stop:
                return
        yield data[begin:end], end
        pos = end


HEADER_BYTES: dict[bytes, int] = {}
"""Sizes of headers by what they begin with: those of one type are alike."""


def object_start(data: bytes, begin: int) -> int:
    kind = data[begin : begin + 12]
    size = HEADER_BYTES.get(kind)
    if size is None:
        _, end = read_header(data, begin)
        size = HEADER_BYTES[kind] = int(end) - begin
    return begin + size


def object_size(data: bytes, outer: int) -> int:
    """The size of an object of version 1 is the last entry of the header before it."""
    if data[outer - 2] == 0x18:
        return data[outer - 1]
    if data[outer - 3] == 0x19:
        return int.from_bytes(data[outer - 2 : outer], "big")
    return data[outer - 1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("publish", "subscribe", "run"))
    parser.add_argument("port", type=int, nargs="?", default=0)
    parser.add_argument("framing", nargs="?", default="v2")
    parser.add_argument("--echo", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=200_000)
    given = parser.parse_args()
    if given.what == "run":
        print(json.dumps(run(given.seconds / 60), indent=1))
    elif given.what == "publish":
        report = publish(given.port, given.framing, echo=given.echo, seconds=given.seconds)
        print(json.dumps(report), flush=True)
    else:
        print(json.dumps(subscribe(given.port, given.framing, rate=given.rate)), flush=True)


if __name__ == "__main__":
    main()
