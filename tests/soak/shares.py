"""Strangers of several addresses use up all that a real node gives them, and hold on to it.

Some have no permission at all, others may publish and subscribe. They open connections and say
nothing, begin frames and messages and do not finish them, make up groups, patterns, conditions,
types and objects, and do not read. Meanwhile a client of a Unix socket, one that knows a secret and
one of another address come again and again, describe a type, subscribe, publish and flush. All of
that must go on, the memory of the node must stay within a bound, and what the strangers had must be
free again when they are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from skerry import define_types
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, ClientConnection, Rejected
from skerry.protocol.access.connection import ConnectionBroken, ConnectionEnded, ReceivedFrame
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import Header
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.wire import Wire
from skerry.schema.check import define

MINUTES = 5.0
NOBODIES = ("127.0.0.2", "127.0.0.3")
"""Without any permission."""
STRANGERS = ("127.0.0.4", "127.0.0.5", "127.0.0.6")
"""With the permission to publish and to subscribe."""
OTHER, KNOWN = "127.0.0.8", "127.0.0.9"
CONFIG = """
[[node.admission.permission]]
verbs = ["all"]
network = "unix"
[[node.admission.permission]]
verbs = ["publish", "subscribe", "remove"]
network = "127.0.0.4/30"
[[node.admission.permission]]
verbs = ["publish", "subscribe", "remove"]
network = "127.0.0.8/31"
[[node.admission.authentication]]
network = "127.0.0.9"
secret = "sesame"
[node.admission.limits]
connection_count_max = 800
connection_count_per_address_max = 150
unfinished_bytes_per_address_max = 50_000_000
unfinished_bytes_per_node_max = 100_000_000
object_count_per_address_max = 50_000
waiting_bytes_per_address_max = 50_000_000
waiting_bytes_per_node_max = 100_000_000
view_object_count_per_address_max = 500_000
view_object_count_per_node_max = 1_000_000
"""
RSS_BYTES_MAX = 1500 * 1024 * 1024
"""The sum of what the bounds allow: 9000 types of about 60 KB each with their classes, 90 000
groups of 2 KB, 150 000 objects of 1 KB, a million objects in filtered subscriptions of 150 bytes,
and 200 MB of unfinished frames and bytes to be sent."""
HONEST_S_MAX = 60.0
"""One round of an honest client takes milliseconds, or some seconds while hundreds of strangers
connect before it; the computer may be busy with other things."""
CLEANUP_S_MAX = 5.0
"""In which the node is done with what a client had that is gone."""
VIOLATIONS_MAX = 20
WORKERS = 3
"""Tasks of the strangers of one address."""
HELD_COUNT_MAX = 400
"""Connections that the strangers of one address hold here."""


@dataclass
class Tally:
    seen: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    rss_bytes: int = 0
    slowest_s: float = 0.0


class Peer:
    """One connection, played by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = ClientConnection(
            Wire(), name="", cnonce="c", wants_preload=False, extensions=1
        )
        self.reason = ""
        self.refusals: list[str] = []
        self.received: Counter[str] = Counter()

    @classmethod
    async def reach(cls, place: str, host: str | None = None) -> Peer:
        if host is None:
            return cls(*await asyncio.open_unix_connection(place.removeprefix("uds:")))
        port = int(place.rpartition(":")[2])
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)))

    async def enter(self, name: str, secret: str | None = None) -> bool:
        self.connection = ClientConnection(
            Wire(), name=name, cnonce="c", secret=secret, wants_preload=False, extensions=1
        )
        while self.connection.stage is ConnectionStage.CONNECTING and not self.reason:
            if not await self.hear():
                self.reason = "closed"
        return not self.reason

    async def hear(self) -> bool:
        """Receive the next bytes; False at the end of the stream."""
        data = await self.reader.read(65536)
        for item in self.connection.receive(data, 1.0):
            if isinstance(item, Rejected):
                self.reason = item.reason or "rejected"
            elif isinstance(item, ConnectionEnded):
                self.reason = item.text
            elif isinstance(item, ConnectionBroken):
                self.reason = f"{item.message}: {item.detail}"
            elif isinstance(item, ReceivedFrame):
                self.received[item.header.type_name] += 1
                if item.header.type_name == "SkerryRefusal":
                    refusal: Any = internal_class("SkerryRefusal").decode(item.payload)
                    self.refusals.append(f"{refusal.what}: {refusal.reason}")
            else:
                assert isinstance(item, Accepted), item
        await self.say()
        return bool(data)

    async def say(self) -> None:
        data = self.connection.take_output()
        if data:
            self.writer.write(data)
            await self.writer.drain()

    def publish(self, obj: Any, subject: str = "") -> None:
        header = Header(obj.descriptor.name)
        header.sent_time = 1.0
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        header.subject = subject
        self.connection.send(header, obj.encode(), obj.descriptor, 1.0)

    async def flush(self) -> bool:
        """Wait until the node has processed everything; False if the connection ended before."""
        before = self.received["DotsEcho"]
        self.connection.send_message(internal_class("DotsEcho")(request=True, data="x"), 1.0)
        await self.say()
        while self.received["DotsEcho"] == before:
            if not await self.hear():
                return False
        return True

    def close(self) -> None:
        self.writer.transport.abort()


