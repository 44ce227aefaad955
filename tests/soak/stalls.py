"""Measures how long an honest client waits while another one sends expensive input.

Each shape runs against a real node of its own. Hostile clients are another process. The honest one
publishes an object and flushes, again and again. The wait of its flushes is noted for each shape;
that more than one in a hundred takes longer than `FLUSH_S_MAX` is a violation.

`python tests/soak/stalls.py SHAPE...` runs some of them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import skerry
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection, Connected
from skerry.protocol.access.connection import ConnectionBroken, ConnectionEnded, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.wire import Wire

MINUTES = 4.0
FLUSH_S_MAX = 0.1
PATIENCE_S = 60.0
ATTACK_S = 5.0
"""Minimum duration of a shape, even if its hostile clients finish sooner."""
SHAPE_S_MAX = 20.0
"""Time limit of the hostile process; later results show nothing new."""
_ATTACK = "--attack"
REPORT = skerry.define_types(
    "struct HonestReport { 1: [key] uint32 place; 2: uint64 number; }"
).HonestReport
TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Guard [cleanup] { 1: [key] uint32 id; 2: string name; }
    struct Note [cached=false] { 1: [key] uint32 id; 2: string text; }
    struct Named { 1: [key] string name; 2: uint32 number; }
    struct Bulk { 1: [key] uint32 id; 2: vector<float64> values; 3: vector<string> words; }
    """
)
Boat, Guard, Note, Named, Bulk = TYPES.Boat, TYPES.Guard, TYPES.Note, TYPES.Named, TYPES.Bulk


def run(minutes: float) -> dict[str, Any]:
    """Each shape once, or as often as there is time."""
    report = Report()
    stop_s = time.monotonic() + minutes * 60
    while not report.rows or time.monotonic() < stop_s:
        for name in SHAPES:
            report.add(measure(name))
    return {
        "name": "stalls",
        "seeds": 1,
        "inputs": len(report.rows),
        "violations": report.violations,
        "notes": {row.name: row.text for row in report.rows},
    }


@dataclass
class Row:
    """The waits of the honest client during one shape."""

    name: str
    waits_s: list[float] = field(default_factory=list)
    fault: str = ""

    def at(self, share: float) -> float:
        ordered = sorted(self.waits_s)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0

    @property
    def text(self) -> str:
        parts = [f"p50 {self.at(0.5) * 1e3:.1f} ms", f"p99 {self.at(0.99) * 1e3:.1f} ms"]
        parts += [f"max {self.at(1) * 1e3:.1f} ms", f"{len(self.waits_s)} flushes"]
        return ", ".join(parts) + (f"; {self.fault}" if self.fault else "")


@dataclass
class Report:
    rows: list[Row] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if row.fault or row.at(0.99) > FLUSH_S_MAX:
            self.violations.append(f"{row.name}: {row.text}")


# -- one shape


def measure(name: str) -> Row:
    """Try a shape on a node of its own."""
    row = Row(name)
    with node() as places, skerry.connect(places.unix, name="honest") as space:
        space.publish(REPORT(place=0, number=0))
        space.flush(timeout=PATIENCE_S)
        with hostile_process(name, places) as hostile:
            number = 0
            gc.disable()
            stop_s = time.monotonic() + SHAPE_S_MAX
            while hostile.poll() is None and time.monotonic() < stop_s:
                number += 1
                _flush(space, number, row)
            # The work that is left when the hostile clients are gone, too.
            for _ in range(100):
                number += 1
                _flush(space, number, row)
            gc.enable()
            if hostile.poll():
                row.fault = f"the hostile process ended with {hostile.poll()}"
    return row


