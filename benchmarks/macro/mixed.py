"""A real load: many types in turn, several publishers, and subscribers of different kinds.

Two publishers send 25 000 updates a second each. In the mixed load their updates go through 16
types in turn, with 100 keys each; one of the types is published under ten subjects. One process
subscribes to types 0 to 7, another to types 6 to 13, and a third to one of the subjects and to a
type under a condition that half of its objects meet. No program subscribes to two types. About
one delivery is due for each update.

In the load of one type the same updates are all of one type, for one subscriber. As a node writes
to each subscriber by itself, there is also a load of one type for three subscribers: it shows what
the types cost, and the other what the whole way costs.

The peer is a ZeroMQ broker (XSUB and XPUB) which carries objects encoded with msgspec on topics, as
messages of two parts. It selects by the prefix of the topic; what needs a look at the object, its
subscribers do after decoding. For orientation there is also a leaner form of it, with topic and
object in one part.

What nothing can be cheaper than shows a load of bare sockets: as many processes, on the same loops,
exchange as many bytes in as many reads and writes, and does not examine them.

Each side encodes an object when it is published and reads two fields of the decoded
object in the callback. All loads of both take turns. What counts is the CPU time of the processes
while the measured updates pass, divided by their count.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import mmap
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import skerry
from benchmarks.rows import Row
from skerry import aio
from skerry.runtime.loops import new_loop

TYPE_COUNT = 16
KEY_COUNT = 100
TURN = TYPE_COUNT * KEY_COUNT
"""Updates in which a publisher goes through all of its objects; there are as many of one type."""
RATE = 50_000
"""Updates a second, of both publishers together."""
PUBLISHER_COUNT = 2
TICK_S = 0.002
"""Rounds in which a publisher publishes its share."""
SUBJECT_TYPE, SUBJECT_COUNT = 3, 10
"""The type that is published under subjects."""
FILTER_TYPE = 5
TYPES_OF = (range(8), range(6, 14))
"""The types of the first two subscribers."""
REPETITIONS = 5
WARM_UP_S = 0.5
LOAD_S = 2.0
LAST_S = 10.0
"""Time limit for the arrival of the last updates."""

ONE_TYPE_MOST = 1.5
"""The most that an update of the mixed load may take of the node, beside one of the other load."""
PEER_MOST = {True: 0.45, False: 0.30}
"""The most that the whole way of a cached and of an uncached update may take of the peer's."""
PEERS = {"topics": "pyzmq broker, msgspec", "prefixes": "the same in one part"}
BARE = "bare"
FRAME_BYTES = 96
"""Bytes of one of our frames with such an object, for the load of bare sockets."""

ENDED, COUNTS = 0, 8
"""Places in the page that all share: whether it is over, and what each subscriber received."""