# -- what strangers do


class Crowd:
    """All that comes from one address."""

    def __init__(self, place: str, host: str, rng: Random, tally: Tally) -> None:
        self.place, self.host, self.rng, self.tally = place, host, rng, tally
        self.held: list[Peer] = []
        self.has_rights = host in STRANGERS
        self.number = 0

    async def run(self) -> None:
        ways = [self.silent, self.unfinished, self.described]
        if self.has_rights:
            ways += [self.grouped, self.patterned, self.viewed, self.typed, self.stuffed]
        try:
            while True:
                while len(self.held) > HELD_COUNT_MAX:
                    self.held.pop(self.rng.randrange(len(self.held))).close()
                way = self.rng.choice(ways)
                with contextlib.suppress(OSError):
                    peer = await Peer.reach(self.place, self.host)
                    self.held.append(peer)
                    await way(peer)
                    self.tally.seen[way.__name__] += 1
                    for reason in (peer.reason, *peer.refusals[:1]):
                        if reason:
                            self.tally.refused[kind_of(reason)] += 1
                await asyncio.sleep(0)
        finally:
            for peer in self.held:
                peer.close()

    async def silent(self, peer: Peer) -> None:
        for _ in range(20):
            if self.rng.random() < 0.5:
                peer.writer.write(b"\x1a\x00\x00\xff\x00" + bytes(self.rng.randrange(60_000)))
            peer = await Peer.reach(self.place, self.host)
            self.held.append(peer)

    async def unfinished(self, peer: Peer) -> None:
        if await self.entered(peer):
            size = 9_000_000 if self.has_rights else 64_000
            peer.writer.write(b"\x1a" + size.to_bytes(4, "big") + bytes(size - 1))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await peer.writer.drain()

    async def described(self, peer: Peer) -> None:
        """Types that it may not use, if it has no rights."""
        await self.types_of(peer, 200)

    async def typed(self, peer: Peer) -> None:
        await self.types_of(peer, 1000)

    async def types_of(self, peer: Peer, count: int) -> None:
        if not await self.entered(peer):
            return
        fields = " ".join(f"{tag}: string field{tag};" for tag in range(2, 12))
        for _ in range(count // 200):
            names = [f"{self.next_name('T')}" for _ in range(200)]
            text = " ".join(f"struct {name} {{ 1: [key] uint32 id; {fields} }}" for name in names)
            for type_ in define(text).types:
                peer.connection.describe(type_, 1.0)
            if not await peer.flush() or peer.refusals:
                return

    async def grouped(self, peer: Peer) -> None:
        await self.join(peer, 5000, lambda: self.next_name("G"))

    async def patterned(self, peer: Peer) -> None:
        await self.join(peer, 2000, lambda: f"/{self.next_name('p')}/*/x")

    async def join(self, peer: Peer, count: int, name: Any) -> None:
        if not await self.entered(peer):
            return
        for _ in range(count // 1000):
            for _ in range(1000):
                peer.connection.join(name(), 1.0)
            if not await peer.flush() or peer.refusals:
                return

    async def viewed(self, peer: Peer) -> None:
        if not await self.entered(peer):
            return
        peer.connection.describe(NOISE.descriptor, 1.0)
        condition = " and ".join(f"id != {n}" for n in range(9))
        for number in range(500):
            wanted = make_filter(NOISE.descriptor, condition, None)
            peer.connection.join("Noise", 1.0, subscription_id=number, filter_=wanted)
            if number % 50 == 0 and (not await peer.flush() or peer.refusals):
                return

    async def stuffed(self, peer: Peer) -> None:
        """Objects of its own, and it reads nothing of what it asked for."""
        if not await self.entered(peer):
            return
        for _ in range(20):
            for _ in range(100):
                peer.publish(NOISE(id=self.next_number(), text="x" * 500))
            if not await peer.flush() or peer.refusals:
                return
        peer.connection.join("Noise", 1.0)
        await peer.say()

    async def entered(self, peer: Peer) -> bool:
        async with asyncio.timeout(HONEST_S_MAX):
            return await peer.enter(f"crowd-{self.host}")

    def next_name(self, kind: str) -> str:
        return f"{kind}{self.host.replace('.', 'x')}n{self.next_number()}"

    def next_number(self) -> int:
        self.number += 1
        return int(self.host.rpartition(".")[2]) * 100_000_000 + self.number


NOISE: Any = define_types("struct Noise { 1: [key] uint32 id; 2: string text; }").Noise


def kind_of(reason: str) -> str:
    """A reason without its numbers and names."""
    words = [word for word in reason.split() if not any(c.isdigit() for c in word)]
    return " ".join(words)[-90:]


# -- what honest clients do


async def honest(place: str, host: str | None, secret: str | None, tally: Tally) -> None:
    """One after the other, until the time is over."""
    who = "unix" if host is None else host
    for number in itertools.count():
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(HONEST_S_MAX):
                fault = await one_round(place, host, secret, who, number)
        except (TimeoutError, OSError) as error:
            fault = f"{type(error).__name__} {error}"
        took_s = time.monotonic() - begun_s
        tally.slowest_s = max(tally.slowest_s, took_s)
        if fault and len(tally.violations) < VIOLATIONS_MAX:
            tally.violations.append(f"{who}, round {number}, after {took_s:.1f} s: {fault}")
        tally.seen[f"honest {who}"] += 1
        await asyncio.sleep(0.05)


async def one_round(place: str, host: str | None, secret: str | None, who: str, number: int) -> str:
    peer = await Peer.reach(place, host)
    try:
        if not await peer.enter(f"honest-{who}", secret):
            return f"not let in: {peer.reason}"
        # What is for all strangers may be used up; what is reserved never is.
        is_trusted = host is None or secret is not None
        name = f"Honest{who.replace('.', 'x')}n{number % 50}" if is_trusted else "HonestOther"
        text = f"struct {name} {{ 1: [key] uint32 id; 2: string text; }}"
        cls: Any = getattr(define_types(text), name)
        peer.connection.describe(cls.descriptor, 1.0)
        peer.connection.join(name, 1.0)
        if is_trusted:
            peer.connection.join(f"/honest/{who}/{number}", 1.0)
        peer.publish(cls(id=number % 100, text=str(number)))
        if not await peer.flush():
            return f"ended: {peer.reason}"
        if peer.refusals:
            return f"refused: {peer.refusals[0]}"
        return "" if peer.received[name] else "its own object did not come"
    finally:
        peer.close()


# -- the node


@contextlib.asynccontextmanager
async def node(folder: Path, tally: Tally) -> AsyncIterator[tuple[list[str], int]]:
    (folder / "node.toml").write_text(CONFIG, encoding="utf-8")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SKERRY_", "DOTS_"))}
    environ |= {"HOME": str(folder), "SKERRY_RUNTIME_DIR": str(folder / "run")}
    log = (folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skerry", "node", "run", "--config", str(folder / "node.toml")),
        *("--listen", f"uds:{folder}/node.sock", "--listen", "tcp://127.0.0.1:0"),
        *("--metrics", "off", "--storage", "none"),
        env=environ,
        stderr=log,
        cwd=folder,
    )
    try:
        async with asyncio.timeout(60):
            while b"listens at" not in (folder / "log").read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        text = (folder / "log").read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if "listens at" in line)
        yield line.partition("listens at ")[2].split(", "), process.pid
        if process.returncode is not None:
            tally.violations.append(f"the node ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        if await process.wait() != 0:
            tally.violations.append(f"the node ended with {process.returncode}")
        log.close()


def rss_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


async def watch(pid: int, tally: Tally) -> None:
    while True:
        tally.rss_bytes = max(tally.rss_bytes, rss_of(pid))
        await asyncio.sleep(0.2)


async def after(place: str, tally: Tally) -> None:
    """When all strangers are gone, their addresses have everything again."""
    for host in STRANGERS:
        crowd = Crowd(place, host, Random(1), tally)
        for count in range(3):
            # The node cleans up after clients step by step, so it may take a while.
            until_s = time.monotonic() + CLEANUP_S_MAX
            while fault := await come_again(crowd, f"/again/{count}"):
                if time.monotonic() > until_s:
                    tally.violations.append(f"{host} afterwards: {fault}")
                    break


async def come_again(crowd: Crowd, pattern: str) -> str:
    peer = await Peer.reach(crowd.place, crowd.host)
    await crowd.types_of(peer, 1000)
    peer.connection.join(pattern, 1.0)
    await peer.flush()
    peer.close()
    return f"{peer.reason} {peer.refusals[:1]}" if peer.reason or peer.refusals else ""


async def soak(minutes: float, seed: int) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        async with node(Path(name), tally) as ((unix, tcp), pid):
            rngs = (Random(f"{seed} {n}") for n in itertools.count())
            crowds = [Crowd(tcp, host, next(rngs), tally) for host in (*NOBODIES, *STRANGERS)]
            work = [crowd.run() for crowd in crowds for _ in range(WORKERS)]
            work += [honest(unix, None, None, tally), honest(tcp, KNOWN, "sesame", tally)]
            work += [honest(tcp, OTHER, None, tally), watch(pid, tally)]
            tasks = [asyncio.create_task(one) for one in work]
            done, _ = await asyncio.wait(
                tasks, timeout=minutes * 60, return_when=asyncio.FIRST_EXCEPTION
            )
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=30)
            for task in done:
                tally.violations.append(f"a task of the soak failed: {task.exception()!r}")
            async with asyncio.timeout(60):
                await after(tcp, tally)
    if tally.rss_bytes > RSS_BYTES_MAX:
        tally.violations.append(f"the node took {tally.rss_bytes} bytes, over {RSS_BYTES_MAX}")
    return tally


def run(minutes: float) -> dict[str, Any]:
    seed = time.time_ns() % 1_000_000
    tally = asyncio.run(soak(minutes, seed))
    return {
        "name": "shares",
        "seeds": 1,
        "faults": sum(tally.refused.values()),
        "inputs": sum(tally.seen.values()),
        "violations": [f"seed {seed}: {text}" for text in tally.violations],
        "notes": {
            "rss_mib": tally.rss_bytes // (1024 * 1024),
            "slowest_honest_round_s": round(tally.slowest_s, 2),
            "did": dict(tally.seen.most_common()),
            "refused": dict(tally.refused.most_common(20)),
        },
    }