@contextlib.contextmanager
def hostile_process(name: str, places: Places) -> Iterator[subprocess.Popen[bytes]]:
    """The process of the hostile clients of a shape, which have begun."""
    command = [sys.executable, "-P", __file__, _ATTACK, name, json.dumps(asdict(places))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        # An empty line if it ended, which `measure` reports.
        process.stdout.readline()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _flush(space: Any, number: int, row: Row) -> None:
    begin_s = time.perf_counter()
    space.publish(REPORT(place=number % 10, number=number))
    space.flush(timeout=PATIENCE_S)
    row.waits_s.append(time.perf_counter() - begin_s)
    time.sleep(0.002)


def _attack(name: str, places: str) -> None:
    SHAPES[name](Places(**json.loads(places)), lambda: print("begun", flush=True))


@dataclass(frozen=True)
class Places:
    """The endpoint of a node."""

    unix: str
    path: str
    websocket: str
    pid: int


Shape = Callable[[Places, Callable[[], None]], None]
"""A hostile client: prepares, calls the given function, and begins."""


@contextlib.contextmanager
def node() -> Iterator[Places]:
    """A node that ends with this."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/node.sock"
        command = [sys.executable, "-P", "-m", "skerry", "node", "run", "--log-level", "error"]
        command += ["--listen", f"uds:{path}", "--listen", "ws://127.0.0.1:0"]
        log = Path(folder) / "stderr"
        with log.open("wb") as errors:
            process = subprocess.Popen(command, stderr=errors, cwd=folder)
        try:
            places = _listening(log, process)
            yield Places(unix=places[0], path=path, websocket=places[1], pid=process.pid)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _listening(log: Path, process: subprocess.Popen[bytes]) -> list[str]:
    stop_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < stop_s and process.poll() is None:
        for line in log.read_text().splitlines():
            if " listens at " in line:
                return line.partition(" listens at ")[2].split(", ")
        time.sleep(0.05)
    raise RuntimeError(f"the node did not start: {log.read_text()}")


# -- hostile clients


class Raw:
    """A client that sends whatever bytes it likes, and reads in a thread of its own."""

    def __init__(
        self,
        places: Places,
        name: str = "hostile",
        *,
        reads: bool = True,
        extensions: int = 1,
    ) -> None:
        self.connection = ClientConnection(
            Wire(), name=name, cnonce="n", secret=None, wants_preload=False, extensions=extensions
        )
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(places.path)
        self.received: dict[str, int] = {}
        self.last_echo = -1
        self.end = ""
        self._echo = 0
        self._changed = threading.Condition()
        self._is_connected = False
        while not self._is_connected:
            self._hear(self.socket.recv(65536))
            self.flush()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._thread.start()

    def flush(self) -> None:
        data = self.connection.take_output()
        if data:
            self.socket.sendall(data)

    def take(self, *objects: Any, is_remove: bool = False, subject: str = "") -> bytes:
        """The frames of some objects."""
        for obj in objects:
            header = Header(obj.descriptor.name)
            header.sent_time = 1.0
            header.remove_obj = int(is_remove)
            mask = obj.descriptor.key_mask if is_remove else int(obj.attributes)
            header.attributes, header.subject = mask, subject
            payload = codec_of(type(obj)).encode_only(obj, mask)
            self.connection.send(header, payload, obj.descriptor, 0.0)
        return self.connection.take_output()

    def message(self, name: str, **fields: Any) -> bytes:
        """The frame of a message to the node."""
        self.connection.send_message(internal_class(name)(**fields), 0.0)
        return self.connection.take_output()

    def describe(self, type_: Any) -> bytes:
        self.connection.describe(type_, 0.0)
        return self.connection.take_output()

    def join(self, group: str, **options: Any) -> bytes:
        self.connection.join(group, 0.0, **options)
        return self.connection.take_output()

    def leave(self, group: str, **options: Any) -> bytes:
        self.connection.leave(group, 0.0, **options)
        return self.connection.take_output()

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def settle(self) -> None:
        """Wait until the node has done all that was asked."""
        self._echo += 1
        self.send(self.message("DotsEcho", request=True, identifier=self._echo))
        stop_s = time.monotonic() + PATIENCE_S
        with self._changed:
            while self.last_echo < self._echo and time.monotonic() < stop_s:
                if not self._changed.wait(1.0) and not self._thread.is_alive():
                    raise RuntimeError(f"a client was cut: {self.end}")

    def close(self) -> None:
        self.socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.socket.recv(1 << 18):
                self._hear(data)

    def _hear(self, data: bytes) -> None:
        for item in self.connection.receive(data, 0.0):
            if isinstance(item, Connected) or type(item).__name__ == "Accepted":
                self._is_connected = True
            if isinstance(item, (ConnectionEnded, ConnectionBroken)):
                self.end = str(item)
            if isinstance(item, ReceivedFrame) and item.header.type_name == "DotsEcho":
                with self._changed:
                    self.last_echo = internal_class("DotsEcho").decode(item.payload).identifier
                    self._changed.notify_all()


def many_types(count: int, prefix: str = "Many", part: str = "") -> list[Any]:
    use = f"3: {part} inner;" if part else ""
    text = "".join(
        f"struct {prefix}{number:04} {{ 1: [key] uint32 id; 2: string name; {use} }}\n"
        for number in range(count)
    )
    before = f"struct {part} [substruct_only] {{ 1: int32 value; }}\n" if part else ""
    types = skerry.define_types(before + text)
    return [getattr(types, f"{prefix}{number:04}") for number in range(count)]


def nothing(_places: Places, begin: Callable[[], None]) -> None:
    begin()
    time.sleep(1)


def descriptors(places: Places, begin: Callable[[], None]) -> None:
    """Ask for the descriptions of thousands of types."""
    makers = [Raw(places, f"maker-{number}") for number in range(6)]
    for number, maker in enumerate(makers):
        for cls in many_types(990, f"Kind{number}"):
            maker.send(maker.describe(cls.descriptor))
    for maker in makers:
        maker.settle()
    begin()
    names = [f"Kind{number % 6}{number // 6:04}" for number in range(5940)]
    for size in (60, 1500):
        guest = Raw(places)
        wanted = [name.ljust(size, "x") for name in names] + names
        guest.send(guest.message("DotsDescriptorRequest", whitelist=wanted))
        guest.settle()
    guest = Raw(places)
    guest.send(guest.message("DotsDescriptorRequest"))
    guest.settle()


def descriptions(places: Places, begin: Callable[[], None]) -> None:
    """Describe thousands of types in one go, and leave."""
    data = []
    makers = [Raw(places, f"maker-{number}") for number in range(5)]
    for number, maker in enumerate(makers):
        found = many_types(990, f"Kind{number}")
        data.append(b"".join(maker.describe(cls.descriptor) for cls in found))
    begin()
    for maker, text in zip(makers, data, strict=True):
        threading.Thread(target=maker.send, args=(text,)).start()
    for maker in makers:
        maker.settle()
    for maker in makers:
        maker.close()


def parts(places: Places, begin: Callable[[], None]) -> None:
    """Redefine a part that hundreds of types use, again and again, and use them."""
    maker = Raw(places, "maker")
    kinds = many_types(900, "Whole", part="Inner")
    for kind in kinds:
        maker.send(maker.take(kind(id=1)))
    maker.settle()
    begin()
    for number in range(60):
        guest = Raw(places, f"guest-{number}")
        other = skerry.define_types(
            f"struct Inner [substruct_only] {{ 1: int32 value; {number % 28 + 3}: int32 x; }}"
            "struct Whole0000 { 1: [key] uint32 id; 2: string name; 3: Inner inner; }"
        )
        guest.send(guest.describe(other.Whole0000.descriptor))
        guest.settle()
        maker.send(b"".join(maker.take(kind(id=2)) for kind in kinds[:50]))
        guest.close()
    maker.settle()


def enums(places: Places, begin: Callable[[], None]) -> None:
    """Describe the largest enums."""
    guest = Raw(places)
    data = []
    for number in range(60):
        elements = ", ".join(f"{tag}: e{tag}" for tag in range(1, 4096))
        text = f"enum Large{number} {{ {elements} }}"
        text += f"struct WithLarge{number} {{ 1: [key] Large{number} id; }}"
        made = getattr(skerry.define_types(text), f"WithLarge{number}")
        data.append(guest.describe(made.descriptor))
    begin()
    guest.send(b"".join(data))
    guest.settle()


def patterns(places: Places, begin: Callable[[], None], pattern: str = "/*/7") -> None:
    """Join and leave one pattern, with an object of each of many types."""
    maker = Raw(places, "maker")
    for kind in many_types(990):
        maker.send(maker.take(kind(id=7)))
    maker.settle()
    guest = Raw(places)
    begin()
    once = guest.join(pattern) + guest.leave(pattern)
    guest.send(once * (246_000 // len(once)))
    guest.settle()


def everything(places: Places, begin: Callable[[], None]) -> None:
    """The same with the pattern that selects all."""
    patterns(places, begin, "/...")


def own_subjects(places: Places, begin: Callable[[], None]) -> None:
    """The same with a pattern that has wild cards at many levels, and subjects of as many."""
    maker = Raw(places, "maker")
    for number in range(20_000):
        maker.send(maker.take(Boat(id=number), subject="/" + "/".join("ab" * 30) + f"/{number}"))
    maker.settle()
    guest = Raw(places)
    begin()
    for number in range(40):
        guest.send(guest.join("/" + "/".join(["*"] * 60) + f"/{number}"))
    for number in range(20_000):
        maker.send(maker.take(Boat(id=number), subject="/" + "/".join("ba" * 30) + f"/{number}"))
    guest.settle()
    maker.settle()


def likes(places: Places, begin: Callable[[], None], needle: str = "b") -> None:
    """As many subscriptions as there can be that look for something in a long text."""
    guests = [Raw(places, f"guest-{number}") for number in range(20)]
    maker = Raw(places, "maker")
    maker.send(maker.take(Boat(id=0)))
    maker.settle()
    for guest in guests:
        for number in range(25):
            where = f"name like '%{'_' * 400}{needle}%'"
            guest.send(guest.join("Boat", subscription_id=number + 1, filter_=_filter(where)))
        guest.settle()
    begin()
    for _ in _rounds():
        maker.send(maker.take(Boat(id=1, name="a" * 32_000)))
        maker.send(maker.take(Boat(id=1, name="a" * 65_000)))
        maker.settle()


def like_searches(places: Places, begin: Callable[[], None]) -> None:
    """The same with what takes longest to search for."""
    likes(places, begin, "ab")


def long_texts(places: Places, begin: Callable[[], None]) -> None:
    """Thousands of comparisons with a text of hundreds of kilobytes."""
    guests, maker = [Raw(places, f"guest-{number}") for number in range(10)], Raw(places, "maker")
    maker.send(maker.take(Boat(id=0)))
    maker.settle()
    where = _filter(" or ".join(f"name {test}" for test in ("= 'x'", "like '_x%'", "> 'b'") * 6))
    for guest in guests:
        for number in range(500):
            guest.send(guest.join("Boat", subscription_id=number + 1, filter_=where))
        guest.settle()
    begin()
    for _ in _rounds():
        maker.send(maker.take(Boat(id=1, name="a" * 32_000)))
        maker.send(maker.take(Boat(id=1, name="a" * 250_000)))
        maker.settle()


def large_objects(places: Places, begin: Callable[[], None]) -> None:
    """Hundreds of conditions on objects of megabytes, on fields that are behind or missing."""
    kind = skerry.define_types(
        "struct Large { 1: [key] uint32 id; 2: vector<uint8> values; 3: int32 last; 4: bool no; }"
    ).Large
    guests, maker = [Raw(places, f"guest-{number}") for number in range(5)], Raw(places, "maker")
    maker.send(maker.take(kind(id=0)))
    maker.settle()
    for guest in guests:
        for number in range(100):
            condition = make_filter(kind.descriptor, "no = true" if number % 2 else "last = 1")
            guest.send(guest.join("Large", subscription_id=number + 1, filter_=condition))
        guest.settle()
    data = maker.take(kind(id=1, values=[1] * 1_000_000, last=5))
    begin()
    for _ in _rounds():
        maker.send(data)
        maker.settle()


def conditions(places: Places, begin: Callable[[], None]) -> None:
    """Long lists and deep brackets in conditions, and many updates."""
    guests = [Raw(places, f"guest-{number}") for number in range(5)]
    maker = Raw(places, "maker")
    maker.send(maker.take(Boat(id=0)))
    maker.settle()
    begin()
    values = ", ".join(str(number) for number in range(10_000))
    deep = "(" * 30 + "speed > 3 or not speed < 2" + ")" * 30
    wide = " or ".join(f"speed = {number}" for number in range(100))
    for guest in guests:
        for number, where in enumerate((f"speed in ({values})", deep, wide) * 30):
            guest.send(guest.join("Boat", subscription_id=number + 1, filter_=_filter(where)))
        guest.settle()
    for number in range(2000):
        maker.send(maker.take(Boat(id=number % 100, speed=number)))
    maker.settle()


def views(places: Places, begin: Callable[[], None]) -> None:
    """Open filtered subscriptions to many objects, and close them before they are answered."""
    maker = Raw(places, "maker")
    _fill(maker, 200_000)
    guest = Raw(places)
    begin()
    for round_ in _rounds():
        # One of them selects nothing, the other all.
        condition = _filter("speed > 100000" if round_ % 2 else "speed >= 0")
        for number in range(20):
            guest.send(guest.join("Boat", subscription_id=1, filter_=condition))
            if number % 3:
                guest.send(guest.leave("Boat", subscription_id=1))
        guest.settle()


def cleanup(places: Places, begin: Callable[[], None]) -> None:
    """500 programs with 1000 objects each end together."""
    guests = [Raw(places, f"guest-{number}") for number in range(500)]
    for number, guest in enumerate(guests):
        guest.send(b"".join(guest.take(Guard(id=number * 1000 + i)) for i in range(1000)))
    for guest in guests:
        guest.settle()
    begin()
    for guest in guests:
        guest.socket.shutdown(socket.SHUT_RDWR)
    time.sleep(5)


def clearing(places: Places, begin: Callable[[], None]) -> None:
    """Clear a type with many objects, and many types."""
    maker = Raw(places, "maker")
    _fill(maker, 300_000)
    kinds = many_types(300)
    for kind in kinds:
        maker.send(b"".join(maker.take(kind(id=i)) for i in range(100)))
    maker.settle()
    begin()
    names = ["Boat", *(kind.descriptor.name for kind in kinds)]
    maker.send(maker.message("DotsClearCache", typeNames=names) * 20)
    maker.settle()


def removing(places: Places, begin: Callable[[], None]) -> None:
    """Remove many objects one by one while others listen."""
    maker, readers = Raw(places, "maker"), [Raw(places, f"reader-{n}") for n in range(20)]
    _fill(maker, 50_000)
    for reader in readers:
        reader.send(reader.join("Boat"))
        reader.settle()
    data = b"".join(maker.take(Boat(id=number), is_remove=True) for number in range(50_000))
    begin()
    maker.send(data)
    maker.settle()


def tiny_frames(places: Places, begin: Callable[[], None]) -> None:
    """As many of the smallest frames as go through a socket, cached, with subscribers."""
    makers = [Raw(places, f"maker-{number}") for number in range(4)]
    readers = [Raw(places, f"reader-{number}") for number in range(100)]
    for reader in readers:
        reader.send(reader.join("Boat"))
        reader.settle()
    data = [b"".join(maker.take(Boat(id=i % 100)) for i in range(3000)) for maker in makers]
    begin()
    for _ in range(10):
        for maker, text in zip(makers, data, strict=True):
            threading.Thread(target=maker.send, args=(text,)).start()
        for maker in makers:
            maker.settle()


def claims(places: Places, begin: Callable[[], None]) -> None:
    """Claim as many objects as is allowed, and go."""
    maker = Raw(places, "maker")
    maker.send(maker.take(Boat(id=0)))
    watcher = Raw(places, "watcher")
    watcher.send(watcher.join("SkerryHolder"))
    begin()
    event = internal_class("SkerryClaimEvent")["claim"]
    for round_ in _rounds():
        guest = Raw(places, f"guest-{round_}")
        data = b"".join(
            guest.message(
                "SkerryClaim",
                number=number + 1,
                event=event,
                typeName="Boat",
                object=Boat(id=number).encode(),
            )
            for number in range(4096)
        )
        guest.send(data)
        guest.settle()
        guest.close()
    time.sleep(0.5)


def requests(places: Places, begin: Callable[[], None]) -> None:
    """Send requests that no program answers."""
    guest = Raw(places)
    guest.send(guest.take(Boat(id=0)))
    begin()
    data = b"".join(
        guest.message(
            "SkerryRequest",
            number=number + 1,
            typeName="Boat",
            object=Boat(id=1).encode(),
            timeout=5.0,
        )
        for number in range(20_000)
    )
    guest.send(data)
    guest.settle()


def joins(places: Places, begin: Callable[[], None]) -> None:
    """Hundreds of clients join a large type at the same time, and some read slowly."""
    maker = Raw(places, "maker")
    _fill(maker, 20_000)
    guests = [Raw(places, f"guest-{number}") for number in range(200)]
    begin()
    for guest in guests:
        guest.send(guest.join("Boat"))
    for guest in guests:
        guest.settle()


def groups(places: Places, begin: Callable[[], None]) -> None:
    """Clients in thousands of groups leave together."""
    guests = [Raw(places, f"guest-{number}") for number in range(10)]
    for number, guest in enumerate(guests):
        guest.send(b"".join(guest.join(f"/*/{number}/{n}") for n in range(5000)))
        guest.settle()
    begin()
    for guest in guests:
        guest.socket.shutdown(socket.SHUT_RDWR)
    time.sleep(2)


def slots(places: Places, begin: Callable[[], None]) -> None:
    """A client that does not read, and conflates many objects."""
    maker, guest = Raw(places, "maker"), Raw(places, reads=False)
    guest.send(guest.join("Boat", is_conflated=True))
    begin()
    for _ in range(3):
        _fill(maker, 100_000)
    guest.close()
    time.sleep(0.5)


def slots_left(places: Places, begin: Callable[[], None]) -> None:
    """The same, and the client leaves and joins the groups again and again."""
    maker, guest = Raw(places, "maker"), Raw(places, reads=False)
    where = _filter("speed >= 0")
    guest.send(guest.join("/Boat/...", is_conflated=True))
    guest.send(guest.join("Boat", subscription_id=1, filter_=where, is_conflated=True))
    begin()
    for _ in _rounds():
        _fill(maker, 100_000)
        guest.send(guest.leave("/Boat/...") + guest.leave("Boat", subscription_id=1))
        guest.send(guest.join("/Boat/...", is_conflated=True))
        guest.send(guest.join("Boat", subscription_id=1, filter_=where, is_conflated=True))
    guest.close()
    time.sleep(0.5)


def reloads(places: Places, begin: Callable[[], None]) -> None:
    """The configuration is read again while hundreds of clients have many groups and types."""
    guests = [Raw(places, f"guest-{number}") for number in range(300)]
    kinds = many_types(100)
    for number, guest in enumerate(guests):
        guest.send(b"".join(guest.describe(kind.descriptor) for kind in kinds))
        guest.send(b"".join(guest.join(f"/*/{number}/{n}") for n in range(100)))
    for guest in guests:
        guest.settle()
    begin()
    for _ in _rounds():
        os.kill(places.pid, signal.SIGHUP)
        time.sleep(0.5)


def visitors(places: Places, begin: Callable[[], None]) -> None:
    """Hundreds of clients connect and disconnect, again and again."""
    begin()
    for _ in _rounds():
        guests = [Raw(places, f"guest-{number}", reads=False) for number in range(100)]
        for guest in guests:
            guest.close()


def ledgers(places: Places, begin: Callable[[], None]) -> None:
    """Clients watch the ledger of thousands of types and hundreds of clients."""
    makers = [Raw(places, f"maker-{number}") for number in range(5)]
    for number, maker in enumerate(makers):
        for kind in many_types(900, f"Kind{number}"):
            maker.send(maker.take(kind(id=1)))
        maker.settle()
    guests = [Raw(places, f"guest-{number}") for number in range(200)]
    begin()
    for guest in guests:
        guest.send(guest.join("SkerryLedger"))
    for _ in _rounds():
        for guest in guests[:20]:
            guest.send(guest.leave("SkerryLedger") + guest.join("SkerryLedger"))
            guest.settle()


def large_vectors(places: Places, begin: Callable[[], None]) -> None:
    """Objects of ten megabytes with as many values as possible, of several kinds."""
    maker, reader = Raw(places, "maker"), Raw(places, "reader")
    data = []
    for kind, value, count in (("uint8", 1, 9), ("float16", 1.5, 3), ("string", "", 9)):
        name = f"Sheet{kind.title()}"
        types = skerry.define_types(
            f"struct Row{kind} {{ 1: vector<{kind}> cells; }}"
            f"struct {name} {{ 1: [key] uint32 id; 2: vector<Row{kind}> rows; }}"
        )
        row = getattr(types, f"Row{kind}")(cells=[value] * 900_000)
        data.append(maker.take(getattr(types, name)(id=1, rows=[row] * count)))
        reader.send(reader.join(name))
    reader.settle()
    begin()
    for _ in _rounds():
        for large in data:
            maker.send(large)
            maker.settle()


def large_updates(places: Places, begin: Callable[[], None]) -> None:
    """Small updates of an object of ten megabytes, with a reader of some of its fields."""
    types, large = _sheet()
    maker, reader = Raw(places, "maker"), Raw(places, "reader")
    maker.send(maker.take(large))
    maker.settle()
    fields = make_filter(types.Sheet.descriptor, None, ["a"])
    reader.send(reader.join("Sheet", subscription_id=1, filter_=fields))
    reader.settle()
    data = b"".join(maker.take(types.Sheet(id=1, a=str(number))) for number in range(200))
    begin()
    for _ in _rounds():
        maker.send(data)
        maker.settle()


def large_fields(places: Places, begin: Callable[[], None]) -> None:
    """Hundreds of subscriptions to the small fields of objects of ten megabytes."""
    types, large = _sheet()
    guests, maker = [Raw(places, f"guest-{number}") for number in range(5)], Raw(places, "maker")
    maker.send(maker.take(types.Sheet(id=0)))
    maker.settle()
    for guest in guests:
        for number in range(100):
            fields = make_filter(types.Sheet.descriptor, None, ["a", "b", "c"][: 1 + number % 3])
            guest.send(guest.join("Sheet", subscription_id=number + 1, filter_=fields))
        guest.settle()
    data = maker.take(large)
    begin()
    for _ in _rounds():
        maker.send(data)
        maker.settle()


def large_readers(places: Places, begin: Callable[[], None]) -> None:
    """Clients that read objects of ten megabytes by an older definition."""
    types, large = _sheet()
    maker = Raw(places, "maker")
    maker.send(maker.take(types.Sheet(id=0)))
    maker.settle()
    older = skerry.define_types(
        "struct Row { 1: vector<uint8> cells; }"
        "struct Sheet { 1: [key] uint32 id; 2: vector<Row> rows; 3: string a; }"
    ).Sheet
    for number in range(10):
        guest = Raw(places, f"guest-{number}", extensions=0)
        guest.send(guest.describe(older.descriptor) + guest.join("Sheet"))
        guest.settle()
    data = maker.take(large)
    begin()
    for _ in _rounds():
        maker.send(data)
        maker.settle()


def _sheet() -> tuple[Any, Any]:
    """A type, and an object of it with nine million values."""
    types = skerry.define_types(
        "struct Row { 1: vector<uint8> cells; }"
        "struct Sheet {"
        " 1: [key] uint32 id; 2: vector<Row> rows; 3: string a; 4: string b; 5: string c; }"
    )
    row = types.Row(cells=[1] * 900_000)
    return types, types.Sheet(id=1, rows=[row] * 10, a="a", b="b")


def long_keys(places: Places, begin: Callable[[], None]) -> None:
    """Keys of a megabyte, in subjects that are looked at."""
    maker, guest = Raw(places, "maker"), Raw(places)
    guest.send(guest.join("/Named/x"))
    guest.settle()
    begin()
    for number in range(30):
        maker.send(maker.take(Named(name="/~" * 500_000 + str(number % 3), number=number)))
    maker.settle()


def web_publish(places: Places, begin: Callable[[], None]) -> None:
    """Objects of megabytes as JSON."""

    async def scene() -> None:
        guest = await Web.connect(places)
        await guest.describe(Bulk.descriptor)
        numbers = ", ".join(f"{number}.25" for number in range(900_000))
        words = ", ".join('"word"' for _ in range(900_000))
        begin()
        for text in (f'"values": [{numbers}]', f'"words": [{words}]'):
            for number in range(3):
                header = '{"typeName": "Bulk", "attributes": 14}'
                await guest.send(f'[{header}, {{"id": {number}, {text}}}]')
        await guest.settle()

    asyncio.run(scene())


def web_subscribe(places: Places, begin: Callable[[], None]) -> None:
    """Objects of megabytes for subscribers by WebSocket."""

    async def scene() -> None:
        guests = [await Web.connect(places) for _ in range(3)]
        maker = Raw(places, "maker")
        maker.send(maker.describe(Bulk.descriptor))
        maker.settle()
        for guest in guests:
            await guest.join("Bulk")
        begin()
        large = Bulk(id=1, values=[number + 0.25 for number in range(900_000)])
        words = Bulk(id=2, words=["word"] * 900_000)
        for obj in (large, words):
            await asyncio.to_thread(maker.send, maker.take(obj))
            await asyncio.to_thread(maker.settle)
        for guest in guests:
            await guest.settle()

    asyncio.run(scene())


def web_nesting(places: Places, begin: Callable[[], None]) -> None:
    """JSON that takes long to parse: small objects, unknown names, `inf`, and deep brackets."""
    texts = [
        ", ".join(['{"a": {"b": [{"c": 1}]}}'] * 300_000),
        ", ".join(["inf"] * 900_000),
        ", ".join(["[" * 40 + "]" * 40] * 80_000),
        '"' + "\\n" * 4_000_000 + '"',
    ]

    async def scene() -> None:
        guest = await Web.connect(places)
        await guest.describe(Bulk.descriptor)
        begin()
        header = '{"typeName": "Bulk", "attributes": 2}'
        for text in texts:
            await guest.send(f'[{header}, {{"id": 1, "more": [{text}]}}]')
        await guest.settle()

    asyncio.run(scene())


def web_messages(places: Places, begin: Callable[[], None]) -> None:
    """A thousand small messages of JSON in each packet."""

    async def scene() -> None:
        guest = await Web.connect(places)
        await guest.describe(Boat.descriptor)
        begin()
        header = '{"typeName": "Boat", "attributes": 10}'
        for _ in range(30):
            await guest.send(*(f'[{header}, {{"id": {n}, "speed": 3}}]' for n in range(1000)))
        await guest.settle()

    asyncio.run(scene())


class Web:
    """A guest by WebSocket, which makes its frames itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = b""
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, places: Places) -> Web:
        host, _, port = places.websocket.removeprefix("ws://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: dots-json\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        made = cls(reader, writer)
        connect = {"clientName": "web", "preloadCache": False}
        await made.send(json.dumps([{"typeName": "DotsMsgConnect", "attributes": 6}, connect]))
        return made

    async def send(self, *texts: str) -> None:
        data = bytearray()
        for text in texts:
            payload = text.encode()
            size = len(payload)
            if size < 126:
                head = struct.pack("!BB", 0x81, 0x80 | size)
            elif size < 65536:
                head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
            else:
                head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
            data += head + bytes(4) + payload
        self._writer.write(bytes(data))
        await self._writer.drain()

    async def describe(self, type_: Any) -> None:
        from skerry.objects.descriptors import describe
        from skerry.protocol.access.json.objects import object_text

        obj = describe(type_)
        header = {"typeName": obj.descriptor.name, "attributes": int(obj.attributes)}
        text = object_text(codec_of(type(obj)).plan, obj)
        await self.send(f"[{json.dumps(header)}, {text}]")

    async def join(self, group: str) -> None:
        header = {"typeName": "DotsMember", "attributes": 6}
        await self.send(json.dumps([header, {"groupName": group, "event": 1}]))

    async def settle(self) -> None:
        """Wait until the node has read all."""
        echo = {"request": True, "data": "end-of-all", "identifier": 1}
        await self.send(json.dumps([{"typeName": "DotsEcho", "attributes": 14}, echo]))
        await asyncio.wait_for(self._task, PATIENCE_S)

    async def _read(self) -> None:
        while b"end-of-all" not in self._heard:
            data = await self._reader.read(1 << 16)
            if not data:
                return
            self._heard = (self._heard + data)[-100_000:]


def _fill(maker: Raw, count: int) -> None:
    for start in range(0, count, 10_000):
        boats = (Boat(id=start + number, name="b", speed=number) for number in range(10_000))
        maker.send(b"".join(maker.take(boat) for boat in boats))
    maker.settle()


def _rounds() -> Iterator[int]:
    """Counts rounds until an attack has lasted long enough."""
    stop_s, number = time.monotonic() + ATTACK_S, 0
    while time.monotonic() < stop_s:
        yield number
        number += 1


def _filter(where: str) -> Any:
    return make_filter(Boat.descriptor, where)


SHAPES: dict[str, Shape] = {
    shape.__name__: shape
    for shape in (
        nothing,
        descriptors,
        descriptions,
        parts,
        enums,
        patterns,
        everything,
        own_subjects,
        likes,
        like_searches,
        long_texts,
        conditions,
        large_objects,
        views,
        cleanup,
        clearing,
        removing,
        tiny_frames,
        claims,
        requests,
        joins,
        groups,
        slots,
        slots_left,
        reloads,
        visitors,
        ledgers,
        large_vectors,
        large_updates,
        large_fields,
        large_readers,
        long_keys,
        web_publish,
        web_subscribe,
        web_nesting,
        web_messages,
    )
}


if __name__ == "__main__":
    if sys.argv[1:2] == [_ATTACK]:
        _attack(*sys.argv[2:])
    else:
        for chosen in sys.argv[1:] or list(SHAPES):
            print(f"{chosen}: {measure(chosen).text}", flush=True)