@dataclass(frozen=True, slots=True)
class Load:
    """The published types, and the broker or node."""

    is_mixed: bool
    is_cached: bool
    peer: str = ""
    """`topics`, `prefixes` or `bare`; ours if empty."""
    subscriber_count: int = len(TYPES_OF) + 1

    @property
    def type_count(self) -> int:
        return TYPE_COUNT if self.is_mixed else 1

    def updates(self, publisher: int, count: int) -> Iterator[tuple[int, int]]:
        """Type and key of each update of a publisher."""
        for number in range(count):
            # The publishers are at different types at the same time.
            turn, index = divmod(number + publisher * self.type_count // 2, self.type_count)
            yield index, turn % (TURN // self.type_count)

    def expected(self, count: int) -> list[int]:
        """Deliveries to each subscriber when each publisher has sent so many updates."""
        found = [0] * self.subscriber_count
        for publisher in range(PUBLISHER_COUNT):
            for index, key in self.updates(publisher, count):
                for number in range(self.subscriber_count):
                    found[number] += self.is_wanted(number, index, key)
        return found

    def is_wanted(self, subscriber: int, index: int, key: int) -> bool:
        if not self.is_mixed:
            return True
        if subscriber < len(TYPES_OF):
            return index in TYPES_OF[subscriber]
        if index == SUBJECT_TYPE:
            return key % SUBJECT_COUNT == 0
        return index == FILTER_TYPE and is_selected(key)


def bid_of(key: int) -> float:
    return 100.0 + key % 2


def is_selected(key: int) -> bool:
    return bid_of(key) > 100.5


# -- ours


def types(load: Load) -> Any:
    flag = "" if load.is_cached else " [cached=false]"
    return skerry.define_types(
        "\n".join(
            f"""struct Mixed{index}{flag} {{
                1: [key] uint32 id; 2: uint64 seq; 3: timepoint time; 4: float64 bid;
                5: float64 ask; 6: float64 size; 7: string venue;
            }}"""
            for index in range(load.type_count)
        )
    )


def facts(key: int) -> dict[str, Any]:
    """The fields of an object: 56 bytes as we encode it."""
    return {
        "id": key,
        "seq": 0,
        "time": 1_700_000_000.123456,
        "bid": bid_of(key),
        "ask": 101.5,
        "size": 2500.0,
        "venue": "ABC",
    }


def look(obj: Any) -> None:
    """The work of a callback with an object."""
    if obj.ask < 0.0 or obj.seq < 0:
        raise ValueError("no publisher sent this")


async def publish_ours(load: Load, place: dict[str, Any], number: int) -> None:
    known = types(load)
    async with await aio.connect(
        place["endpoint"], name=f"publisher{number}", types=known
    ) as space:
        made = objects(load, [getattr(known, f"Mixed{index}") for index in range(load.type_count)])
        ring: list[tuple[Any, str]] = []
        for index, key in load.updates(number, TURN):
            has_subject = load.is_mixed and index == SUBJECT_TYPE
            subject = f"/zone/{key % SUBJECT_COUNT}/price" if has_subject else ""
            ring.append((made[index, key], subject))
        publish = space.publish

        def send(share: list[tuple[Any, str]]) -> None:
            for obj, subject in share:
                obj.seq += 1
                if subject:
                    publish(obj, subject=subject)
                else:
                    publish(obj)

        await pace(ring, send, asyncio.sleep)
        await space.flush()


def objects(load: Load, classes: list[Any]) -> dict[tuple[int, int], Any]:
    """All objects, by type and key."""
    return {
        (index, key): cls(**facts(key))
        for index, cls in enumerate(classes)
        for key in range(TURN // load.type_count)
    }


async def pace(
    ring: list[Any], send: Callable[[list[Any]], None], sleep: Callable[[float], Any]
) -> None:
    """Publish a share of the updates in each tick, as many as the parent says, whenever it does."""
    print("ready", flush=True)
    size = int(RATE * TICK_S) // PUBLISHER_COUNT
    shares = [ring[start : start + size] for start in range(0, TURN, size)]
    while line := sys.stdin.readline():
        due_s = time.monotonic()
        for _ in range(int(line)):
            for share in shares:
                send(share)
                due_s += TICK_S
                await sleep(max(0.0, due_s - time.monotonic()))
        print("sent", flush=True)


async def subscribe_ours(load: Load, place: dict[str, Any], page: memoryview, number: int) -> None:
    known = types(load)
    count = 0

    def on_event(event: Any) -> None:
        nonlocal count
        look(event.object)
        count += 1

    async with await aio.connect(
        place["endpoint"], name=f"subscriber{number}", types=known
    ) as space:
        if not load.is_mixed:
            space.subscribe(known.Mixed0, on_event)
        elif number < len(TYPES_OF):
            for index in TYPES_OF[number]:
                space.subscribe(getattr(known, f"Mixed{index}"), on_event)
        else:
            space.subscribe("/zone/0/...", on_event)
            space.subscribe(getattr(known, f"Mixed{FILTER_TYPE}"), on_event, where="bid > 100.5")
        await space.flush()
        print("ready", flush=True)
        while not page[ENDED]:
            await asyncio.sleep(0.01)
            page[COUNTS + number] = count


# -- the peer


def peer_classes(load: Load) -> list[Any]:
    msgspec = importlib.import_module("msgspec")
    fields = [
        *(("id", int), ("seq", int), ("time", float), ("bid", float)),
        *(("ask", float), ("size", float), ("venue", str)),
    ]
    return [
        msgspec.defstruct(f"Mixed{index}", fields, gc=False) for index in range(load.type_count)
    ]


def topic_of(index: int, key: int) -> bytes:
    """Of one type the topic has the subject in it; a topic ends with a zero."""
    subject = f"/{key % SUBJECT_COUNT}" if index == SUBJECT_TYPE else ""
    return f"Mixed{index:02d}{subject}\0".encode()


async def publish_theirs(load: Load, place: dict[str, Any], number: int) -> None:
    zmq, msgspec = importlib.import_module("zmq"), importlib.import_module("msgspec")
    context = zmq.Context()
    out = context.socket(zmq.PUB)
    out.set(zmq.SNDHWM, 100_000)
    out.set(zmq.XPUB_NODROP, 1)
    out.connect(place["in"])
    made = objects(load, peer_classes(load))
    updates = load.updates(number, TURN)
    ring = [(made[index, key], topic_of(index, key)) for index, key in updates]
    encode, emit, emit_parts = msgspec.msgpack.Encoder().encode, out.send, out.send_multipart

    def send_parts(share: list[tuple[Any, bytes]]) -> None:
        for obj, topic in share:
            obj.seq += 1
            emit_parts((topic, encode(obj)))

    def send_prefixed(share: list[tuple[Any, bytes]]) -> None:
        for obj, topic in share:
            obj.seq += 1
            emit(topic + encode(obj))

    async def sleep(seconds: float) -> None:
        # There is nothing else on the loop.
        time.sleep(seconds)  # noqa: ASYNC251

    # A PUB socket drops what it is given before it knows of subscribers.
    await sleep(0.5)
    await pace(ring, send_parts if load.peer == "topics" else send_prefixed, sleep)
    context.destroy(1000)


async def subscribe_theirs(
    load: Load, place: dict[str, Any], page: memoryview, number: int
) -> None:
    zmq, msgspec = importlib.import_module("zmq"), importlib.import_module("msgspec")
    context = zmq.Context()
    into = context.socket(zmq.SUB)
    into.set(zmq.RCVHWM, 100_000)
    for prefix in peer_prefixes(load, number):
        into.set(zmq.SUBSCRIBE, prefix)
    into.connect(place["out"])
    decoders = {
        f"Mixed{index:02d}".encode(): msgspec.msgpack.Decoder(cls).decode
        for index, cls in enumerate(peer_classes(load))
    }
    filtered = f"Mixed{FILTER_TYPE:02d}".encode() if number == len(TYPES_OF) else b""
    count = 0

    def on_message(topic: bytes, body: bytes) -> None:
        nonlocal count
        obj = decoders[topic[:7]](body)
        if topic[:7] == filtered and obj.bid <= 100.5:
            return
        look(obj)
        count += 1

    print("ready", flush=True)
    receive, receive_parts, at_once = into.recv, into.recv_multipart, zmq.NOBLOCK
    while not page[ENDED]:
        if into.poll(10):
            with suppress(zmq.Again):
                while load.peer == "topics":
                    topic, body = receive_parts(at_once)
                    on_message(topic, body)
                while True:
                    topic, _, body = receive(at_once).partition(b"\0")
                    on_message(topic, body)
        page[COUNTS + number] = count
    context.destroy(0)


def peer_prefixes(load: Load, number: int) -> list[bytes]:
    if not load.is_mixed:
        return [b"Mixed00"]
    if number < len(TYPES_OF):
        return [f"Mixed{index:02d}".encode() for index in TYPES_OF[number]]
    return [topic_of(SUBJECT_TYPE, 0), topic_of(FILTER_TYPE, 0)]


def run_broker(place: dict[str, Any]) -> None:
    zmq = importlib.import_module("zmq")
    context = zmq.Context()
    front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    for end in (front, back):
        end.set(zmq.SNDHWM, 100_000)
        end.set(zmq.RCVHWM, 100_000)
    back.set(zmq.XPUB_NODROP, 1)
    back.bind(place["out"])
    front.bind(place["in"])
    zmq.proxy(front, back)


# -- bare sockets


async def publish_bare(load: Load, place: dict[str, Any], number: int) -> None:
    del load, number
    out = connect_bare(place["in"], b"p")
    await pace(
        [bytes(FRAME_BYTES)] * TURN, lambda share: out.sendall(b"".join(share)), asyncio.sleep
    )


async def subscribe_bare(load: Load, place: dict[str, Any], page: memoryview, number: int) -> None:
    del load
    into = connect_bare(place["in"], bytes((number,)))
    room = memoryview(bytearray(65536))
    size = 0

    def receive() -> None:
        nonlocal size
        size += into.recv_into(room)

    asyncio.get_running_loop().add_reader(into, receive)
    print("ready", flush=True)
    while not page[ENDED]:
        await asyncio.sleep(0.01)
        page[COUNTS + number] = size // FRAME_BYTES


def connect_bare(endpoint: str, greeting: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(greeting)
    made.setblocking(False)
    return made


async def run_bare_broker(load: Load, place: dict[str, Any]) -> None:
    """Forwards to each subscriber as many bytes as its share of the updates has."""
    room = memoryview(bytearray(65536))
    shares = load.expected(TURN)
    subscribers: dict[int, asyncio.Transport] = {}
    sent = [0] * len(shares)
    received = 0

    class Door(asyncio.BufferedProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.is_greeted = False
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def get_buffer(self, sizehint: int) -> memoryview:
            return room

        def buffer_updated(self, nbytes: int) -> None:
            nonlocal received
            if not self.is_greeted:
                self.is_greeted = True
                if room[0] != ord("p"):
                    subscribers[room[0]] = self.transport
                nbytes -= 1
            received += nbytes
            data = bytes(room[:nbytes])
            for number, share in enumerate(shares):
                due = received * share // (TURN * PUBLISHER_COUNT)
                if due > sent[number]:
                    subscribers[number].write(data[: due - sent[number]])
                    sent[number] = due

    port = int(place["in"].rpartition(":")[2])
    server = await asyncio.get_running_loop().create_server(Door, "127.0.0.1", port)
    await server.serve_forever()


# -- the processes


def child() -> None:
    env = json.loads(sys.argv[1])
    load, place, number = Load(**env["load"]), env["place"], env["number"]
    if env["role"] == "broker":
        if load.peer == BARE:
            new_loop().run_until_complete(run_bare_broker(load, place))
        run_broker(place)
        return
    with Path(env["page"]).open("r+b") as file:
        page = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
    if env["role"] == "publisher":
        publish = {"": publish_ours, BARE: publish_bare}.get(load.peer, publish_theirs)
        work = publish(load, place, number)
    else:
        subscribe = {"": subscribe_ours, BARE: subscribe_bare}.get(load.peer, subscribe_theirs)
        work = subscribe(load, place, page, number)
    new_loop().run_until_complete(work)


def measure(load: Load, seconds: float = LOAD_S) -> dict[str, float]:
    """CPU microseconds of each part for one update."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory())
        page_file = Path(folder, "page")
        page_file.write_bytes(bytes(4096))
        with page_file.open("r+b") as file:
            page = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
        ports = free_ports(2)
        place = {
            "endpoint": f"tcp://127.0.0.1:{ports[0]}",
            "in": f"tcp://127.0.0.1:{ports[0]}",
            "out": f"tcp://127.0.0.1:{ports[1]}",
        }
        env = {"load": asdict(load), "place": place, "page": str(page_file)}

        def start(role: str, number: int = 0) -> subprocess.Popen[str]:
            arguments = json.dumps({**env, "role": role, "number": number})
            command = [sys.executable, "-P", __file__, arguments]
            if role == "broker" and not load.peer:
                command = [sys.executable, "-P", "-m", "skerry", "node", "run"]
                command += ["--listen", place["endpoint"]]
            is_broker = role == "broker"
            process = subprocess.Popen(
                command,
                text=True,
                stdin=subprocess.DEVNULL if is_broker else subprocess.PIPE,
                stdout=subprocess.DEVNULL if is_broker else subprocess.PIPE,
                stderr=subprocess.DEVNULL if is_broker else None,
            )
            held.callback(end, process)
            return process

        broker = start("broker")
        wait_for_port(ports[0])
        subscribers = [start("subscriber", index) for index in range(load.subscriber_count)]
        for process in subscribers:
            expect(process, "ready")
        publishers = [start("publisher", index) for index in range(PUBLISHER_COUNT)]
        for process in publishers:
            expect(process, "ready")
        parts = {"publishers": publishers, "node": [broker], "subscribers": subscribers}
        expected = [0] * load.subscriber_count
        before: dict[str, float] = {}
        count = 0
        for phase_s in (WARM_UP_S, seconds):
            turns = max(1, round(RATE / PUBLISHER_COUNT * phase_s / TURN))
            count = turns * TURN
            more = [turns * each for each in load.expected(TURN)]
            expected = [a + b for a, b in zip(expected, more, strict=True)]
            before = {part: cpu_s(processes) for part, processes in parts.items()}
            for process in publishers:
                say(process, str(turns))
            for process in publishers:
                expect(process, "sent")
            wait_for_counts(page, expected)
        after = {part: cpu_s(processes) for part, processes in parts.items()}
        page[ENDED] = 1
        return {
            part: (after[part] - before[part]) * 1e6 / (count * PUBLISHER_COUNT) for part in parts
        }


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def expect(process: subprocess.Popen[str], word: str) -> None:
    stream: IO[str] | None = process.stdout
    assert stream is not None
    line = stream.readline().strip()
    if line != word:
        raise RuntimeError(f"a process said {line!r} in place of {word!r}")


def wait_for_counts(page: memoryview, expected: list[int]) -> None:
    stop_s = time.monotonic() + LAST_S
    places = range(COUNTS, COUNTS + len(expected))
    while [page[at] for at in places] != expected:
        if time.monotonic() > stop_s:
            found = [page[at] for at in places]
            raise RuntimeError(f"subscribers received {found} updates, not {expected}")
        time.sleep(0.01)


def wait_for_port(port: int) -> None:
    stop_s = time.monotonic() + LAST_S
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        if time.monotonic() > stop_s:
            raise RuntimeError(f"nothing listens at port {port}")
        time.sleep(0.02)


def cpu_s(processes: list[subprocess.Popen[str]]) -> float:
    """CPU time of all threads so far, to the nanosecond."""
    found = 0
    for process in processes:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            found += int((task / "schedstat").read_text().split()[0])
    return found / 1e9


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for made in sockets:
        made.bind(("127.0.0.1", 0))
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


# -- the rows


def run() -> list[Row]:
    """Node and whole way, of both loads, cached and uncached."""
    has_peer = all(importlib.util.find_spec(name) for name in ("zmq", "msgspec"))
    mixed = {cached: Load(True, cached) for cached in (True, False)}
    single = {cached: Load(False, cached, subscriber_count=1) for cached in (True, False)}
    crowd = {cached: Load(False, cached) for cached in (True, False)}
    ours = [*mixed.values(), *single.values(), *crowd.values()]
    # The peer keeps no objects, so there is one load of it for both.
    theirs = {peer: (Load(True, False, peer), Load(False, False, peer, 1)) for peer in PEERS}
    bare = {True: Load(True, False, BARE), False: Load(False, False, BARE, 1)}
    loads = [*ours, *bare.values()]
    if has_peer:
        for pair in theirs.values():
            loads += pair
    found: dict[Load, list[dict[str, float]]] = {load: [] for load in loads}
    for _ in range(REPETITIONS):
        for load, figures in found.items():
            figures.append(measure(load))
            print(f"  {load}: {figures[-1]}", file=sys.stderr, flush=True)
    rows = []
    for cached, what in ((True, "cached"), (False, "uncached")):
        node = median(found[mixed[cached]], "node")
        for load, peer, goal in (
            (crowd[cached], "1 type, 3 subscribers", ONE_TYPE_MOST),
            (single[cached], "1 type, 1 subscriber", None),
        ):
            rows.append(
                Row(
                    name=f"mixed, node, 16 types, {what}",
                    ours=node,
                    theirs=median(found[load], "node"),
                    peer=peer,
                    unit="us CPU",
                    goal=goal,
                    is_less_better=True,
                )
            )
        for load, name in ((mixed[cached], "16 types"), (single[cached], "1 type")):
            rows.append(
                Row(
                    name=f"mixed, whole way, {name}, {what}",
                    ours=median(found[load]),
                    theirs=median(found[bare[load.is_mixed]]),
                    peer="bare sockets",
                    unit="us CPU",
                    goal=None,
                    is_less_better=True,
                )
            )
        for peer, pair in theirs.items():
            for load, other, name in zip(
                (mixed[cached], single[cached]), pair, ("16 types", "1 type"), strict=True
            ):
                has_goal = has_peer and load.is_mixed and peer == "topics"
                rows.append(
                    Row(
                        name=f"mixed, whole way, {name}, {what}",
                        ours=median(found[load]),
                        theirs=median(found[other]) if has_peer else None,
                        peer=PEERS[peer],
                        unit="us CPU",
                        goal=PEER_MOST[cached] if has_goal else None,
                        is_less_better=True,
                    )
                )
    return rows


def median(figures: list[dict[str, float]], part: str = "") -> float:
    """Of one part, or of all together."""
    return statistics.median(figure[part] if part else sum(figure.values()) for figure in figures)


if __name__ == "__main__":
    child()
